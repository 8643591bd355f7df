"""From records to what travels, with the sentences in the reader's language. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import Raw

from stoker import text
from stoker.domain.attempt import Attempt
from stoker.domain.key import TaskKey, parse_key
from stoker.domain.lifecycle import Task
from stoker.scheduler.explain import Explanation
from stoker.scheduler.fit import Reason
from stoker.store.readers import EventRow, ListedRow, listed_row
from stoker.wire import (
    ArrayCounts,
    AttemptView,
    EstimateView,
    EventView,
    HolderView,
    PlaceView,
    StartView,
    SuggestionView,
    TaskView,
    WaitReason,
    WhyView,
)

Counts = Callable[[int], ArrayCounts | None]
"""How an array that has not ended stands: that is not in its row."""

ARRAY = '"array":{'
"""In the text of a row when it is an array. Quotes inside a JSON text are escaped, so nobody's
name looks like it."""
SWEEP = '"sweep":'
"""The same, of an element that has values."""
_ARRAY = re.compile(r'"array":\{"size":[0-9]+,"counts":(?:null|\{[^{}]*\})\}')


def task_view(task: Task, language: str, counts: Counts) -> TaskView:
    """A task that flow gave us."""
    return shown(listed_row(task), language, counts)


def listed(rows: Sequence[ListedRow], language: str, counts: Counts) -> tuple[TaskView, ...]:
    """Rows of a list, put together as JSON: only arrays are taken apart again."""
    views = ",".join([_json(row, language, counts) for row in rows])
    return cast("tuple[TaskView, ...]", Raw(f"[{views}]".encode()))


def shown(row: ListedRow, language: str, counts: Counts) -> TaskView:
    """One of them."""
    return cast("TaskView", Raw(_json(row, language, counts).encode()))


def _json(row: ListedRow, language: str, counts: Counts) -> str:
    known, why, spec = row
    if ARRAY in known:
        known = _with_counts(known, counts)
    sweep = "" if SWEEP in known else f",{SWEEP}null"
    return f'{known[:-1]}{sweep},"message":{about_end(why, language)},"spec":{spec}}}'


class _Kept(msgspec.Struct):
    size: int
    counts: dict[str, int] | None


class _Array(msgspec.Struct):
    id: str
    array: _Kept


_decode_array = msgspec.json.Decoder(_Array).decode


def _with_counts(known: str, counts: Counts) -> str:
    """The row's text with all counts: its own when it has ended, else those of this moment."""
    row = _decode_array(known)
    kept, key = row.array, parse_key(row.id)
    found = None if kept.counts is not None or key is None else counts(key.id)
    if found is None:  # it has ended, or is about to
        found = ArrayCounts(size=kept.size, **(kept.counts or {}))
    said = msgspec.json.encode(found).decode()
    return _ARRAY.sub(lambda _: f'"array":{said}', known, count=1)


@lru_cache(1024)
def about_end(why: str | None, language: str) -> str:
    """The sentence about an end, as JSON. Kept, because a list has few different ends."""
    if why is None:
        return "null"
    reason, *values = msgspec.json.decode(why)  # in the order of `codec.why`
    told = dict(zip(("detail", "exit_code", "signal", "by", "limit"), values, strict=True))
    return msgspec.json.encode(text.reason(reason, told, language)).decode()


def attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        id=attempt.id,
        ordinal=attempt.ordinal,
        node=attempt.allocation.node,
        gpu_ids=tuple(gpu.index for gpu in attempt.allocation.gpus),
        placed_at=attempt.placed_at,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        end=attempt.end,
    )


def why_view(found: Explanation, language: str) -> WhyView:
    """Why it waits, in words."""
    starts = found.starts
    return WhyView(
        starts=None
        if starts is None
        else tuple(
            StartView(node=part.node, gpu_ids=tuple(gpu.index for gpu in part.gpus))
            for part in starts
        ),
        reasons=tuple(wait_reason(reason, language) for reason in found.reasons),
        holders=tuple(
            HolderView(
                task=str(one.task), owner=one.owner, node=one.node, gpu_ids=one.gpus, ends=one.ends
            )
            for one in found.holders
        ),
        place=None
        if found.place is None
        else PlaceView(ahead=found.place.ahead, more=found.place.more, waiting=found.place.waiting),
        estimate=EstimateView(
            at=found.estimate.at, basis=wait_reason(found.estimate.basis, language)
        ),
        suggestions=tuple(
            SuggestionView(
                code=one.code,
                values=(values := _plain(one.values)),
                message=text.message(one.code, values, language),
                options=_plain(one.options),
            )
            for one in found.suggestions
        ),
    )


NO_WAIT = WhyView(starts=None, reasons=(), holders=(), place=None, estimate=None, suggestions=())


def wait_reason(reason: Reason, language: str) -> WaitReason:
    values = _plain(reason.values)
    return WaitReason(
        code=reason.code, message=text.message(reason.code, values, language), values=values
    )


def _plain(values: dict[str, object]) -> dict[str, Any]:
    """A key is shown as its id."""
    return {
        name: str(value) if isinstance(value, TaskKey) else value for name, value in values.items()
    }


def event_views(rows: Sequence[EventRow]) -> tuple[EventView, ...]:
    """Their values are JSON already."""
    return tuple(
        EventView(seq=row.seq, task=row.task, event=row.event, at=row.at,
                  values=cast("dict[str, Any]", row.values))
        for row in rows
    )  # fmt: skip
