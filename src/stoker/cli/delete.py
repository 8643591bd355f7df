"""`stoker delete`: waiting and finished tasks go for good, with their output and their history.

Never more than was asked for: what goes is shown first, recursively; a person on a terminal is
asked, and without one `--yes` is needed. What changes between question and answer stops it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click
import msgspec

from stoker.client import Refused
from stoker.wire import Deletion, TaskView

from .acting import REFUSED, complain
from .client import Client
from .command import command as declare
from .command import json_option, option
from .say import refuse, words
from .shown import state, title
from .task_id import ids_argument

MOST_SHOWN = 20


class Going(NamedTuple):
    """A task that was named, and the tasks that wait for it."""

    task: TaskView
    successors: list[TaskView]


@declare("delete")
@ids_argument
@option("--with-successors", is_flag=True)
@option("-y", "--yes", is_flag=True)
@json_option
def command(ids: tuple[str, ...], with_successors: bool, yes: bool, as_json: bool) -> int:
    wanted = tuple(dict.fromkeys(ids))
    with Client() as client:
        if not yes:
            _ask(client, wanted, with_successors, as_json)
        return _delete(client, wanted, with_successors, as_json)


def preview(found: Sequence[Going], with_successors: bool) -> Iterator[str]:
    """What goes, and what would be left waiting."""
    named = {going.task.id for going in found}
    waiting = {one.id: one for going in found for one in going.successors if one.id not in named}
    gone = [going.task for going in found] + (list(waiting.values()) if with_successors else [])
    yield words("delete.goes", count=len(gone))
    yield from _rows(gone)
    if waiting and not with_successors:
        yield words("delete.left", count=len(waiting))
        yield from _rows(list(waiting.values()))


def _ask(client: Client, ids: Sequence[str], with_successors: bool, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        refuse("delete.needs_yes")
    found = _look(client, ids)
    for line in preview(found, with_successors):
        print(line)
    click.confirm(words("delete.confirm"), abort=True)
    if with_successors and _all(_look(client, ids)) - _all(found):
        refuse("delete.changed")


def _look(client: Client, ids: Sequence[str]) -> list[Going]:
    return [Going(client.task(id, waits=False).task, client.successors(id)) for id in ids]


def _all(found: Sequence[Going]) -> set[str]:
    return {task.id for going in found for task in (going.task, *going.successors)}


def _delete(client: Client, ids: Sequence[str], with_successors: bool, as_json: bool) -> int:
    gone: dict[str, None] = {}
    code = 0
    for id in ids:
        if id in gone:  # it waited for another one that was named
            continue
        try:
            deleted = client.delete(id, with_successors=with_successors)
        except Refused as error:
            complain(id, error)
            code = REFUSED
            continue
        gone.update(dict.fromkeys(deleted))
    if as_json:
        answer = Deletion(deleted=tuple(gone))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    elif gone:
        print(words("delete.done", ids=", ".join(gone)))
    return code


def _rows(tasks: Sequence[TaskView]) -> Iterator[str]:
    for task in tasks[:MOST_SHOWN]:
        yield "  " + words("delete.task", id=task.id, title=title(task), state=state(task))
    if len(tasks) > MOST_SHOWN:
        yield "  " + words("list_more", count=len(tasks) - MOST_SHOWN)
