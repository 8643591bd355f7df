"""A person gives a task another time limit, whether it waits or runs.

Recorded first, then sent: the engine repeats it until the node has it, also after our restart,
since what a node should have heard is what the records say. The node alone enforces limits: when
one is reached before the word arrives, it was reached, and that is what is recorded.
The owner may go up to the queue's maximum, whoever may go `beyond` it further. An array: all of it
that has not ended.
"""

from __future__ import annotations

from msgspec import Struct

from stoker.domain.errors import Conflict, InvalidSpec, StaleWrite
from stoker.domain.event import LimitExtended
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import LIVE, State, Task
from stoker.engines.base import ExtendOrder
from stoker.runner import killpoint
from stoker.scheduler.needs import DEFAULT_QUEUE

from .arrays import find, open_elements, record
from .commit import commit, moved
from .context import Flow
from .follow import follow
from .remind import mind

LONGEST_S = 10 * 365 * 86400
"""Whatever anybody adds to whatever."""


class Wish(Struct, frozen=True, kw_only=True):
    """What limit somebody wants a task to have."""

    limit_s: int | None = None
    """From its start; None = none."""
    add_s: int | None = None
    """Or: so much more than it has now."""
    by: str
    beyond: bool = False
    """Whether the queue's maximum does not count."""


async def extend(flow: Flow, key: TaskKey, wish: Wish) -> Task:
    """The task with its new limit. Refuses one that would be over already."""
    while True:
        found = await find(flow, key)
        task = found.task
        _check_open(task)
        try:
            if task.is_array:
                return await _extend_array(flow, task, wish)
            event = _event(flow, task, wish)
            if event is None:
                return task
            if task.state in LIVE:
                await _commit(flow, [(task, event)])
                return flow.live[task.attempt or ""].task
            extended = await record(flow, found, event)
        except StaleWrite:
            continue  # it moved on meanwhile: look again
        flow.replan()
        return extended


def send_limit(flow: Flow, task: Task) -> None:
    """Idempotent: the engine repeats it until the node has it."""
    live = flow.live.get(task.attempt or "")
    if live is not None:
        limit_s = task.spec.time_limit_s
        flow.engine.extend(
            [ExtendOrder(attempt=live.attempt, time_limit_s=limit_s, serial=task.version)]
        )


async def _extend_array(flow: Flow, array: Task, wish: Wish) -> Task:
    """The array and what is known to be under way of it at once; then what began meanwhile."""
    own = _event(flow, array, wish)
    pairs = [] if own is None else [(array, own)]
    pairs += await _elements(flow, array, wish, set())
    if pairs:
        await _commit(flow, pairs)
    done = {task.element for task, _ in pairs}
    # From here on nothing starts with the former limit: the array has another version.
    while True:
        try:
            late = [] if own is None else await _elements(flow, array, wish, done)
            if late:
                await _commit(flow, late)
            break
        except StaleWrite:
            continue
    now = await flow.store.task(array.key)
    return array if now is None else now


async def _elements(
    flow: Flow, array: Task, wish: Wish, done: set[int]
) -> list[tuple[Task, LimitExtended]]:
    """The elements that are tasks of their own, have not ended and are not `done`."""
    state = flow.arrays.get(array.id)
    open_ = [] if state is None else open_elements(state, *(set(State) - {State.FINISHED}))
    keys = [TaskKey(array.id, element) for element in open_ if element not in done]
    found = []
    for task in await flow.store.tasks(keys):
        limited = wish.add_s is None or task.spec.time_limit_s is not None
        if limited and not _is_over(task):
            event = _event(flow, task, wish)
            if event is not None:
                found.append((task, event))
    return found


async def _commit(flow: Flow, pairs: list[tuple[Task, LimitExtended]]) -> None:
    """Record all of these, then tell memory and the nodes."""
    changes = [moved(task, event) for task, event in pairs]
    await commit(flow, changes)
    killpoint.reach(killpoint.EXTENDED)
    for (before, _), change in zip(pairs, changes, strict=True):
        task = change.task
        follow(flow, task, before)
        live = flow.live.get(task.attempt or "")
        if live is not None and task.state in LIVE:
            live.task = task
            flow.view.extended(live.attempt.id, task.spec.time_limit_s)
            mind(flow, live, flow.clock.now())
            send_limit(flow, task)
    flow.replan()


def _check_open(task: Task) -> None:
    if task.state is State.FINISHED:
        raise Conflict("already_finished", id=str(task.key))
    if _is_over(task):
        raise Conflict("is_stopping", id=str(task.key))


def _is_over(task: Task) -> bool:
    """Nothing of it will run any more."""
    stopping = task.state is State.STOPPING and task.stop_cause != "requeue"
    return stopping or task.state is State.FINISHED


def _event(flow: Flow, task: Task, wish: Wish) -> LimitExtended | None:
    """What is recorded; None: it has this limit already. Raises what is against it."""
    before, now = task.spec.time_limit_s, flow.clock.now()
    limit_s = wish.limit_s
    if wish.add_s is not None:
        if before is None:
            raise Conflict("no_limit", id=str(task.key))
        limit_s = min(before + wish.add_s, LONGEST_S)
    if limit_s == before:
        return None
    _check_queue(flow, task, limit_s, wish)
    if limit_s is not None and task.state is State.RUNNING and task.started_at is not None:
        ran_s = int((now - task.started_at).total_seconds())
        if limit_s <= ran_s:
            raise Conflict("limit_passed", field="time_limit_s", id=str(task.key), ran_s=ran_s)
    return LimitExtended(at=now, by=wish.by, time_limit_s=limit_s)


def _check_queue(flow: Flow, task: Task, limit_s: int | None, wish: Wish) -> None:
    """Up to the queue's maximum; a limit beyond it, which somebody else gave, may be shortened."""
    name = task.spec.queue or DEFAULT_QUEUE
    longest, before = flow.policy.queue(name).longest_s, task.spec.time_limit_s
    if wish.beyond or longest is None or (limit_s is not None and limit_s <= longest):
        return
    if limit_s is not None and (before is None or limit_s < before):
        return
    raise InvalidSpec("limit_beyond_queue", field="time_limit_s", queue=name, most=longest)
