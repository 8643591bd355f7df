"""`stoker release`: held tasks take part in the line again; with `--anyway` also those that wait for
another task in vain."""

from __future__ import annotations

from functools import partial

from .acting import act
from .client import Client
from .command import command as declare
from .command import json_option, option
from .task_id import ids_argument


@declare("release")
@ids_argument
@option("--anyway", is_flag=True)
@json_option
def command(ids: tuple[str, ...], anyway: bool, as_json: bool) -> int:
    with Client() as client:
        return act(ids, partial(client.release, anyway=anyway), "release.done", as_json)
