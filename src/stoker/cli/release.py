"""`stoker release`: held tasks take part in the line again."""

from __future__ import annotations

from stoker.client import Client

from .acting import act
from .command import command as declare
from .command import json_option
from .task_id import ids_argument


@declare("release")
@ids_argument
@json_option
def command(ids: tuple[str, ...], as_json: bool) -> int:
    with Client() as client:
        return act(ids, client.release, "release.done", as_json)
