"""`stoker ls`: the tasks that wait or run; with `-a` all of them, the newest first."""

from __future__ import annotations

import sys
from itertools import islice

import msgspec

from stoker.client import Client
from stoker.wire import TaskView

from .command import command as declare
from .command import json_option, option
from .options import Whole
from .say import refuse, tell, words
from .screen import clean, table, terminal_width
from .shown import ago, gpus, since, state, state_colour, title

MOST_SHOWN = 100
"""Rows on a terminal when nobody said how many."""
ORDER = {"RUNNING": 0, "STOPPING": 0, "STARTING": 1, "QUEUED": 2, "HELD": 3}


@declare("ls")
@option("-a", "--all", "all_tasks", is_flag=True)
@option("-s", "--state", "states", multiple=True, metavar="STATE")
@option("-n", "--most", type=Whole())
@json_option
def command(all_tasks: bool, states: tuple[str, ...], most: int | None, as_json: bool) -> None:
    if most is not None and most < 1:
        refuse("usage.at_least_one", "most")
    wanted = [_state(name) for name in states] or ([] if all_tasks else ["unfinished"])
    limit = most if as_json or most is not None else MOST_SHOWN
    with Client() as client:
        found = client.tasks(
            state=wanted, sort="-id" if all_tasks else "position", page=_page(limit)
        )
        tasks = list(islice(found, None if limit is None else limit + 1))
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(tasks[:limit]) + b"\n")
        return
    if not tasks:
        tell("ls.none" if all_tasks or states else "ls.none_unfinished")
        return
    shown = tasks[:limit]
    if not all_tasks:
        shown.sort(key=lambda task: ORDER.get(task.state, 9))
    for line in lines(shown):
        print(line)
    if limit is not None and len(tasks) > limit:
        tell("ls.more", most=limit)


def lines(tasks: list[TaskView]) -> list[str]:
    """A table of tasks, fitted to the terminal."""
    head = [words(f"ls.{name}") for name in ("id", "state", "since", "gpus", "node", "task")]
    rows = [
        [task.id, state(task), ago(since(task)), gpus(task), clean(task.node or "-"), _text(task)]
        for task in tasks
    ]
    tints = [["bold"] * len(head)]
    tints += [["", state_colour(task), "", "", "", ""] for task in tasks]
    return table([head, *rows], colours=tints, columns=terminal_width())


def _text(task: TaskView) -> str:
    if task.message and task.outcome not in (None, "succeeded"):
        return f"{title(task)}: {clean(task.message)}"
    return title(task)


def _state(name: str) -> str:
    """States are typed in any case; groups are `waiting`, `live`, `unfinished`, `finished`."""
    from stoker.domain.lifecycle import State

    return name.upper() if name.upper() in State.__members__ else name.lower()


def _page(limit: int | None) -> int:
    return min(200, limit + 1) if limit is not None else 200
