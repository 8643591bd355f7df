"""Finished tasks as rows of a table: which columns there are, and how CSV and JSON lines say them.

The order of COLUMNS is the order of every file; new ones go to the end. A spreadsheet must never
take what a person typed for a formula: such cells get an apostrophe. Environments of tasks are not
among the columns: they may hold secrets. Pure.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct, structs

from stoker.domain.indices import Indices, read_array
from stoker.domain.key import TaskKey
from stoker.store.finished import FinishedRow

from .views import about_end

Column = Literal[
    "id", "name", "owner", "state", "outcome", "reason", "exit_code", "submitted", "started",
    "finished", "waited_s", "ran_s", "node", "gpus", "gpu_ids", "gpu_hours", "queue", "command",
    "workdir", "attempts", "origin", "signal", "stopped_by", "message", "cpu_s", "max_rss_mib",
    "description", "elements", "succeeded", "failed", "cancelled", "timed_out", "lost",
]  # fmt: skip
COLUMNS: tuple[Column, ...] = get_args(Column)
BOM = b"\xef\xbb\xbf"
"""Without it Excel reads Chinese in CSV as something else."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A cell that begins so is a formula to some spreadsheet, or becomes one when it is trimmed."""
US = 1_000_000


class _Array(Struct, frozen=True):
    size: int
    counts: dict[str, int] | None


class _Shown(Struct, frozen=True):
    """What the records keep ready of a task (`store.codec.shown`)."""

    id: str
    owner: str
    state: str
    submitted_at: datetime
    attempts: int
    started_at: datetime | None
    finished_at: datetime
    node: str | None
    gpu_ids: tuple[int, ...]
    outcome: str
    reason: str
    exit_code: int | None
    signal: int | None
    stopped_by: str | None
    origin: str | None
    array: _Array | None


class _Spec(Struct, frozen=True):
    command: tuple[str, ...] | str
    name: str = ""
    description: str = ""
    workdir: str = "/"
    gpus: int = 0
    queue: str = ""
    array: str = ""


class _End(Struct, frozen=True):
    cpu_s: float | None = None
    max_rss_mib: int | None = None


class Item(Struct, frozen=True):
    """One finished task, decoded."""

    task: _Shown
    spec: _Spec
    end: _End
    why: str | None
    ran_us: int
    held_us: int

    @property
    def is_array(self) -> bool:
        return self.task.array is not None

    @property
    def indices(self) -> Indices:
        """Of an array: which elements it has."""
        array = read_array(self.spec.array)
        return Indices() if array is None else array.indices


_shown = msgspec.json.Decoder(_Shown).decode
_spec = msgspec.json.Decoder(_Spec).decode
_end = msgspec.json.Decoder(_End).decode
_encode = msgspec.json.Encoder().encode


def item_of(row: FinishedRow) -> Item:
    end = _End() if row.end is None else _end(row.end)
    return Item(_shown(row.shown), _spec(row.spec), end, row.why, row.ran_us, row.held_us)


def never_began(array: Item, id: int, element: int) -> Item:
    """An element that nothing had happened to when its array was cancelled: it is no row."""
    task = structs.replace(
        array.task,
        id=str(TaskKey(id, element)),
        outcome="cancelled",
        reason="cancelled",
        array=None,
    )
    why = _encode(("cancelled", "", None, None, task.stopped_by, None)).decode()
    return Item(task, array.spec, _End(), why, 0, 0)


def csv_head(columns: Sequence[Column]) -> bytes:
    """The mark of UTF-8, and the names."""
    return BOM + _csv([columns])


def csv_rows(items: Iterable[Item], columns: Sequence[Column], language: str) -> bytes:
    makers = [_CELLS[name] for name in columns]
    return _csv([_plain(make(item, language)) for make in makers] for item in items)


def json_lines(items: Iterable[Item], columns: Sequence[Column], language: str) -> bytes:
    makers = [(name, _CELLS[name]) for name in columns]
    lines = [_encode({name: make(item, language) for name, make in makers}) for item in items]
    return b"".join(line + b"\n" for line in lines)


def _csv(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _plain(value: object) -> object:
    """A value as a cell. Several are separated by spaces: a comma would make `0,1` a number."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA) else value
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return value


def _at(moment: datetime | None) -> str | None:
    """To the millisecond, in UTC."""
    if moment is None:
        return None
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _waited_s(item: Item, _language: str) -> float | None:
    """Until it last started, or to its end if it never did. A clock that was set back: none."""
    task = item.task
    if task.array is not None:
        return None
    waited = (task.started_at or task.finished_at) - task.submitted_at
    return max(0.0, round(waited.total_seconds(), 3))


def _command(item: Item, _language: str) -> str:
    """As one could type it."""
    command = item.spec.command
    return command if isinstance(command, str) else shlex.join(command)


def _message(item: Item, language: str) -> str | None:
    said: str | None = msgspec.json.decode(about_end(item.why, language))
    return said


def _count(outcome: str) -> Callable[[Item, str], int | None]:
    def count(item: Item, _language: str) -> int | None:
        array = item.task.array
        return None if array is None else (array.counts or {}).get(outcome, 0)

    return count


_CELLS: dict[Column, Callable[[Item, str], Any]] = {
    "id": lambda item, _: item.task.id,
    "name": lambda item, _: item.spec.name,
    "owner": lambda item, _: item.task.owner,
    "state": lambda item, _: item.task.state,
    "outcome": lambda item, _: item.task.outcome,
    "reason": lambda item, _: item.task.reason,
    "exit_code": lambda item, _: item.task.exit_code,
    "submitted": lambda item, _: _at(item.task.submitted_at),
    "started": lambda item, _: _at(item.task.started_at),
    "finished": lambda item, _: _at(item.task.finished_at),
    "waited_s": _waited_s,
    "ran_s": lambda item, _: round(item.ran_us / US, 3),
    "node": lambda item, _: item.task.node,
    "gpus": lambda item, _: item.spec.gpus,
    "gpu_ids": lambda item, _: item.task.gpu_ids,
    "gpu_hours": lambda item, _: round(item.held_us / US / 3600, 6),
    "queue": lambda item, _: item.spec.queue,
    "command": _command,
    "workdir": lambda item, _: item.spec.workdir,
    "attempts": lambda item, _: None if item.is_array else item.task.attempts,
    "origin": lambda item, _: item.task.origin,
    "signal": lambda item, _: item.task.signal,
    "stopped_by": lambda item, _: item.task.stopped_by,
    "message": _message,
    "cpu_s": lambda item, _: item.end.cpu_s,
    "max_rss_mib": lambda item, _: item.end.max_rss_mib,
    "description": lambda item, _: item.spec.description,
    "elements": lambda item, _: item.task.array and item.task.array.size,
    "succeeded": _count("succeeded"),
    "failed": _count("failed"),
    "cancelled": _count("cancelled"),
    "timed_out": _count("timed_out"),
    "lost": _count("lost"),
}
