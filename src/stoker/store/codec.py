"""Between domain values and rows. Pure; no SQL.

Rows are tuples in the order of the columns of `tables`. An event is stored as columns (when, what),
a body with its own fields, and the spec apart. What is encoded here is decoded here: both
directions stand side by side, and `checks` compares rows made from replayed events with stored
ones.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any

import msgspec

from stoker.domain.attempt import Attempt
from stoker.domain.event import EVENTS, Event, Placed
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.node import Allocation, Incarnation
from stoker.domain.outcome import End
from stoker.domain.sweep import array_of, values
from stoker.domain.task import TaskSpec

Row = tuple[Any, ...]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_KINDS = {kind.__name__: kind for kind in EVENTS}
_BODY = {
    kind: tuple(f for f in kind.__struct_fields__ if f not in ("at", "spec")) for kind in EVENTS
}
NO_GPUS = "[]"
_STATES = {str(state): state for state in State}

_encode = msgspec.json.Encoder().encode
decode_spec = msgspec.json.Decoder(TaskSpec).decode
decode_end = msgspec.json.Decoder(End).decode
decode_gpu_ids = msgspec.json.Decoder(tuple[int, ...]).decode
_decode_counts = msgspec.json.Decoder(dict[str, int]).decode
_decode_allocation = msgspec.json.Decoder(Allocation).decode
_from_timestamp = datetime.fromtimestamp


def encode(value: object) -> str:
    """JSON, as text."""
    return _encode(value).decode()


def to_us(at: datetime) -> int:
    """Microseconds since 1970. Exact."""
    return (at - EPOCH) // _MICROSECOND


def from_us(us: int) -> datetime:
    """Exact too: a float of seconds is good to a quarter of a microsecond until 2200."""
    return _from_timestamp(us / 1e6, UTC)


def from_us_or_none(us: int | None) -> datetime | None:
    return None if us is None else _from_timestamp(us / 1e6, UTC)


# ---- tasks


class _ShownArray(msgspec.Struct, frozen=True):
    size: int | None
    counts: dict[str, int] | None


class _Shown(msgspec.Struct, frozen=True):
    """What lists show of a task, as they show it; only its spec and its sentence are added."""

    id: str
    owner: str
    state: str
    version: int
    submitted_at: datetime
    attempts: int
    started_at: datetime | None
    finished_at: datetime | None
    node: str | None
    gpu_ids: tuple[int, ...]
    outcome: str | None
    reason: str | None
    exit_code: int | None
    signal: int | None
    stopped_by: str | None
    origin: str | None
    array: _ShownArray | None


class _ShownElement(_Shown, frozen=True):
    """One of a sweep: only these have values."""

    sweep: dict[str, str]


def shown(task: Task) -> str:
    """Kept ready in the row, because a list is read far more often than a task moves."""
    end = task.end
    swept = task.element != PLAIN and task.spec.sweep
    kind = partial(_ShownElement, sweep=values(task.spec.sweep, task.element)) if swept else _Shown
    return encode(
        kind(
            str(task.key),
            task.owner,
            task.state,
            task.version,
            _utc(task.submitted_at),
            task.attempts,
            None if task.started_at is None else _utc(task.started_at),
            None if task.finished_at is None else _utc(task.finished_at),
            task.node,
            task.gpu_ids,
            None if end is None else end.outcome,
            None if end is None else end.reason,
            None if end is None else end.exit_code,
            None if end is None else end.signal,
            task.stopped_by,
            task.origin,
            _ShownArray(size_of(task), task.counts) if task.is_array else None,
        )
    )


def shown_at_first(id: int, owner: str, state: State, at: datetime) -> str:
    """`shown` of a plain task that has only been submitted, several times as fast."""
    return (
        f'{{"id":"{id}","owner":{quoted(owner)},"state":"{state}","version":1,'
        f'"submitted_at":{quoted(_utc(at))},"attempts":0,"started_at":null,"finished_at":null,'
        '"node":null,"gpu_ids":[],"outcome":null,"reason":null,"exit_code":null,"signal":null,'
        '"stopped_by":null,"origin":null,"array":null}'
    )


@lru_cache(64)
def quoted(value: str | datetime) -> str:
    """As JSON. A batch has one owner and one instant."""
    return encode(value)


def why(task: Task) -> str | None:
    """What the sentence about its end is made of, in whatever language; None while it has none."""
    end = task.end
    if end is None:
        return None
    return encode(
        (
            end.reason,
            end.detail,
            end.exit_code,
            end.signal,
            task.stopped_by,
            _limit(task, end) if end.reason == "time_limit" else None,
        )
    )


def _limit(task: Task, end: End) -> int | None:
    """The limit that it reached, as its node says: a longer one may have come too late for it."""
    return int(end.detail) if end.detail.isdecimal() else task.spec.time_limit_s


def changing_part(task: Task) -> Row:
    """The columns that a task's life changes: those of the UPDATE, and the end of its row."""
    end = task.end
    return (
        task.attempts,
        task.attempt,
        task.node,
        encode(task.gpu_ids) if task.gpu_ids else NO_GPUS,
        None if task.started_at is None else to_us(task.started_at),
        None if task.finished_at is None else to_us(task.finished_at),
        task.stop_cause,
        task.stopped_by,
        None if end is None else end.outcome,
        None if end is None else end.reason,
        None if end is None else encode(end),
        shown(task),
        why(task),
        int(task.anyway),
        None if task.not_before is None else to_us(task.not_before),
        task.retried,
        task.never_ran,
        None if task.counts is None else encode(task.counts),
    )


