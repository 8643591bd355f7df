"""`stoker share`: where a person stands among the others, and why, in words; and everybody's share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import msgspec

from stoker.wire_share import ShareRow, ShareView

from .client import Client
from .command import command as declare
from .command import json_option
from .say import words
from .screen import clean, table, terminal_width

COLUMNS = ("person", "place", "weight", "cards", "foreign", "used", "waiting")


@declare("share")
@click.argument("name", required=False, metavar="[NAME]")
@json_option
def command(name: str | None, as_json: bool) -> None:
    with Client() as client:
        found = client.share(name or "")
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return
    for line in lines(found):
        print(line)


def lines(found: ShareView) -> Iterator[str]:
    """The sentences, then the table."""
    for sentence in found.sentences:
        yield from table([[clean(sentence)]], columns=terminal_width(), wrapped=True)
    if len(found.table) > 1:
        yield ""
        yield from _table(found)


def _table(found: ShareView) -> list[str]:
    """Columns that say nothing are left out."""
    foreign = any(row.foreign for row in found.table)
    used = found.policy == "fairshare"
    shown = [c for c in COLUMNS if (c != "foreign" or foreign) and (c != "used" or used)]
    rows = [[words(f"share.column.{name}") for name in shown]]
    rows += [[_cell(name, row, found.person) for name in shown] for row in found.table]
    tints = [["bold"] * len(shown)]
    tints += [["bold" if row.person == found.person else ""] * len(shown) for row in found.table]
    return table(rows, colours=tints, columns=terminal_width())


def _cell(column: str, row: ShareRow, mine: str) -> str:
    value = getattr(row, column)
    if column == "person":
        return clean(f"{value} *" if value == mine else value)
    return "-" if value is None else f"{value:g}"
