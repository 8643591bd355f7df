"""What memory knows, brought up to what was just recorded: the line, arrays, who waits for whom.

Called after every commit, and for every row after a restart; nothing else changes these. A plain
task costs a few looks more than its place in line.
"""

from __future__ import annotations

from stoker.domain.dependency import parse_after
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import WAITING, State, Task
from stoker.domain.sweep import array_of, is_array
from stoker.scheduler.line import Waiting, waiting_of
from stoker.scheduler.needs import DEFAULT_QUEUE

from .context import ArrayState, Flow
from .places import count_array, count_element, count_plain, uncount_array


def follow(
    flow: Flow, task: Task, before: Task | None = None, *, entry: Waiting | None = None
) -> None:
    """`task` is recorded; it was `before` (None: it is new here). `entry` is its place in line, if
    that is known already."""
    spec, was = task.spec, None if before is None else before.spec
    if spec.after or (was is not None and was.after):
        _follow_dependencies(flow, task, before)
    if spec.urgent or (was is not None and was.urgent):
        _follow_urgent(flow, task)
    if is_array(spec) or (was is not None and is_array(was)):
        _follow_array(flow, task, before)
    else:
        count_plain(flow, task, before)
    if task.state is State.QUEUED:
        enqueue(flow, entry or waiting_for(flow, task))
    elif before is not None and before.state is State.QUEUED:
        _leave_line(flow, task.key)
    if task.end is not None:
        flow.view.settle(task.key, task.end.outcome)


def waiting_for(flow: Flow, task: Task) -> Waiting:
    """Its entry in line. What comes back of an array goes before what has not begun."""
    state = flow.arrays.get(task.id) if task.is_array else None
    return waiting_of(
        task.key,
        task.owner,
        task.spec,
        position=task.position if task.element == PLAIN else task.position - 1,
        version=task.version,
        since=task.submitted_at,
        not_before=task.not_before,
        anyway=task.anyway,
        folded=None if state is None else state.folded,
        tries=task.never_ran or task.retried,
    )


def enqueue(flow: Flow, waiting: Waiting) -> None:
    """Put it in line. What it waits for may have ended already: the loop looks that up."""
    key = waiting.key
    if key.element != PLAIN:
        state = flow.arrays.get(key.id)
        if state is not None and state.state is not State.QUEUED:
            state.parked[key.element] = waiting
            return
    flow.view.enqueue(waiting)
    if waiting.after:
        flow.asked.update(dependency.key for dependency in waiting.after)


def predecessors(task: Task) -> set[TaskKey]:
    """Whose ends it waits for, or will when it is released."""
    if task.anyway or task.state not in WAITING:
        return set()
    return {found.key for text in task.spec.after if (found := parse_after(text)) is not None}


def forget(flow: Flow, task: Task) -> None:
    """It is recorded no longer."""
    for key in predecessors(task):
        _no_longer(flow, key, task.key)
    _not_urgent(flow, task)
    if not is_array(task.spec):
        count_plain(flow, None, task)
    state = flow.arrays.pop(task.id, None) if task.is_array else None
    if state is not None:
        uncount_array(flow, state)
    if state is not None and state.open:
        elements = {TaskKey(task.id, element) for element in state.open}
        for key in elements:
            flow.view.dequeue(key)
        for predecessor, waiting in list(flow.successors.items()):
            for key in waiting & elements:
                _no_longer(flow, predecessor, key)
    flow.view.dequeue(task.key)


def _leave_line(flow: Flow, key: TaskKey) -> None:
    flow.view.dequeue(key)
    if key.element != PLAIN and key.id in flow.arrays:
        flow.arrays[key.id].parked.pop(key.element, None)


# ---- who waits for whom


def _follow_dependencies(flow: Flow, task: Task, before: Task | None) -> None:
    now = predecessors(task)
    for key in () if before is None else predecessors(before) - now:
        _no_longer(flow, key, task.key)
    for key in now:
        flow.successors.setdefault(key, set()).add(task.key)


