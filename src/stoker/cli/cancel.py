"""`stoker cancel`: ends tasks, wherever they are. Waiting ones end at once, running ones are asked, then killed."""

from __future__ import annotations

from .acting import act
from .client import Client
from .command import command as declare
from .command import json_option
from .task_id import ids_argument


@declare("cancel")
@ids_argument
@json_option
def command(ids: tuple[str, ...], as_json: bool) -> int:
    with Client() as client:
        return act(ids, client.cancel, "cancel.done", as_json)
