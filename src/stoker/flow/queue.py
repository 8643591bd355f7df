"""What a person does with a task that waits: hold it, release it."""

from __future__ import annotations

from stoker.domain.errors import Conflict, StaleWrite, UnknownTask
from stoker.domain.event import Held, Released
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task

from .commit import commit, moved
from .context import Flow
from .place import queue_again


async def hold(flow: Flow, key: TaskKey, by: str) -> Task:
    """QUEUED → HELD: it keeps its place and waits for `release`."""
    while True:
        task = await _task(flow, key)
        if task.state is State.HELD:
            return task
        if task.state is not State.QUEUED:
            raise Conflict("not_waiting", id=str(key))
        change = moved(task, Held(at=flow.clock.now(), by=by))
        try:
            await commit(flow, [change])
        except StaleWrite:
            continue
        flow.view.dequeue(key)
        return change.task


async def release(flow: Flow, key: TaskKey, by: str) -> Task:
    """HELD → QUEUED."""
    while True:
        task = await _task(flow, key)
        if task.state is not State.HELD:
            raise Conflict("not_held", id=str(key))
        change = moved(task, Released(at=flow.clock.now(), by=by))
        try:
            await commit(flow, [change])
        except StaleWrite:
            continue
        queue_again(flow, change.task)
        return change.task


async def _task(flow: Flow, key: TaskKey) -> Task:
    task = await flow.store.task(key)
    if task is None:
        raise UnknownTask(id=str(key))
    return task
