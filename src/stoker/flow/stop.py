"""A person cancels. The wish is recorded before anything is sent, so it survives us.

A cancelled array is stopped as a whole: what is folded never begins, and the loop stops what has
begun (`conclude`).
"""

from __future__ import annotations

from stoker.domain.errors import Conflict, StaleWrite
from stoker.domain.event import Ended, StopRequested
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import WAITING, State, Task
from stoker.engines.base import StopOrder

from .arrays import CANCELLED, Found, find, record
from .commit import commit, moved
from .context import Flow, Live
from .follow import follow
from .tell import tell


async def cancel(flow: Flow, key: TaskKey, by: str) -> Task:
    """End this task, wherever it is. May be repeated; a finished one is refused."""
    while True:
        found = await find(flow, key)
        task = found.task
        if task.state is State.FINISHED:
            raise Conflict("already_finished", id=str(key))
        if task.state is State.STOPPING and (task.stop_cause != "requeue" or found.array):
            return task
        try:
            return await _cancel(flow, found, by)
        except StaleWrite:
            continue  # it moved on meanwhile: look again


def send_stop(flow: Flow, live: Live) -> None:
    """Idempotent: the engine repeats it until the attempt is over."""
    flow.engine.stop(
        [
            StopOrder(
                attempt=live.attempt,
                cause=live.task.stop_cause or "cancel",
                grace_s=live.task.spec.grace_s,
            )
        ]
    )


async def request_stop(flow: Flow, task: Task, by: str, cause: str = "cancel") -> Task:
    """Record the wish, then send it."""
    change = moved(task, StopRequested(at=flow.clock.now(), by=by, cause=cause))
    await commit(flow, [change])
    follow(flow, change.task, task)
    live = flow.live.get(task.attempt or "")
    if live is not None:
        live.task = change.task
        send_stop(flow, live)
    return change.task


async def _cancel(flow: Flow, found: Found, by: str) -> Task:
    task = found.task
    if task.is_array:
        return await _cancel_array(flow, task, by)
    if task.state not in WAITING:
        return await request_stop(flow, task, by)
    ended = await record(flow, found, Ended(at=flow.clock.now(), end=CANCELLED, by=by))
    flow.replan()  # cards may have been kept for it
    tell(flow, "ended", ended)
    return ended


async def _cancel_array(flow: Flow, task: Task, by: str) -> Task:
    stopping = await request_stop(flow, task, by)
    flow.replan()
    return stopping
