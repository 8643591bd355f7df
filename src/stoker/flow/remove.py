"""A person deletes tasks: their rows, their history, their output.

Only what waits or has finished. Nobody is left waiting for ever: who waits for a deleted task is
deleted with it when that is asked for, goes on when any end will do or what it waited for had come
true already, and otherwise says so and can be released anyway.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from msgspec import structs

from stoker.domain.dependency import comes_true
from stoker.domain.errors import Conflict, NotAllowed, StaleWrite
from stoker.domain.event import Deleted, Edited
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import LIVE, WAITING, Task

from . import depend
from .arrays import find, has_begun, is_live
from .commit import commit, erase, moved
from .context import Flow
from .follow import follow, forget


async def successors(flow: Flow, key: TaskKey) -> list[Task]:
    """Who waits for this task, and who waits for those; the nearest first. Only what can go."""
    elements = depend.awaited_elements(flow)
    found: dict[TaskKey, Task] = {}
    left = deque([key])
    while left:
        one = left.popleft()
        about = elements.get(one.id, []) if one.element == PLAIN else []
        waiting = {
            follower
            for predecessor in (one, *about)
            for follower in flow.successors.get(predecessor, ())
            if follower.element == PLAIN and follower != key
        }
        for row in await flow.store.tasks(sorted(waiting - found.keys())):
            if row.state in WAITING and not has_begun(flow, row.key):
                found[row.key] = row
                left.append(row.key)
    return list(found.values())


async def delete(
    flow: Flow,
    key: TaskKey,
    by: str,
    *,
    with_successors: bool = False,
    only_of: str | None = None,
) -> list[TaskKey]:
    """All of it or nothing; the tasks that are gone. Refused when successors that would go with it
    are of others than `only_of`."""
    if key.element != PLAIN:
        raise Conflict("array_deletes_whole", id=str(key))
    async with flow.editing:
        while True:
            task = (await find(flow, key)).task
            if task.state in LIVE or is_live(flow, task.id):
                raise Conflict("still_running", id=str(key))
            gone = [task, *(await successors(flow, key) if with_successors else [])]
            others = sum(one.owner != only_of for one in gone) if only_of is not None else 0
            if others:
                raise NotAllowed("successors_not_yours", id=str(key), count=others)
            attempts = await flow.store.attempts_of([one.key for one in gone])
            try:
                await _let_go(flow, {one.id for one in gone}, by)
                await erase(flow, gone, Deleted(at=flow.clock.now(), by=by))
            except StaleWrite:
                continue
            drop(flow, gone, attempts)
            return [one.key for one in gone]


async def _let_go(flow: Flow, ids: set[int], by: str) -> None:
    """What came true of a task that is about to go stays true: those who wait drop it."""
    waiting = {
        follower
        for predecessor, followers in flow.successors.items()
        if predecessor.id in ids
        for follower in followers
        if follower.id not in ids
    }
    rows = await flow.store.tasks(sorted(waiting))
    found = await depend.endings(
        flow, {one.key for row in rows for one in depend.after_of(row.spec) if one.key.id in ids}
    )
    pairs = []
    for row in rows:
        left = tuple(
            one.text()
            for one in depend.after_of(row.spec)
            if one.key not in found or not comes_true(one.when, found[one.key])
        )
        if row.state in WAITING and not row.anyway and len(left) < len(row.spec.after):
            spec = structs.replace(row.spec, after=left)
            pairs.append((row, moved(row, Edited(at=flow.clock.now(), by=by, spec=spec))))
    if pairs:
        await commit(flow, [change for _, change in pairs])
        for row, change in pairs:
            follow(flow, change.task, row)
        flow.replan()


def drop(flow: Flow, gone: Sequence[Task], attempts: list[str]) -> None:
    """Nothing of them is recorded any more: let memory and output go too."""
    ids = {task.id for task in gone}
    for task in gone:
        forget(flow, task)
    for key in [key for key in flow.successors if key.id in ids]:
        flow.view.settle(key, "deleted")
    flow.replan()
    flow.collecting.difference_update(attempts)
    flow.later(asyncio.to_thread(_remove_logs, flow, attempts))


def _remove_logs(flow: Flow, attempts: list[str]) -> None:
    for attempt in attempts:
        flow.logs.remove(attempt)
