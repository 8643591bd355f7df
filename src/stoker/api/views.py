"""From records to what travels, with the sentences in the reader's language. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import cast

import msgspec
from msgspec import Raw

from stoker import text
from stoker.domain.attempt import Attempt
from stoker.domain.lifecycle import Task
from stoker.domain.outcome import End
from stoker.store.readers import EventRow, ListedRow, View
from stoker.wire import AttemptView, EventView, TaskView


class _Limit(msgspec.Struct):
    time_limit_s: int | None = None


_decode_limit = msgspec.json.Decoder(_Limit).decode


def task_view(task: Task, language: str) -> TaskView:
    """A task that flow gave us."""
    return shown_in(language)(
        str(task.key),
        task.owner,
        task.state,
        task.version,
        task.submitted_at,
        task.attempts,
        task.started_at,
        task.finished_at,
        task.node,
        task.gpu_ids,
        task.stopped_by,
        task.end,
        Raw(msgspec.json.encode(task.spec)),
    )


@cache
def shown_in(language: str) -> View[TaskView]:
    """How a row becomes a TaskView in this language."""

    def show(  # noqa: PLR0917 - the order is the readers'
        id: str,
        owner: str,
        state: str,
        version: int,
        submitted_at: datetime,
        attempts: int,
        started_at: datetime | None,
        finished_at: datetime | None,
        node: str | None,
        gpu_ids: tuple[int, ...],
        stopped_by: str | None,
        end: End | None,
        spec: Raw,
        /,
    ) -> TaskView:
        outcome = reason = message = exit_code = signal = None
        if end is not None:
            outcome, reason, exit_code, signal = end.outcome, end.reason, end.exit_code, end.signal
            limit_s = _decode_limit(spec).time_limit_s if reason == "time_limit" else None
            message = _sentence(
                reason, end.detail, exit_code, signal, stopped_by, limit_s, language
            )
        return TaskView(
            id=id,
            owner=owner,
            state=state,
            version=version,
            submitted_at=submitted_at,
            attempts=attempts,
            started_at=started_at,
            finished_at=finished_at,
            node=node,
            gpu_ids=gpu_ids,
            outcome=outcome,
            reason=reason,
            message=message,
            exit_code=exit_code,
            signal=signal,
            stopped_by=stopped_by,
            spec=spec,
        )

    return show


def listed(rows: Sequence[ListedRow], language: str) -> tuple[TaskView, ...]:
    """Rows of a list, put together as JSON: what is in them is never taken apart again."""
    views = [
        f'{shown[:-1]},"message":{_about(why, language)},"spec":{spec}}}'
        for shown, why, spec in rows
    ]
    return cast("tuple[TaskView, ...]", Raw(f"[{','.join(views)}]".encode()))


@lru_cache(1024)
def _about(why: str | None, language: str) -> str:
    """The sentence about an end, as JSON. Kept, because a list has few different ends."""
    if why is None:
        return "null"
    return msgspec.json.encode(_sentence(*msgspec.json.decode(why), language)).decode()


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


@lru_cache(1024)
def _sentence(  # noqa: PLR0917 - a key of the cache, never named
    reason: str,
    detail: str,
    exit_code: int | None,
    signal: int | None,
    by: str | None,
    limit: int | None,
    language: str,
) -> str:
    """Why it ended. Kept, because a list has few different ends."""
    values = {
        "detail": detail,
        "exit_code": exit_code,
        "signal": signal,
        "by": by,
        "limit": limit,
    }
    return text.reason(reason, values, language)
