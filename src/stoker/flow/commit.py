"""The one door to the records for every step: apply the events, record, tell the streams."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from stoker.domain.errors import StoreDown
from stoker.domain.event import Deleted, Event
from stoker.domain.lifecycle import Task, apply
from stoker.store.base import Change

from .context import Flow

log = logging.getLogger("stoker.flow")


MOST_LINES = 20
"""A larger batch is one line in the log."""


def moved(task: Task, *events: Event, array_version: int | None = None) -> Change:
    """`task` after `events`, ready to be recorded."""
    for event in events:
        task = apply(task, event)
    return Change(task, events, array_version)


async def commit(flow: Flow, changes: Sequence[Change]) -> None:
    """Record all of `changes` or none. StaleWrite and StoreDown go to the caller.

    A caller that hangs up meanwhile stops nothing half-way: the store returns from a write that
    has begun, and the cancellation strikes at the next await, after the step's own acts.
    """
    await _recorded(flow, flow.store.record(changes))
    # Soon, not now: what follows from the commit is more urgent than the lines about it.
    asyncio.get_running_loop().call_soon(_log, changes)


async def erase(flow: Flow, tasks: Sequence[Task], deleted: Deleted) -> None:
    """Delete all of `tasks` or none, under the same terms."""
    await _recorded(flow, flow.store.erase(tasks, deleted))
    for task in tasks[:MOST_LINES]:
        log.info("event=Deleted task_id=%s by=%s", task.key, deleted.by)
    if len(tasks) > MOST_LINES:
        log.info("event=deleted tasks=%s by=%s", len(tasks), deleted.by)


async def _recorded(flow: Flow, write: Awaitable[int]) -> None:
    try:
        seq = await write
    except StoreDown as error:
        flow.store_problem = str(error.values.get("why", error.code))
        raise
    flow.store_problem = ""
    flow.news.publish(seq)


def _log(changes: Sequence[Change]) -> None:
    if len(changes) > MOST_LINES:
        log.info("event=recorded tasks=%s", len(changes))
        return
    for change in changes:
        task = change.task
        for event in change.events:
            log.info(
                "event=%s task_id=%s attempt=%s node=%s state=%s",
                type(event).__name__,
                task.key,
                task.attempt or "-",
                task.node or "-",
                task.state,
            )
