"""`stoker resubmit`: the same task once more, with a number of its own. Those that wait follow it.

With `--failed` only the elements of an array that failed. Once the server has said yes, nothing
that fails afterwards makes this command fail.
"""

from __future__ import annotations

from functools import partial

from stoker.client import Refused, ServerUnreachable
from stoker.wire import Created

from .acting import each
from .client import Client
from .command import command as declare
from .command import json_option, option
from .say import words
from .task_id import ids_argument


@declare("resubmit")
@ids_argument
@option("--failed", is_flag=True)
@json_option
def command(ids: tuple[str, ...], failed: bool, as_json: bool) -> int:
    with Client() as client:
        line = partial(_failed_line, client) if failed else _line
        return each(ids, partial(client.resubmit, failed=failed), line, as_json)


def _line(id: str, created: Created) -> str:
    return words("resubmit.done", id=id, new=created.id)


def _failed_line(client: Client, id: str, created: Created) -> str:
    try:
        array = client.task(created.id, waits=False).task.array
    except (Refused, ServerUnreachable):
        array = None
    if array is None:
        return _line(id, created)
    return words("resubmit.failed", id=id, new=created.id, count=array.size)
