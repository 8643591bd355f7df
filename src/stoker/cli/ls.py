"""`stoker ls`: the tasks that wait or run; with `-a` all of them, the newest first.

An array is one line, with how far it is; `stoker ls ID` lists its elements.
"""

from __future__ import annotations

import sys
from itertools import islice

import click
import msgspec

from stoker.wire import TaskView

from .client import Client
from .command import command as declare
from .command import json_option, option
from .options import Whole
from .say import refuse, tell, words
from .screen import clean, table, terminal_width
from .shown import ago, gpus, own_account, progress, since, state, state_colour, time_left, title
from .task_id import TaskId

MOST_SHOWN = 100
"""Rows on a terminal when nobody said how many."""
ORDER = {"RUNNING": 0, "STOPPING": 0, "STARTING": 1, "QUEUED": 2, "HELD": 3}


@declare("ls")
@click.argument("id", type=TaskId(), required=False, metavar="[ID]")
@option("-a", "--all", "all_tasks", is_flag=True)
@option("-s", "--state", "states", multiple=True, metavar="STATE")
@option("-n", "--most", type=Whole())
@option("--elements", is_flag=True)
@json_option
def command(
    *,
    id: str | None,
    all_tasks: bool,
    states: tuple[str, ...],
    most: int | None,
    elements: bool,
    as_json: bool,
) -> None:
    if most is not None and most < 1:
        refuse("usage.at_least_one", "most")
    wanted = [_state(name) for name in states]
    limit = most if as_json or most is not None else MOST_SHOWN
    with Client() as client:
        if id is not None:
            _list_elements(client, id, wanted, limit, as_json)
            return
        found = client.tasks(
            state=wanted or ([] if all_tasks else ["unfinished"]),
            elements=elements,
            sort="-id" if all_tasks else "position",
            page=_page(limit),
        )
        tasks = list(islice(found, None if limit is None else limit + 1))
    if not as_json and not tasks:
        tell("ls.none" if all_tasks or states else "ls.none_unfinished")
        return
    shown = tasks[:limit]
    if not all_tasks and not as_json:
        shown.sort(key=lambda task: ORDER.get(task.state, 9))
    _print(shown, as_json)
    _print_more(tasks, limit, as_json)


def _list_elements(
    client: Client, id: str, wanted: list[str], limit: int | None, as_json: bool
) -> None:
    """Elements of an array that are tasks of their own, by index; of another task itself."""
    task = client.task(id, waits=False).task
    if task.array is None:
        _print([task], as_json)
        return
    found = client.tasks(state=wanted, array=id, sort="id", page=_page(limit))
    tasks = list(islice(found, None if limit is None else limit + 1))
    if not as_json:
        tell("ls.array", id=id, title=title(task), progress=progress(task.array))
    if tasks or as_json:
        _print(tasks[:limit], as_json)
    _print_more(tasks, limit, as_json)
    unborn = task.array.waiting - sum(one.state in ("HELD", "QUEUED") for one in tasks)
    if not as_json and not wanted and unborn > 0 and len(tasks) <= (limit or len(tasks)):
        tell("ls.folded", count=unborn)


def _print(tasks: list[TaskView], as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(tasks) + b"\n")
        return
    for line in lines(tasks, own_account()):
        print(line)


def _print_more(tasks: list[TaskView], limit: int | None, as_json: bool) -> None:
    if not as_json and limit is not None and len(tasks) > limit:
        tell("ls.more", most=limit)


def lines(tasks: list[TaskView], me: str) -> list[str]:
    """A table of tasks, fitted to the terminal; whose they are, if any is not of `me`."""
    names = ["id", "state", "since", "gpus", "node", "task"]
    rows = [
        [task.id, state(task), ago(since(task)), gpus(task), clean(task.node or "-"), _text(task)]
        for task in tasks
    ]
    tints = [["", state_colour(task), "", "", "", ""] for task in tasks]
    if any(task.reduced or task.owner != me for task in tasks):
        names.insert(1, "owner")
        for task, row, tint in zip(tasks, rows, tints, strict=True):
            row.insert(1, clean(task.owner))
            tint.insert(1, "")
    head = [words(f"ls.{name}") for name in names]
    tints.insert(0, ["bold"] * len(head))
    return table([head, *rows], colours=tints, columns=terminal_width())


def _text(task: TaskView) -> str:
    about = title(task)
    if task.array is not None:
        return f"[{progress(task.array)}] {about}"
    if task.message and task.outcome not in (None, "succeeded"):
        return f"{about}: {clean(task.message)}"
    left = time_left(task)
    return f"[{left}] {about}" if left else about


def _state(name: str) -> str:
    """States are typed in any case; groups are `waiting`, `live`, `unfinished`, `finished`."""
    from stoker.domain.lifecycle import State

    return name.upper() if name.upper() in State.__members__ else name.lower()


def _page(limit: int | None) -> int:
    return min(200, limit + 1) if limit is not None else 200
