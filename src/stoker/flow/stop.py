"""A person cancels. The wish is recorded before anything is sent, so it survives us."""

from __future__ import annotations

from stoker.domain.errors import Conflict, StaleWrite, UnknownTask
from stoker.domain.event import Ended, StopRequested
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import WAITING, State, Task
from stoker.domain.outcome import End
from stoker.engines.base import StopOrder

from .commit import commit, moved
from .context import Flow, Live


async def cancel(flow: Flow, key: TaskKey, by: str) -> Task:
    """End this task, wherever it is. May be repeated; a finished one is refused."""
    while True:
        task = await flow.store.task(key)
        if task is None:
            raise UnknownTask(id=str(key))
        if task.state is State.FINISHED:
            raise Conflict("already_finished", id=str(key))
        if task.state is State.STOPPING:
            return task
        try:
            return await _cancel(flow, task, by)
        except StaleWrite:
            continue  # it moved on meanwhile: look again


async def _cancel(flow: Flow, task: Task, by: str) -> Task:
    now = flow.clock.now()
    if task.state in WAITING:
        end = End(outcome="cancelled", reason="cancelled")
        change = moved(task, Ended(at=now, end=end, by=by))
        await commit(flow, [change])
        flow.view.dequeue(task.key)
        return change.task
    change = moved(task, StopRequested(at=now, by=by))
    await commit(flow, [change])
    live = flow.live.get(task.attempt or "")
    if live is not None:
        live.task = change.task
        send_stop(flow, live)
    return change.task


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
