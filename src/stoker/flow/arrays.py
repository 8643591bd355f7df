"""Arrays: one row for all elements that nothing has happened to yet.

An element is *folded* until it is placed, held, edited or ended by itself; then it becomes a row,
guarded by the version of its array: what was said to the whole array before holds for it. What is
known of an array in memory (`flow.arrays`) costs as much as the elements that are under way.
"""

from __future__ import annotations

from msgspec import Struct

from stoker.domain.errors import UnknownTask
from stoker.domain.event import Event
from stoker.domain.indices import Indices
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import LIVE, State, Task, apply, begin, unfold
from stoker.domain.outcome import End
from stoker.domain.sweep import array_of
from stoker.domain.task import TaskSpec
from stoker.store.base import Change

from .commit import commit, moved
from .context import ArrayState, Flow
from .follow import follow

CANCELLED = End(outcome="cancelled", reason="cancelled")
NOTHING = Indices()


class Found(Struct, frozen=True):
    """A task, whether it has a row of its own or not."""

    task: Task
    array: Task | None = None
    """Its array, when it is a folded element; its version is 0 then."""


def indices_of(spec: TaskSpec) -> Indices:
    array = array_of(spec)
    return NOTHING if array is None else array.indices


async def find(flow: Flow, key: TaskKey) -> Found:
    """The task of that name. Raises UnknownTask."""
    task = await flow.store.task(key)
    if task is not None:
        return Found(task)
    if key.element != PLAIN:
        array = await flow.store.task(TaskKey(key.id))
        if array is not None and key.element in indices_of(array.spec):
            return Found(folded(array, key.element), array)
    raise UnknownTask(id=str(key))


def folded(array: Task, element: int) -> Task:
    """An element that is no row, as it would be one: it is as its array is."""
    ended = array.state is State.FINISHED
    return Task(
        id=array.id,
        element=element,
        owner=array.owner,
        spec=array.spec,
        state=array.state,
        version=0,
        position=array.position,
        submitted_at=array.submitted_at,
        finished_at=array.finished_at,
        stop_cause=array.stop_cause,
        stopped_by=array.stopped_by,
        end=CANCELLED if ended else None,
        origin=array.origin,
        anyway=array.anyway,
    )


def unfolded(flow: Flow, array: Task, element: int, *events: Event) -> Change:
    """An element becomes a row, and `events` happen to it."""
    first = unfold(array, element, flow.clock.now())
    task = begin(TaskKey(array.id, element), first)
    for event in events:
        task = apply(task, event)
    return Change(task, (first, *events), array.version)


async def record(flow: Flow, found: Found, *events: Event) -> Task:
    """Record what happens to a waiting task; a folded element becomes a row by it."""
    if found.array is None:
        return await record_alone(flow, found, *events)
    async with flow.editing:  # which elements there are may be changed at this moment
        return await record_alone(flow, found, *events)


async def record_alone(flow: Flow, found: Found, *events: Event) -> Task:
    """The same, by somebody who is `editing`."""
    task, array = found.task, found.array
    if array is None:
        change = moved(task, *events)
        await commit(flow, [change])
        follow(flow, change.task, task)
        return change.task
    change = unfolded(flow, array, task.element, *events)
    left = leave(flow, task.key)
    try:
        await commit(flow, [change])
    except BaseException:  # whatever is raised, nothing is recorded
        if left:
            come_back(flow, task.key)
        raise
    follow(flow, change.task)
    return change.task


def leave(flow: Flow, key: TaskKey) -> bool:
    """This element is about to become a row. False: it is no longer folded."""
    state = flow.arrays.get(key.id)
    if state is None or key.element not in state.folded:
        return False
    state.folded = state.folded.without(key.element)
    state.leaving.add(key.element)
    flow.view.unfold(key)
    return True


def come_back(flow: Flow, key: TaskKey) -> None:
    """It has not become one: it waits with the others as before."""
    state = flow.arrays.get(key.id)
    if state is None or key.element not in state.leaving:
        return
    state.leaving.discard(key.element)
    state.folded = state.folded.also(key.element)
    flow.view.fold(key)
    if state.state is State.STOPPING:
        look_at(flow, key.id)


def look_at(flow: Flow, id: int) -> None:
    """It may be over, or have elements left to stop: the loop sees to it."""
    flow.unsettled.add(id)
    flow.wake.set()


def open_elements(state: ArrayState, *states: State) -> list[int]:
    """Elements that are rows in these states, lowest first."""
    return sorted(element for element, at in state.open.items() if at in states)


def has_begun(flow: Flow, key: TaskKey) -> bool:
    """Whether this is an array, and something has happened to one of its elements."""
    state = flow.arrays.get(key.id) if key.element == PLAIN else None
    return state is not None and state.has_begun


def is_live(flow: Flow, id: int) -> bool:
    """Whether something of this array runs, or is about to."""
    state = flow.arrays.get(id)
    return state is not None and (
        bool(state.leaving) or any(at in LIVE for at in state.open.values())
    )
