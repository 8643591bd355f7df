"""The one door to the records for every step: apply the events, record, tell the streams."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from stoker.domain.errors import StoreDown
from stoker.domain.event import Event
from stoker.domain.lifecycle import Task, apply
from stoker.store.base import Change

from .context import Flow

log = logging.getLogger("stoker.flow")


def moved(task: Task, *events: Event) -> Change:
    """`task` after `events`, ready to be recorded."""
    for event in events:
        task = apply(task, event)
    return Change(task, events)


async def commit(flow: Flow, changes: Sequence[Change]) -> None:
    """Record all of `changes` or none. StaleWrite and StoreDown go to the caller."""
    try:
        seq = await flow.store.record(changes)
    except StoreDown as error:
        flow.store_problem = str(error.values.get("why", error.code))
        raise
    flow.store_problem = ""
    flow.news.publish(seq)
    if log.isEnabledFor(logging.INFO):
        for change in changes:
            for event in change.events:
                log.info(
                    "event=%s task_id=%s attempt=%s node=%s state=%s",
                    type(event).__name__,
                    change.task.key,
                    change.task.attempt or "-",
                    change.task.node or "-",
                    change.task.state,
                )
