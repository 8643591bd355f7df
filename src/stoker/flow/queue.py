"""What a person does with a task in line: hold, release, edit, move; or puts it back there.

What is said to an array holds for everything of it that has not started. An element is held,
released and edited by itself as well: it becomes a row by that.
"""

from __future__ import annotations

from stoker.domain.errors import Conflict, StaleWrite
from stoker.domain.event import Event, Held, Released, Waived
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task

from . import depend
from .arrays import find, open_elements, record
from .commit import commit, moved
from .context import Flow
from .edit import edit
from .follow import follow
from .move import move
from .restored import settle
from .stop import request_stop

__all__ = ["edit", "hold", "move", "release", "requeue"]


async def hold(flow: Flow, key: TaskKey, by: str) -> Task:
    """QUEUED → HELD: it keeps its place and waits for `release`."""
    while True:
        found = await find(flow, key)
        if found.task.state is State.HELD:
            return found.task
        if found.task.state is not State.QUEUED:
            raise Conflict("not_waiting", id=str(key))
        try:
            held = await record(flow, found, Held(at=flow.clock.now(), by=by))
        except StaleWrite:
            continue
        flow.replan()  # cards may have been kept for it
        return held


async def release(flow: Flow, key: TaskKey, by: str, *, anyway: bool = False) -> Task:
    """HELD → QUEUED. `anyway`: run it although what it waits for did not come true."""
    while True:
        found = await find(flow, key)
        task = found.task
        held = task.state is State.HELD and found.array is None
        if not held and not (anyway and task.state is State.QUEUED):
            raise Conflict("not_held" if not anyway else "not_waiting", id=str(key))
        events: list[Event] = [Released(at=flow.clock.now(), by=by)] if held else []
        if anyway:
            if task.anyway or not await depend.in_vain(flow, task):
                raise Conflict("nothing_to_waive", id=str(key))
            events.append(Waived(at=flow.clock.now(), by=by))
        try:
            if task.is_array:
                released = await _release_array(flow, task, events)
            else:
                released = await record(flow, found, *events)
        except StaleWrite:
            continue
        await settle(flow, key)
        flow.replan()
        return released


async def requeue(flow: Flow, key: TaskKey, by: str) -> Task:
    """End what runs of it; then it waits again, where it was in line. May be repeated."""
    while True:
        task = (await find(flow, key)).task
        if task.is_array:
            raise Conflict("is_array", id=str(key))
        if task.state is State.STOPPING and task.stop_cause == "requeue":
            return task
        if task.state not in (State.STARTING, State.RUNNING):
            raise Conflict("not_running", id=str(key))
        try:
            return await request_stop(flow, task, by, "requeue")
        except StaleWrite:
            continue


async def _release_array(flow: Flow, array: Task, events: list[Event]) -> Task:
    """The array, and the elements in line that the same is true of."""
    state = flow.arrays.get(array.id)
    waiting = [] if state is None else open_elements(state, State.HELD, State.QUEUED)
    rows = await flow.store.tasks([TaskKey(array.id, element) for element in waiting])
    pairs = [(array, moved(array, *events))]
    for row in rows:
        theirs = [event for event in events if _concerns(row, event)]
        if theirs:
            pairs.append((row, moved(row, *theirs)))
    await commit(flow, [change for _, change in pairs])
    for before, change in pairs:
        follow(flow, change.task, before)
    return pairs[0][1].task


def _concerns(row: Task, event: Event) -> bool:
    if isinstance(event, Released):
        return row.state is State.HELD
    return row.state in (State.HELD, State.QUEUED) and not row.anyway
