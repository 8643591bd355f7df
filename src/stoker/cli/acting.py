"""Doing the same thing to several tasks: each is tried, refusals are said one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import msgspec

from stoker.client import Refused
from stoker.wire import TaskView

from .say import words
from .screen import clean
from .shown import state

REFUSED = 2


def act(ids: Sequence[str], action: Callable[[str], TaskView], said: str, as_json: bool) -> int:
    """`action` on each; 2 when one was refused. `said` is the sentence for one that was not."""
    done: list[TaskView] = []
    code = 0
    for id in dict.fromkeys(ids):
        try:
            task = action(id)
        except Refused as error:
            advice = f" {error.hint}" if error.hint else ""
            print(f"stoker: {id}: {clean(error.message + advice)}", file=sys.stderr)
            code = REFUSED
            continue
        done.append(task)
        if not as_json:
            print(words(said, id=task.id, state=state(task)))
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")
    return code
