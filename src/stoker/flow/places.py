"""How many tasks everybody has in line, by queue, and whether more may come.

Counts follow the records like everything else in memory (`follow`); an array counts as those of its
elements that wait. Who hands over tasks takes their places before they are recorded, like room: so
two submits at the same moment never take one place twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.domain.errors import Conflict
from stoker.domain.key import PLAIN
from stoker.domain.lifecycle import WAITING, Task
from stoker.domain.sweep import array_of
from stoker.domain.task import TaskSpec
from stoker.scheduler.needs import DEFAULT_QUEUE

from .context import ArrayState, Flow

Taken = list[tuple[str, int]]
"""Places by queue."""


def take_places(flow: Flow, owner: str, specs: Sequence[TaskSpec], *, batch: bool = False) -> Taken:
    """For newcomers: all of them, or none. Conflict when a queue, or all queues together, would hold
    too many of this person's tasks."""
    taken: Taken = []
    for number, spec in enumerate(specs):
        queue, prefix = spec.queue or DEFAULT_QUEUE, f"tasks[{number}]." if batch else ""
        try:
            taken += take_number(flow, owner, queue, places_for(spec), prefix=prefix)
        except Conflict:
            give_places_back(flow, owner, taken)
            raise
    return taken


def take_number(
    flow: Flow, owner: str, queue: str, places: int, *, gone: int = 0, prefix: str = ""
) -> Taken:
    """So many in this queue, while `gone` of the same person's leave another one."""
    if places <= 0:
        return []
    _check(flow, owner, queue, places, gone=gone, prefix=prefix)
    count(flow, owner, queue, places)
    return [(queue, places)]


def give_places_back(flow: Flow, owner: str, taken: Taken) -> None:
    """They are recorded and counted by themselves, or were not recorded."""
    for queue, places in taken:
        count(flow, owner, queue, -places)


def places_for(spec: TaskSpec) -> int:
    """What a newcomer takes."""
    array = array_of(spec)
    return 1 if array is None else len(array.indices)


def places_of(flow: Flow, task: Task) -> int:
    """What a task has taken that waits."""
    state = flow.arrays.get(task.id) if task.is_array else None
    return 1 if state is None else state.counted


def waiting_in(flow: Flow, queue: str) -> int:
    """Everybody's."""
    return sum(queues.get(queue, 0) for queues in flow.in_line.values())


def count(flow: Flow, owner: str, queue: str, more: int) -> None:
    queues = flow.in_line.get(owner)
    if queues is None:
        queues = flow.in_line[owner] = {}
    total = queues.get(queue, 0) + more
    if total:
        queues[queue] = total
        return
    queues.pop(queue, None)
    if not queues:
        del flow.in_line[owner]


def count_plain(flow: Flow, task: Task | None, before: Task | None) -> None:
    """A task that is no array and no element of one was `before` and is now like this."""
    if before is not None and before.state in WAITING:
        if task is not None and task.state in WAITING and task.spec.queue == before.spec.queue:
            return
        count(flow, before.owner, before.spec.queue or DEFAULT_QUEUE, -1)
    if task is not None and task.state in WAITING:
        count(flow, task.owner, task.spec.queue or DEFAULT_QUEUE, 1)


def count_array(flow: Flow, state: ArrayState, queue: str, places: int) -> None:
    """So many elements of an array wait that are no rows yet, in this queue."""
    if state.counted:
        count(flow, state.owner, state.queue, -state.counted)
    state.queue, state.counted = queue, places
    if places:
        count(flow, state.owner, queue, places)


def count_element(flow: Flow, state: ArrayState, task: Task) -> None:
    """An element that is a row."""
    assert task.element != PLAIN
    before = state.lined.pop(task.element, None)
    if before is not None:
        count(flow, state.owner, before, -1)
    if task.state in WAITING:
        queue = state.lined[task.element] = task.spec.queue or DEFAULT_QUEUE
        count(flow, state.owner, queue, 1)


def uncount_array(flow: Flow, state: ArrayState) -> None:
    """Nothing of it waits any more."""
    count_array(flow, state, state.queue, 0)
    for queue in state.lined.values():
        count(flow, state.owner, queue, -1)
    state.lined.clear()


def _check(flow: Flow, owner: str, queue: str, more: int, *, gone: int, prefix: str) -> None:
    mine = flow.in_line.get(owner, {})
    here, all = mine.get(queue, 0), sum(mine.values())
    most = flow.policy.queue(queue).most_waiting
    if most is not None and here + more > most:
        raise Conflict(
            "queue_full", field=f"{prefix}queue", queue=queue, most=most, waiting=here, more=more
        )
    most = flow.policy.most_waiting_each
    if most and all - gone + more > most:
        raise Conflict(
            "too_many_waiting", field=prefix.rstrip("."), most=most, waiting=all - gone, more=more
        )
