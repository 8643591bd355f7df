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
from stoker.store.readers import EventRow, ListedRow
from stoker.wire import AttemptView, EventView, TaskView


def task_view(task: Task, language: str) -> TaskView:
    """A task that flow gave us."""
    end = task.end
    return TaskView(
        id=str(task.key),
        owner=task.owner,
        state=task.state,
        version=task.version,
        submitted_at=task.submitted_at,
        attempts=task.attempts,
        started_at=task.started_at,
        finished_at=task.finished_at,
        node=task.node,
        gpu_ids=task.gpu_ids,
        outcome=None if end is None else end.outcome,
        reason=None if end is None else end.reason,
        message=None
        if end is None
        else _sentence(
            end.reason,
            end.detail,
            end.exit_code,
            end.signal,
            task.stopped_by,
            task.spec.time_limit_s,
            language,
        ),
        exit_code=None if end is None else end.exit_code,
        signal=None if end is None else end.signal,
        stopped_by=task.stopped_by,
        spec=task.spec,
    )


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
    reason, detail, exit_code, signal, by, limit = msgspec.json.decode(why)
    sentence = _sentence(reason, detail, exit_code, signal, by, limit, language)
    return msgspec.json.encode(sentence).decode()


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


def _sentence(  # noqa: PLR0917 - the order of `tasks.why`
    reason: str,
    detail: str,
    exit_code: int | None,
    signal: int | None,
    by: str | None,
    limit: int | None,
    language: str,
) -> str:
    """Why it ended."""
    values = {
        "detail": detail,
        "exit_code": exit_code,
        "signal": signal,
        "by": by,
        "limit": limit,
    }
    return text.reason(reason, values, language)
