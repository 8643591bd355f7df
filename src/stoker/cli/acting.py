"""Doing the same thing to several tasks: each is tried, refusals are said one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from stoker.client import Refused
from stoker.wire import TaskView

from .say import words
from .screen import clean
from .shown import state

REFUSED = 2

T = TypeVar("T")


def act(ids: Sequence[str], action: Callable[[str], TaskView], said: str, as_json: bool) -> int:
    """`action` on each; 2 when one was refused. `said` is the sentence for one that was not."""
    return each(ids, action, partial(_stands, said), as_json)


def each(
    ids: Sequence[str],
    action: Callable[[str], T],
    line: Callable[[str, T], str],
    as_json: bool,
) -> int:
    """The same with a line of its own for the id and what came of it."""
    done: list[T] = []
    code = 0
    for id in dict.fromkeys(ids):
        try:
            result = action(id)
        except Refused as error:
            complain(id, error)
            code = REFUSED
            continue
        done.append(result)
        if not as_json:
            print(line(id, result))
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")
    return code


def complain(id: str, error: Refused) -> None:
    """Why it was not done to this one."""
    advice = f" {error.hint}" if error.hint else ""
    print(f"stoker: {id}: {clean(error.message + advice)}", file=sys.stderr)


def _stands(said: str, _id: str, task: TaskView) -> str:
    return words(said, id=task.id, state=state(task))
