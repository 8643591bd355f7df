"""From records to what travels, with the sentences in the reader's language. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import msgspec
from msgspec import Raw

from stoker import text
from stoker.domain.attempt import Attempt
from stoker.domain.lifecycle import Task
from stoker.store.readers import EventRow, ListedRow, listed_row
from stoker.wire import AttemptView, EventView, TaskView


def task_view(task: Task, language: str) -> TaskView:
    """A task that flow gave us."""
    return shown(listed_row(task), language)


def listed(rows: Sequence[ListedRow], language: str) -> tuple[TaskView, ...]:
    """Rows of a list, put together as JSON: what is in them is never taken apart again."""
    views = ",".join([_json(row, language) for row in rows])
    return cast("tuple[TaskView, ...]", Raw(f"[{views}]".encode()))


def shown(row: ListedRow, language: str) -> TaskView:
    """One of them."""
    return cast("TaskView", Raw(_json(row, language).encode()))


def _json(row: ListedRow, language: str) -> str:
    known, why, spec = row
    return f'{known[:-1]},"message":{_about(why, language)},"spec":{spec}}}'


@lru_cache(1024)
def _about(why: str | None, language: str) -> str:
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


def event_views(rows: Sequence[EventRow]) -> tuple[EventView, ...]:
    return tuple(
        EventView(seq=row.seq, task=row.task, event=row.event, at=row.at, values=row.values)
        for row in rows
    )