def size_of(task: Task) -> int | None:
    """How many elements an array has; None = it is none."""
    if not task.is_array:
        return None
    array = array_of(task.spec)
    return 0 if array is None else len(array.indices)


def _utc(at: datetime) -> datetime:
    return at if at.tzinfo is UTC else at.astimezone(UTC)


def row_of_task(task: Task, spec_seq: int) -> Row:
    return (
        task.id,
        task.element,
        int(task.element == PLAIN),
        task.owner,
        str(task.state),
        task.version,
        task.position,
        task.spec.name,
        spec_seq,
        to_us(task.submitted_at),
        *changing_part(task),
        task.origin,
        size_of(task),
    )


TASK_WIDTH = 31
"""Columns of a task with its spec."""


def task_of_row(row: Row, spec: TaskSpec) -> Task:
    (id, element, _is_whole, owner, state, version, position, _name, _spec_seq, submitted_us,
     attempts, attempt, node, gpu_ids, started_us, finished_us, stop_cause, stopped_by,
     _outcome, _reason, end, _shown, _why, anyway, not_before_us, retried, never_ran, counts,
     origin, _size) = row  # fmt: skip
    return Task(
        id=id,
        element=element,
        owner=owner,
        spec=spec,
        state=_STATES[state],
        version=version,
        position=position,
        submitted_at=from_us(submitted_us),
        attempts=attempts,
        attempt=attempt,
        node=node,
        gpu_ids=() if gpu_ids == NO_GPUS else decode_gpu_ids(gpu_ids),
        started_at=from_us_or_none(started_us),
        finished_at=from_us_or_none(finished_us),
        stop_cause=stop_cause,
        stopped_by=stopped_by,
        end=None if end is None else decode_end(end),
        origin=origin,
        anyway=bool(anyway),
        not_before=from_us_or_none(not_before_us),
        retried=retried,
        never_ran=never_ran,
        counts=None if counts is None else _decode_counts(counts),
    )


# ---- events


def body_of(event: Event) -> str:
    """The event's own fields. When, what and the spec are columns."""
    return encode({name: getattr(event, name) for name in _BODY[type(event)]})


def event_of(kind: str, at_us: int, body: str, spec: str | None) -> Event:
    values = msgspec.json.decode(body)
    values["at"] = from_us(at_us)
    if spec is not None:
        values["spec"] = msgspec.json.decode(spec)
    return msgspec.convert(values, _KINDS[kind])


# ---- attempts


def row_of_attempt(key: TaskKey, ordinal: int, event: Placed) -> Row:
    return (
        event.attempt,
        key.id,
        key.element,
        ordinal,
        event.allocation.node,
        encode(event.allocation),
        event.incarnation.boot_id,
        event.incarnation.spool_id,
        event.launch_number,
        event.epoch,
        to_us(event.at),
        None,
        None,
        None,
        int(key.element == PLAIN),
    )


def attempt_of_row(row: Row) -> Attempt:
    (id, task_id, element, ordinal, _node, allocation, boot_id, spool_id, launch_number, epoch,
     placed_us, started_us, ended_us, end, _is_whole) = row  # fmt: skip
    return Attempt(
        id=id,
        task_id=task_id,
        task_element=element,
        ordinal=ordinal,
        allocation=_decode_allocation(allocation),
        incarnation=Incarnation(boot_id, spool_id),
        launch_number=launch_number,
        epoch=epoch,
        placed_at=from_us(placed_us),
        started_at=from_us_or_none(started_us),
        ended_at=from_us_or_none(ended_us),
        end=None if end is None else decode_end(end),
    )
