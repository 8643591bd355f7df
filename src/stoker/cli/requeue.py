"""`stoker requeue`: what runs of a task is ended, and the task waits in line again."""

from __future__ import annotations

from .acting import act
from .client import Client
from .command import command as declare
from .command import json_option
from .task_id import ids_argument


@declare("requeue")
@ids_argument
@json_option
def command(ids: tuple[str, ...], as_json: bool) -> int:
    with Client() as client:
        return act(ids, client.requeue, "requeue.done", as_json)
