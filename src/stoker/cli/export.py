"""`stoker export`: finished tasks as CSV or JSON lines, to standard output or into a file.

A file appears whole or not at all: it is written beside its name and renamed at its end, and never
over another one unless that was said.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

import click
from typing_extensions import override

from .client import Client
from .command import command as declare
from .command import json_option, option
from .options import EXAMPLES, Quantity, Whole
from .say import refuse, tell, words
from .screen import clean
from .task_id import TaskId

if TYPE_CHECKING:
    from stoker.client.export import Export

LINES = (".jsonl", ".ndjson", ".json")
"""Names of files that hold JSON lines when nobody says otherwise."""


class Past(click.ParamType[datetime]):
    """`7d` ago, a day, or ISO 8601; without a zone as the clock on the wall shows."""

    name = "WHEN"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromisoformat(value).astimezone()
        with suppress(click.BadParameter, OverflowError):
            if not value.isdigit():
                seconds = Quantity("s").convert(value, param, ctx)
                return datetime.now().astimezone() - timedelta(seconds=seconds)
        examples = f"2026-11-01, 2026-11-01T22:00, {EXAMPLES['s']}"
        raise click.BadParameter(
            words("export.not_past", value=value, examples=examples), param=param
        )


@declare("export")
@click.argument("ids", type=TaskId(), nargs=-1, metavar="[ID...]")
@option("--format", "kind", type=click.STRING, metavar="csv|jsonl", help="opt.export-format")
@option("-n", "--last", type=Whole(), help="opt.export-last")
@option("--since", type=Past())
@option("--until", type=Past())
@option("--owner", metavar="NAME")
@option("--outcome", metavar="OUTCOME")
@option("--elements", is_flag=True, help="opt.export-elements")
@option("--columns", metavar="NAME[,NAME...]")
@option("-o", "--output", metavar="FILE", help="opt.export-output")
@option("--force", is_flag=True)
@json_option
def command(
    *,
    ids: tuple[str, ...],
    kind: str | None,
    last: int | None,
    since: datetime | None,
    until: datetime | None,
    owner: str | None,
    outcome: str | None,
    elements: bool,
    columns: str | None,
    output: str | None,
    force: bool,
    as_json: bool,
) -> None:
    if last is not None and last < 1:
        refuse("usage.at_least_one", "last")
    path = None if output in (None, "-") else output
    with Client() as client:
        export = client.export(
            ids,
            format=_format(kind, path, as_json),  # type: ignore[arg-type] # the server refuses others
            last=last,
            owner=owner,
            outcome=outcome,
            since=since,
            until=until,
            elements=elements,
            columns=[name.strip() for name in (columns or "").split(",") if name.strip()],
        )
        if path is None:
            _print(export)
            return
        with whole_file(path, force=force) as file:
            for piece in export:
                file.write(piece)
    if as_json:
        print(json.dumps({"file": path, "rows": export.rows}, ensure_ascii=False))
    else:
        tell("export.done", rows=export.rows, path=path)


@contextmanager
def whole_file(path: str, *, force: bool) -> Iterator[BinaryIO]:
    """A file that gets its name when the block has ended well; nothing is left of it otherwise."""
    target = os.path.realpath(path)
    _check_free(target, path, force)
    beside = f"{target}.part-{os.getpid()}"
    file = open(beside, "xb")  # noqa: SIM115 - closed below, before it gets its name
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _name(beside, target, path, force)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _name(beside: str, target: str, path: str, force: bool) -> None:
    """Give it its name; one that somebody made meanwhile is not lost either."""
    if not force:
        try:
            os.link(beside, target)
        except FileExistsError:
            refuse("export.exists", "output", path=path)
        except OSError:  # no such links on this file system
            _check_free(target, path, force)
        else:
            os.unlink(beside)
            return
    os.replace(beside, target)


def _check_free(target: str, path: str, force: bool) -> None:
    if os.path.isfile(target):
        if not force:
            refuse("export.exists", "output", path=path)
    elif os.path.exists(target):
        refuse("export.not_file", "output", path=path)


def _format(kind: str | None, path: str | None, as_json: bool) -> str:
    if kind is not None:
        return kind.lower()
    lines = path.lower().endswith(LINES) if path is not None else as_json
    return "jsonl" if lines else "csv"


def _print(export: Export) -> None:
    """Exactly as it is, but for a terminal, which would obey some of it."""
    if not sys.stdout.isatty():
        for piece in export:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    held = ""
    for piece in export:
        *lines, held = (held + decoder.decode(piece)).split("\n")
        for line in lines:
            print(clean(line.removesuffix("\r")))
