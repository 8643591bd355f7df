"""A task is handed over once more: a new one that remembers where it comes from.

Who waits for one that has finished follows to the new one, in the same transaction: nobody waits
for ever because a task was run again; another person's task stays as that person said. An array may be handed over with only those of its elements
that failed; they keep their indices, and so their values.
"""

from __future__ import annotations

from msgspec import structs

from stoker.domain.dependency import comes_true, parse_after
from stoker.domain.errors import Conflict, StaleWrite
from stoker.domain.event import Edited, Submitted
from stoker.domain.indices import ArraySpec, Indices
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import WAITING, State, Task, begin
from stoker.domain.outcome import FAILED
from stoker.domain.position import first_position
from stoker.domain.sweep import array_of
from stoker.domain.task import MOST_ARRAY_TEXT, TaskSpec
from stoker.store.base import Change

from . import depend
from .accept import accept, give_urgent_back, take_urgent
from .arrays import find, has_begun, indices_of
from .commit import commit, moved
from .context import Flow
from .environments import check_environments
from .follow import follow
from .places import give_places_back, take_places


async def resubmit(flow: Flow, key: TaskKey, by: str, *, failed: bool = False) -> Task:
    """The same once more, as a new task; of an element: that element alone.

    `failed`: of an array that has ended, only the elements that failed.
    """
    old = (await find(flow, key)).task
    await check_environments(flow, old.owner, [old.spec])
    async with flow.editing:
        while True:
            task = (await find(flow, key)).task
            spec = structs.replace(task.spec, hold=False, after=await _after(flow, task))
            if failed:
                spec = structs.replace(spec, array=await _failed(flow, task))
            spec, _ = accept(flow, task.owner, spec, by=by)
            stay = failed and bool((task.counts or {}).get("cancelled"))
            try:
                return await renew(flow, task, spec, by, stay=stay)
            except StaleWrite:
                continue


async def renew(flow: Flow, old: Task, spec: TaskSpec, by: str, *, stay: bool = False) -> Task:
    """Hand over `spec` as a new task made of `old`. By somebody who is `editing`.

    `stay`: who waits for `old` does not follow, because not all of it is run again.
    """
    if old.element != PLAIN:
        spec = structs.replace(spec, array=str(old.element))
    now = flow.clock.now()
    id = flow.store.next_ids(1).start
    submitted = Submitted(
        at=now, owner=old.owner, spec=spec, position=first_position(id), origin=str(old.key)
    )
    new = begin(TaskKey(id), submitted)
    over = old.state is State.FINISHED and not stay
    followers = await _followers(flow, old, spec) if over else []
    pairs = []
    for task in followers:
        after = _redirected(task.spec.after, old, new)
        edited = Edited(at=now, by=by, spec=structs.replace(task.spec, after=after))
        pairs.append((task, moved(task, edited)))
    places = take_places(flow, old.owner, [spec]) if flow.limits_waiting else []
    try:
        if spec.urgent:
            take_urgent(flow, old.owner, new.key)
        try:
            await commit(flow, [Change(new, (submitted,)), *(change for _, change in pairs)])
        except BaseException:
            if spec.urgent:
                give_urgent_back(flow, old.owner, new.key)
            raise
    finally:
        give_places_back(flow, old.owner, places)
    follow(flow, new)
    for task, change in pairs:
        follow(flow, change.task, task)
    flow.replan()
    return new


async def _failed(flow: Flow, task: Task) -> str:
    """The elements that failed, as the field `array` names them. Refuses when there are none."""
    array = array_of(task.spec) if task.is_array else None
    if array is None:
        raise Conflict("no_elements", id=str(task.key))
    if task.state is not State.FINISHED:
        raise Conflict("elements_not_over", id=str(task.key))
    failed = await flow.store.ended(task.id, FAILED)
    if not failed:
        raise Conflict("none_failed", id=str(task.key))
    text = ArraySpec(failed, array.cap).text()
    if len(text) > MOST_ARRAY_TEXT:
        raise Conflict("too_scattered", id=str(task.key), count=len(failed))
    return text


async def _after(flow: Flow, task: Task) -> tuple[str, ...]:
    """What the new one waits for: what the old one did, without what held it up no longer."""
    if not task.anyway and not task.attempts:
        return task.spec.after
    found = await depend.endings(flow, {one.key for one in depend.after_of(task.spec)})
    return tuple(
        one.text()
        for one in depend.after_of(task.spec)
        if comes_true(one.when, found[one.key]) is not False
    )


async def _followers(flow: Flow, old: Task, spec: TaskSpec) -> list[Task]:
    """Who waits for `old` and shall wait for the new one: of the same owner, since nobody changes
    what others have said. Refuses a circle."""
    depend.check_circle(flow, old.key, spec)
    elements = depend.awaited_elements(flow).get(old.id, []) if old.is_array else []
    waiting = {
        follower
        for key in (old.key, *elements)
        for follower in flow.successors.get(key, ())
        if not has_begun(flow, follower)
    }
    rows = await flow.store.tasks(sorted(waiting))
    return [
        row for row in rows if row.state in WAITING and not row.anyway and row.owner == old.owner
    ]


def _redirected(after: tuple[str, ...], old: Task, new: Task) -> tuple[str, ...]:
    """The same, with the new task in the place of the old one; of an array each element it has."""
    texts, elements = [], indices_of(new.spec)
    for text in after:
        found = parse_after(text)
        if found is not None and _follows(found.key, old, elements):
            key = TaskKey(new.id, found.key.element if old.is_array else PLAIN)
            texts.append(structs.replace(found, key=key).text())
        else:
            texts.append(text)
    return tuple(texts)


def _follows(key: TaskKey, old: Task, elements: Indices) -> bool:
    """Whether who waits for `key` waits for the new task from now on."""
    if not old.is_array or key.id != old.id:
        return key == old.key
    return key.element == PLAIN or key.element in elements
