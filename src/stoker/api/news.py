"""Lines that everybody may read of what happened: made of events and the diary, never of the log.

A line says who, which task, where and how it ended; no command, no name, no output. Who may not
know of others' tasks gets no line about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from stoker import text
from stoker.domain.key import TaskKey, parse_key
from stoker.domain.lifecycle import Task
from stoker.flow.context import Flow
from stoker.flow.diary import Line
from stoker.store.readers import EventRow
from stoker.wire_admin import NewsLine

from .sight import Sight

CODES = {
    "Submitted": "submitted",
    "Started": "started",
    "Requeued": "requeued",
    "Ended": "ended",
    "Deleted": "deleted",
}
"""Events that are worth a line."""


class _End(msgspec.Struct):
    outcome: str = ""


class _Told(msgspec.Struct):
    """What a line takes from an event."""

    end: _End | None = None


async def of_tasks(
    flow: Flow, rows: Sequence[EventRow], sight: Sight, language: str
) -> list[NewsLine]:
    """What happened to tasks, as far as the caller may know of them. Rows must say their owner."""
    told = [(row, key) for row in rows if row.event in CODES and (key := parse_key(row.task))]
    found = await flow.store.tasks(list(dict.fromkeys(key for _, key in told)))
    tasks = {task.key: task for task in found}
    return [
        _line(row.at, CODES[row.event], _values(row, key, tasks.get(key)), language)
        for row, key in told
        if sight.may_know(row.owner)
    ]


def of_diary(lines: Sequence[Line], language: str) -> list[NewsLine]:
    """What happened to the lab itself."""
    return [_line(one.at, one.code, one.values, language) for one in lines]


def _values(row: EventRow, key: TaskKey, task: Task | None) -> dict[str, Any]:
    values: dict[str, Any] = {"task": str(key), "person": row.owner or "?"}
    if row.event == "Submitted":
        values["gpus"] = "?" if task is None else task.spec.gpus
    elif row.event == "Started":
        values["node"] = "?" if task is None else task.node or "?"
    elif row.event == "Ended":
        end = msgspec.json.decode(row.values, type=_Told).end
        values["outcome"] = "?" if end is None else end.outcome
    return values


def _line(at: datetime, code: str, values: dict[str, Any], language: str) -> NewsLine:
    key = f"news.{code}"
    if values.get("why"):
        key += ".why"
    return NewsLine(at=at, code=code, message=text.phrase(key, language, **values), values=values)
