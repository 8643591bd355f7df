"""A person changes what a task asks for: the whole spec, with the version it was read at.

A waiting task keeps its id and its place, and who waits for it goes on waiting. A finished one
stays as it is: a new task is made of it. What runs is not edited.
"""

from __future__ import annotations

from stoker.domain.errors import Conflict, InvalidSpec, StaleVersion, StaleWrite
from stoker.domain.event import Edited
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import LIVE, State, Task
from stoker.domain.task import TaskSpec
from stoker.scheduler.needs import DEFAULT_QUEUE

from . import depend
from .accept import accept, give_urgent_back, take_urgent
from .again import renew
from .arrays import Found, find, has_begun, indices_of, record_alone
from .context import Flow
from .environments import check_environments
from .follow import enqueue, waiting_for
from .places import Taken, give_places_back, places_for, places_of, take_number


async def edit(flow: Flow, key: TaskKey, spec: TaskSpec, version: int | None, by: str) -> Task:
    """The task with its new spec, or the new task. Refuses what `submit` refuses."""
    owner = (await find(flow, key)).task.owner
    spec, _ = accept(flow, owner, spec, by=by)
    await check_environments(flow, owner, [spec])
    await depend.check_known(flow, [spec], [""])
    async with flow.editing:
        while True:
            found = await find(flow, key)
            if version is not None and version != found.task.version:
                raise StaleVersion(id=str(key))
            if found.task.state in LIVE:
                raise Conflict("still_running", id=str(key))
            try:
                if found.task.state is State.FINISHED:
                    _check_element(found.task, spec)
                    return await renew(flow, found.task, spec, by)
                return await _edit(flow, found, spec, by)
            except StaleWrite:
                continue


async def _edit(flow: Flow, found: Found, spec: TaskSpec, by: str) -> Task:
    task = found.task
    depend.check_circle(flow, task.key, spec)
    _check_array(flow, task, spec)
    reshaped = task.element == PLAIN and indices_of(spec) != indices_of(task.spec)
    counted = task.key in flow.urgent.get(task.owner, ())
    if spec.urgent and task.element == PLAIN:
        take_urgent(flow, task.owner, task.key)
    try:
        places = _take_places(flow, task, spec, reshaped=reshaped)
        if reshaped:  # nothing of it may start while its elements are exchanged
            flow.view.dequeue(task.key)
        try:
            edited = await record_alone(flow, found, Edited(at=flow.clock.now(), by=by, spec=spec))
        finally:
            give_places_back(flow, task.owner, places)
    except BaseException:
        if not counted:
            give_urgent_back(flow, task.owner, task.key)
        if reshaped and task.state is State.QUEUED:
            enqueue(flow, waiting_for(flow, task))
        raise
    finally:
        flow.replan()
    if reshaped:  # who waits for an element that is gone waits for it no longer
        flow.asked.update(key for key in flow.successors if key.id == task.id)
    return edited


def _take_places(flow: Flow, task: Task, spec: TaskSpec, *, reshaped: bool) -> Taken:
    """In another queue, or for more elements than before; its own are free for it."""
    moves = (spec.queue or DEFAULT_QUEUE) != (task.spec.queue or DEFAULT_QUEUE)
    if not flow.limits_waiting or not (moves or reshaped):
        return []
    mine = places_of(flow, task)
    more = places_for(spec) if task.element == PLAIN and reshaped else mine
    queue = spec.queue or DEFAULT_QUEUE
    wanted = more if moves else more - mine
    return take_number(flow, task.owner, queue, wanted, gone=mine if moves else 0)


def _check_array(flow: Flow, task: Task, spec: TaskSpec) -> None:
    """Which elements there are can be changed only while nothing has happened to any of them."""
    _check_element(task, spec)
    begun = task.element == PLAIN and (has_begun(flow, task.key) or task.attempts > 0)
    if begun and indices_of(spec) != indices_of(task.spec):
        raise InvalidSpec("array_fixed", field="array", id=str(task.key))
    if begun and _combinations(spec) != _combinations(task.spec):
        raise InvalidSpec("array_fixed", field="sweep", id=str(task.key))


def _check_element(task: Task, spec: TaskSpec) -> None:
    """An element is one of its array, whatever else is changed."""
    if task.element != PLAIN and spec.array != task.spec.array:
        raise InvalidSpec("array_fixed", field="array", id=str(task.key))
    if task.element != PLAIN and _combinations(spec) != _combinations(task.spec):
        raise InvalidSpec("array_fixed", field="sweep", id=str(task.key))


def _combinations(spec: TaskSpec) -> list[tuple[str, tuple[str, ...]]]:
    """In their order, on which it depends who is who."""
    return list(spec.sweep.items())
