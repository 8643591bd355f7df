"""`stoker extend`: another time limit for a task that waits or runs."""

from __future__ import annotations

import sys

import click
import msgspec

from stoker.wire import TaskView

from .client import Client
from .command import command as declare
from .command import json_option
from .options import Quantity
from .say import tell
from .shown import clock, ends_at, spec_of
from .task_id import id_argument

NONE = "none"
_TIME = Quantity("s")


@declare("extend")
@id_argument
@click.argument("limit", metavar="[+]TIME|none")
@json_option
@click.pass_context
def command(ctx: click.Context, *, id: str, limit: str, as_json: bool) -> None:
    parameter = ctx.command.params[1]
    with Client() as client:
        if limit.lower() == NONE:
            task = client.extend(id)
        elif limit.startswith("+"):
            task = client.extend(id, add_s=_TIME.convert(limit[1:], parameter, ctx))
        else:
            task = client.extend(id, limit_s=_TIME.convert(limit, parameter, ctx))
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(task) + b"\n")
    else:
        _say(task)


def _say(task: TaskView) -> None:
    limit_s, moment = spec_of(task).time_limit_s, ends_at(task)
    if limit_s is None:
        tell("extend.none", id=task.id)
    elif moment is not None:
        tell("extend.running", id=task.id, limit=limit_s, clock=clock(moment))
    elif task.array is not None:
        tell("extend.array", id=task.id, limit=limit_s)
    else:
        tell("extend.waiting", id=task.id, limit=limit_s)
