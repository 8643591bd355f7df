"""What is left of another person's task, attempt or event for somebody who may only see it.

Everything here names what is shown, never what is hidden: a field, an event or a column that comes
later stays private until somebody writes it down here. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw, structs

from stoker.domain.outcome import End
from stoker.domain.task import TaskSpec
from stoker.store.readers import EventRow, ListedRow
from stoker.wire import AttemptView, EventView

Level = Literal["queue", "all"]

QUEUE_FIELDS = frozenset({
    "name", "gpus", "gpu_ids", "gpu_model", "mode", "gpu_memory_mib", "gpu_free_percent", "cpus",
    "memory_mib", "nodes", "node", "queue", "urgent", "priority", "time_limit_s", "after",
    "start_after", "hold",
})  # fmt: skip
"""What it is called, what it asks for, and what it waits for."""
ALL_FIELDS = QUEUE_FIELDS | {
    "command", "description", "workdir", "environment", "stdout", "stderr", "gpu_id_args",
    "grace_s", "lease_s", "retries", "requeue_on_loss", "array", "sweep",
}  # fmt: skip
"""Everything but `env` and `notify`, which may hold secrets."""
FIELDS: Mapping[Level, frozenset[str]] = {"queue": QUEUE_FIELDS, "all": ALL_FIELDS}

EVENT_FIELDS = frozenset({
    "owner", "position", "origin", "submitted_at", "held", "anyway", "by", "allocation", "cause",
    "not_before", "retry", "counts",
})  # fmt: skip
"""Of an event, beside how an attempt ended (`end`), which is reduced itself."""
TOLD_DETAILS = frozenset({"elements_failed", "killed_by_signal"})
"""Reasons whose detail is a number or a signal. Details of others come from the output."""

_BLANK: dict[str, Any] = msgspec.to_builtins(TaskSpec(command=""))


class _Known(msgspec.Struct):
    """What lists show of a task beside its spec (`store.codec.shown`)."""

    id: str
    owner: str
    state: str
    version: int
    submitted_at: str
    attempts: int
    started_at: str | None
    finished_at: str | None
    node: str | None
    gpu_ids: tuple[int, ...]
    outcome: str | None
    reason: str | None
    exit_code: int | None
    signal: int | None
    stopped_by: str | None
    origin: str | None
    array: Raw
    sweep: dict[str, str] | None = None
    reduced: bool = True


_decode_known = msgspec.json.Decoder(_Known).decode
_encode = msgspec.json.Encoder().encode


def row_for(row: ListedRow, level: Level) -> ListedRow:
    """The row of a list as others see it."""
    known, why, spec = row
    task = _decode_known(known)
    if level != "all":
        task.sweep = None
    said = _encode(task).decode()
    return said, _without_detail(why), _spec(spec, FIELDS[level])


def attempt_for(attempt: AttemptView) -> AttemptView:
    """Its id names its files on the node, and its output."""
    end = None if attempt.end is None else _end(attempt.end)
    return structs.replace(attempt, id="", end=end)


def event_for(row: EventRow) -> EventView:
    values: dict[str, Any] = msgspec.json.decode(row.values)
    shown = {name: value for name, value in values.items() if name in EVENT_FIELDS}
    if isinstance(values.get("end"), dict):
        shown["end"] = _end(msgspec.convert(values["end"], End))
    return EventView(seq=row.seq, task=row.task, event=row.event, at=row.at, values=shown)


def _end(end: End) -> End:
    detail = end.detail if end.reason in TOLD_DETAILS else ""
    return End(
        outcome=end.outcome,
        reason=end.reason,
        detail=detail,
        exit_code=end.exit_code,
        signal=end.signal,
    )


@lru_cache(1024)
def _without_detail(why: str | None) -> str | None:
    """What the sentence about an end is made of, in the order of `codec.why`."""
    if why is None:
        return None
    reason, detail, *rest = msgspec.json.decode(why)
    return _encode((reason, detail if reason in TOLD_DETAILS else "", *rest)).decode()


def _spec(spec: str, fields: frozenset[str]) -> str:
    said = cast("dict[str, Any]", msgspec.json.decode(spec))
    shown = _BLANK | {name: value for name, value in said.items() if name in fields}
    return _encode(shown).decode()
