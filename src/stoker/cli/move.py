"""`stoker move`: a waiting task gets another place in line."""

from __future__ import annotations

import sys
from typing import Literal

import msgspec

from .client import Client
from .command import command as declare
from .command import json_option, option
from .say import refuse, tell
from .task_id import TaskId, id_argument

Where = Literal["first", "last", "before", "after"]


@declare("move")
@id_argument
@option("--first", is_flag=True)
@option("--last", is_flag=True)
@option("--before", type=TaskId(), help="opt.move-before")
@option("--after", type=TaskId(), help="opt.move-after")
@json_option
def command(
    *, id: str, first: bool, last: bool, before: str | None, after: str | None, as_json: bool
) -> None:
    to, other = _where(first, last, before, after)
    with Client() as client:
        moved = client.move(id, to, other)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(moved) + b"\n")
    else:
        tell(f"move.{to}", id=id, other=other or "")


def _where(
    first: bool, last: bool, before: str | None, after: str | None
) -> tuple[Where, str | None]:
    wishes: list[tuple[Where, str | None]] = []
    if first:
        wishes.append(("first", None))
    if last:
        wishes.append(("last", None))
    if before is not None:
        wishes.append(("before", before))
    if after is not None:
        wishes.append(("after", after))
    if len(wishes) != 1:
        refuse("move.which")
    return wishes[0]