def _no_longer(flow: Flow, predecessor: TaskKey, key: TaskKey) -> None:
    waiting = flow.successors.get(predecessor)
    if waiting is not None:
        waiting.discard(key)
        if not waiting:
            del flow.successors[predecessor]


# ---- urgent ones


def _follow_urgent(flow: Flow, task: Task) -> None:
    if task.element != PLAIN:
        return  # its array counts
    if task.spec.urgent and task.state is not State.FINISHED:
        flow.urgent.setdefault(task.owner, set()).add(task.key)
    else:
        _not_urgent(flow, task)


def _not_urgent(flow: Flow, task: Task) -> None:
    theirs = flow.urgent.get(task.owner)
    if theirs is not None:
        theirs.discard(task.key)
        if not theirs:
            del flow.urgent[task.owner]


# ---- arrays


def _follow_array(flow: Flow, task: Task, before: Task | None) -> None:
    if task.element != PLAIN:
        _follow_element(flow, task)
    elif task.state is State.FINISHED:
        _array_is_over(flow, task.id)
    elif not task.is_array:  # an edit made a plain task of it
        state = flow.arrays.pop(task.id, None)
        if state is not None:
            uncount_array(flow, state)
        count_plain(flow, task, None)
    else:
        if before is not None and not before.is_array:  # an edit made an array of it
            count_plain(flow, None, before)
        _follow_row(flow, task, before)


def _follow_row(flow: Flow, task: Task, before: Task | None) -> None:
    """The array as a whole was changed: what of it waits goes with it."""
    array = array_of(task.spec)
    assert array is not None, "it was checked when it was handed over"
    state = flow.arrays.get(task.id)
    if state is None:
        state = flow.arrays[task.id] = ArrayState(
            task.state, task.version, len(array.indices), array.indices
        )
    elif before is not None and array_of(before.spec) != array and not state.has_begun:
        state.size, state.folded = len(array.indices), array.indices
    state.state, state.version, state.owner = task.state, task.version, task.owner
    places = len(state.folded) + len(state.leaving) if task.state in WAITING else 0
    count_array(flow, state, task.spec.queue or DEFAULT_QUEUE, places)
    if task.state is State.QUEUED:
        parked, state.parked = state.parked, {}
        for entry in parked.values():
            enqueue(flow, entry)
        return
    for element in state.open:
        waiting = flow.view.waiting(TaskKey(task.id, element))
        if waiting is not None and waiting.key.element == element:
            state.parked[element] = waiting
            flow.view.dequeue(waiting.key)
    if task.state is State.STOPPING:
        flow.unsettled.add(task.id)
        flow.wake.set()


def _follow_element(flow: Flow, task: Task) -> None:
    state, element = flow.arrays.get(task.id), task.element
    if state is None:
        return
    if state.counted and (element in state.leaving or element in state.folded):
        count_array(flow, state, state.queue, state.counted - 1)
    if element in state.folded:
        state.folded = state.folded.without(element)
        flow.view.unfold(task.key)
    state.leaving.discard(element)
    count_element(flow, state, task)
    if task.end is None:
        state.open[element] = task.state
    else:
        state.open.pop(element, None)
        outcome = task.end.outcome
        state.outcomes[outcome] = state.outcomes.get(outcome, 0) + 1
    wrong = state.state is State.STOPPING and task.state not in (State.STOPPING, State.FINISHED)
    if wrong or state.is_over:  # it is to be stopped too, or was the last
        flow.unsettled.add(task.id)
        flow.wake.set()


def _array_is_over(flow: Flow, id: int) -> None:
    state = flow.arrays.pop(id, None)
    if state is not None:
        uncount_array(flow, state)
    if state is None or not state.folded:
        return
    for key in [key for key in flow.successors if key.id == id and key.element in state.folded]:
        flow.view.settle(key, "cancelled")
