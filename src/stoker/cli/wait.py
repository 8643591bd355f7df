"""`stoker wait`: until tasks have ended. Exit code 0 when all succeeded, 1 when one did not.

124 when the time given by `--timeout` was not enough, as with timeout(1). Survives a restart of the
server.
"""

from __future__ import annotations

import sys

import msgspec

from stoker.wire import TaskView

from .client import Client
from .command import command as declare
from .command import json_option, option
from .options import Quantity
from .say import warn, words
from .screen import clean, colour
from .shown import between, state, state_colour, title
from .task_id import ids_argument

FAILED, TIMED_OUT = 1, 124


@declare("wait")
@ids_argument
@option("--timeout", type=Quantity("s"))
@json_option
def command(ids: tuple[str, ...], timeout: int | None, as_json: bool) -> int:
    wanted = tuple(dict.fromkeys(ids))
    try:
        with Client() as client:
            ended = client.wait(wanted, timeout)
    except TimeoutError:
        warn("wait.timeout", ids=", ".join(wanted))
        return TIMED_OUT
    tasks = [ended[id] for id in wanted]
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(tasks) + b"\n")
    else:
        for task in tasks:
            print(_line(task))
    return 0 if all(task.outcome == "succeeded" for task in tasks) else FAILED


def _line(task: TaskView) -> str:
    took = between(task.started_at, task.finished_at)
    key = "wait.ended_after" if took else "wait.ended"
    line = words(key, id=task.id, title=title(task), state=state(task), took=took)
    if task.outcome != "succeeded" and task.message:
        line += " " + clean(task.message)
    return colour(line, state_colour(task))
