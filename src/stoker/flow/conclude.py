"""Arrays come to their end: what has begun of a cancelled one is stopped; what is over is recorded.

A step of the loop, for the arrays that `follow` has named. May be repeated; dying in between only
means that it is done after the restart.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from stoker.domain.errors import Conflict, StaleWrite, StoreDown, UnknownTask
from stoker.domain.event import Ended
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.outcome import End

from .arrays import CANCELLED, look_at, open_elements
from .commit import commit, moved
from .context import ArrayState, Flow
from .follow import follow
from .stop import cancel
from .tell import tell

log = logging.getLogger("stoker.flow")


async def conclude(flow: Flow) -> None:
    """Everything that can be said of these arrays now."""
    for id in sorted(flow.unsettled):
        flow.unsettled.discard(id)
        try:
            await _conclude(flow, id)
        except BaseException as error:
            flow.unsettled.add(id)
            if not isinstance(error, Exception):
                raise
            if not isinstance(error, StoreDown):  # a bug of ours must not hold up the others
                log.exception("event=array_not_concluded task_id=%s", id)


async def _conclude(flow: Flow, id: int) -> None:
    task = await flow.store.task(TaskKey(id))
    state = flow.arrays.get(id)
    if task is None or state is None:
        return
    if state.state is State.STOPPING:
        begun = open_elements(state, *(set(State) - {State.STOPPING}))
        by = task.stopped_by or task.owner
        await asyncio.gather(*(_stop(flow, TaskKey(id, element), by) for element in begun))
    if state.is_over and task.state is not State.FINISHED:
        await _end(flow, task, state)


async def _stop(flow: Flow, key: TaskKey, by: str) -> None:
    with suppress(Conflict, UnknownTask):  # it has ended by itself
        await cancel(flow, key, by)


async def _end(flow: Flow, task: Task, state: ArrayState) -> None:
    counts = dict(state.outcomes)
    if state.folded:  # it was cancelled: they will never begin
        counts["cancelled"] = counts.get("cancelled", 0) + len(state.folded)
    change = moved(task, Ended(at=flow.clock.now(), end=_outcome(task, counts), counts=counts))
    try:
        await commit(flow, [change])
    except StaleWrite:
        look_at(flow, task.id)
        return
    follow(flow, change.task, task)
    flow.replan()
    tell(flow, "ended", change.task)


def _outcome(task: Task, counts: dict[str, int]) -> End:
    if task.state is State.STOPPING:
        return CANCELLED
    size, good = sum(counts.values()), counts.get("succeeded", 0)
    if good == size:
        return End(outcome="succeeded", reason="all_succeeded")
    return End(outcome="failed", reason="elements_failed", detail=f"{size - good} of {size}")
