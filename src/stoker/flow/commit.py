"""The one door to the records for every step: apply the events, record, tell the streams."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from stoker.domain.errors import StoreDown
from stoker.domain.event import Event
from stoker.domain.lifecycle import Task, apply
from stoker.store.base import Change

from .context import Flow

log = logging.getLogger("stoker.flow")


MOST_LINES = 20
"""A larger batch is one line in the log."""


def moved(task: Task, *events: Event) -> Change:
    """`task` after `events`, ready to be recorded."""
    for event in events:
        task = apply(task, event)
    return Change(task, events)


async def commit(flow: Flow, changes: Sequence[Change]) -> None:
    """Record all of `changes` or none. StaleWrite and StoreDown go to the caller.

    A caller that hangs up meanwhile stops nothing half-way: the store returns from a write that
    has begun, and the cancellation strikes at the next await, after the step's own acts.
    """
    try:
        seq = await flow.store.record(changes)
    except StoreDown as error:
        flow.store_problem = str(error.values.get("why", error.code))
        raise
    flow.store_problem = ""
    flow.news.publish(seq)
    # Soon, not now: what follows from the commit is more urgent than the lines about it.
    asyncio.get_running_loop().call_soon(_log, changes)


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
