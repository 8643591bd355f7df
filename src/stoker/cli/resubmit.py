"""`stoker resubmit`: the same task once more, with a number of its own. Those that wait follow it."""

from __future__ import annotations

from stoker.client import Client
from stoker.wire import Created

from .acting import each
from .command import command as declare
from .command import json_option
from .say import words
from .task_id import ids_argument


@declare("resubmit")
@ids_argument
@json_option
def command(ids: tuple[str, ...], as_json: bool) -> int:
    with Client() as client:
        return each(ids, client.resubmit, _line, as_json)


def _line(id: str, created: Created) -> str:
    return words("resubmit.done", id=id, new=created.id)
