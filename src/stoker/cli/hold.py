"""`stoker hold`: waiting tasks stay in line but do not start until released."""

from __future__ import annotations

from .acting import act
from .client import Client
from .command import command as declare
from .command import json_option
from .task_id import ids_argument


@declare("hold")
@ids_argument
@json_option
def command(ids: tuple[str, ...], as_json: bool) -> int:
    with Client() as client:
        return act(ids, client.hold, "hold.done", as_json)
