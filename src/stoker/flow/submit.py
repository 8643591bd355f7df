"""A person hands over tasks. Accepted means recorded: the answer comes after the commit.

A task that fits at once is recorded as submitted and placed in one transaction; everybody who
waits was planned before it. What is refused is in `accept` and `depend`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from stoker.domain.dependency import comes_true
from stoker.domain.event import Submitted
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task, begin
from stoker.domain.position import first_position
from stoker.domain.task import TaskSpec
from stoker.scheduler.claim import place_one, unsettles
from stoker.scheduler.explain import Explanation, explain
from stoker.scheduler.fit import Reason
from stoker.scheduler.line import Waiting, waiting_of
from stoker.scheduler.needs import Needs, Sign, needs_of
from stoker.store.base import Change

from . import depend
from .accept import Accepted, accept, give_urgent_back, take_urgent
from .arrays import indices_of
from .commit import commit, moved
from .context import Flow
from .environments import check_environments
from .follow import follow
from .launch import launch
from .overview import for_a_person
from .pause import is_paused, while_paused
from .place import Intent, intend, take
from .places import Taken, give_places_back, take_places


async def submit(flow: Flow, owner: str, specs: Sequence[TaskSpec], *, batch: bool) -> list[Task]:
    """All of them, or none. A refusal names the field, and in a batch the task."""
    if not any(spec.after for spec in specs):
        return await _submit(flow, owner, specs, batch=batch)
    async with flow.editing:  # what they wait for must not be deleted before they are recorded
        return await _submit(flow, owner, specs, batch=batch)


async def preview(flow: Flow, owner: str, spec: TaskSpec) -> Explanation:
    """What would happen to this task if it were handed over now. Refuses what `submit` refuses."""
    ((spec, _),) = await _check(flow, owner, [spec], batch=False)
    if flow.limits_waiting:
        give_places_back(flow, owner, take_places(flow, owner, [spec]))
    key = TaskKey(flow.store.next_ids(0).start)
    if spec.urgent:
        take_urgent(flow, owner, key)
        give_urgent_back(flow, owner, key)
    after = depend.after_of(spec)
    found = await depend.endings(flow, {one.key for one in after})
    in_vain = [one for one in after if comes_true(one.when, found[one.key]) is False]
    pending = [one.text() for one in after if found[one.key] is None]
    now = flow.clock.now()
    entry = _preview(key, owner, spec, tuple(pending), now)
    told = while_paused(flow, explain(flow.view, entry, now))
    if not in_vain and not spec.hold:
        return told
    reasons = [
        Reason(
            "after_failed",
            {"task": str(one.key), "when": str(one.when), "outcome": str(found[one.key])},
        )
        for one in in_vain
    ]
    return for_a_person(told, reasons, "try_anyway" if in_vain else "", held=spec.hold)


async def _submit(flow: Flow, owner: str, specs: Sequence[TaskSpec], *, batch: bool) -> list[Task]:
    accepted = await _check(flow, owner, specs, batch=batch)
    now = flow.clock.now()
    ids = flow.store.next_ids(len(specs))
    events = [
        Submitted(at=now, owner=owner, spec=spec, position=first_position(id))
        for id, (spec, _) in zip(ids, accepted, strict=True)
    ]
    tasks = [begin(TaskKey(id), event) for id, event in zip(ids, events, strict=True)]
    entries = [
        _entry(task, needs) if task.state is State.QUEUED else None
        for task, (_, needs) in zip(tasks, accepted, strict=True)
    ]
    urgent = [task for task in tasks if task.spec.urgent]
    if urgent:
        _take_urgent(flow, owner, urgent, ids.start if batch else None)
    places: Taken = []
    if flow.limits_waiting:
        places = _take_places(flow, owner, tasks, urgent, batch=batch)
    intents = [None] * len(tasks) if flow.unplanned else _place_at_once(flow, tasks, entries, now)
    changes = [
        Change(task, (event,)) if intent is None else _with(intent, event)
        for task, event, intent in zip(tasks, events, intents, strict=True)
    ]
    try:
        await commit(flow, changes)
    except BaseException:  # also a caller that hung up: whatever is raised, nothing is recorded
        for task in urgent:
            give_urgent_back(flow, owner, task.key)
        for taken in filter(None, intents):
            flow.view.free(taken.attempt.id)
            flow.replan()
        raise
    finally:
        give_places_back(flow, owner, places)
    launch(flow, [intent for intent in intents if intent is not None])
    for task, entry, intent in zip(tasks, entries, intents, strict=True):
        if intent is None:
            _join(flow, task, entry)
    return [change.task for change in changes]


def _join(flow: Flow, task: Task, entry: Waiting | None) -> None:
    """A newcomer that was just recorded, with its entry in line, if it goes there."""
    follow(flow, task, entry=entry)
    if entry is None:
        return
    if entry.after or entry.not_before is not None or entry.folded is not None:
        flow.plan_soon()
    elif entry.sign not in flow.refused:  # else one of that sign waits already: nothing changes
        flow.refused.add(entry.sign)
        flow.plan_soon()


async def _check(
    flow: Flow, owner: str, specs: Sequence[TaskSpec], *, batch: bool
) -> list[Accepted]:
    accepted = [
        accept(flow, owner, spec, f"tasks[{number}]." if batch else "")
        for number, spec in enumerate(specs)
    ]
    if any(spec.after or spec.environment for spec in specs):
        prefixes = [f"tasks[{number}]." if batch else "" for number in range(len(specs))]
        await check_environments(flow, owner, specs, prefixes)
        await depend.check_known(flow, specs, prefixes)
    return accepted


def _take_places(
    flow: Flow, owner: str, tasks: Sequence[Task], urgent: Sequence[Task], *, batch: bool
) -> Taken:
    try:
        return take_places(flow, owner, [task.spec for task in tasks], batch=batch)
    except BaseException:
        for task in urgent:
            give_urgent_back(flow, owner, task.key)
        raise


def _take_urgent(flow: Flow, owner: str, urgent: Sequence[Task], first: int | None) -> None:
    """All of them, or none; `first` is the id of the first task of a batch."""
    for number, task in enumerate(urgent):
        prefix = "" if first is None else f"tasks[{task.id - first}]."
        try:
            take_urgent(flow, owner, task.key, prefix)
        except BaseException:
            for taken in urgent[:number]:
                give_urgent_back(flow, owner, taken.key)
            raise


def _place_at_once(
    flow: Flow, tasks: Sequence[Task], entries: Sequence[Waiting | None], now: datetime
) -> list[Intent | None]:
    """Intents for those that fit now. Only when nobody in line could have a better claim."""
    intents: list[Intent | None] = [None] * len(tasks)
    if flow.restoring is not None or is_paused(flow):
        return intents
    failed: set[Sign] = set()
    for number, (task, entry) in enumerate(zip(tasks, entries, strict=True)):
        if flow.unplanned:
            break  # since one of them was placed, somebody in line may have a better claim
        if entry is None or entry.sign in flow.refused or entry.sign in failed:
            continue
        where = place_one(flow.view, entry, now)
        if where is None:
            if not entry.after and entry.not_before is None:
                failed.add(entry.sign)  # room only shrinks meanwhile: the like of it waits as well
            continue
        (allocation,) = where
        id = flow.new_attempt()
        take(flow, id, entry.key, entry.sign, where)
        if unsettles(flow.view, entry.sign, where):
            flow.replan()
        placed, attempt = intend(flow, entry.key, 1, allocation, id)
        intents[number] = Intent(moved(task, placed), attempt)
    return intents


def _entry(task: Task, needs: Needs) -> Waiting:
    return waiting_of(
        task.key,
        task.owner,
        task.spec,
        position=task.position,
        version=task.version,
        since=task.submitted_at,
        folded=indices_of(task.spec) if task.is_array else None,
        needs=needs,
    )


def _preview(
    key: TaskKey, owner: str, spec: TaskSpec, after: tuple[str, ...], now: datetime
) -> Waiting:
    pending = structs.replace(spec, after=after, hold=False)
    submitted = Submitted(at=now, owner=owner, spec=pending, position=first_position(key.id))
    return _entry(begin(key, submitted), needs_of(spec))


def _with(intent: Intent, submitted: Submitted) -> Change:
    return Change(intent.change.task, (submitted, *intent.change.events))
