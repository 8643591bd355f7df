"""A person gives a waiting task another place in line.

Places are numbers far apart; where none is left between two neighbours, those around are spread
out, in the same transaction. An array keeps one place for all its elements.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal

from stoker.domain.errors import Conflict, StaleWrite, UnknownTask
from stoker.domain.event import Moved
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import WAITING, Task
from stoker.domain.position import GAP, between, first_position

from .commit import commit, moved
from .context import Flow
from .follow import follow

Place = tuple[int, TaskKey]
To = Literal["first", "last", "before", "after"]

LEAST_GAP = 1 << 16
"""Between tasks that are spread out: room for sixteen more moves to one place."""


async def move(flow: Flow, key: TaskKey, to: To, other: TaskKey | None, by: str) -> Task:
    """To the first or last place, or next to `other`, which has to wait as well."""
    while True:
        task = await _waiting(flow, key)
        beside = await _beside(flow, key, other) if to in ("before", "after") else None
        position, others = _places(flow, key, to, beside)
        rows = [row for row in await flow.store.tasks(list(others)) if row.state in WAITING]
        now = flow.clock.now()
        pairs = [(task, moved(task, Moved(at=now, by=by, position=position)))]
        pairs += [(row, moved(row, Moved(at=now, by=by, position=others[row.key]))) for row in rows]
        try:
            await commit(flow, [change for _, change in pairs])
        except StaleWrite:
            continue
        for before, change in pairs:
            follow(flow, change.task, before)
        flow.replan()
        return pairs[0][1].task


async def _waiting(flow: Flow, key: TaskKey) -> Task:
    if key.element != PLAIN:
        raise Conflict("array_moves_whole", id=str(key))
    task = await flow.store.task(key)
    if task is None:
        raise UnknownTask(id=str(key))
    if task.state not in WAITING:
        raise Conflict("not_waiting", id=str(key))
    return task


async def _beside(flow: Flow, key: TaskKey, other: TaskKey | None) -> Place:
    task = None
    if other is not None and other.id != key.id:
        task = await flow.store.task(TaskKey(other.id))
    if task is None or task.state not in WAITING:
        raise Conflict("not_same_line", id=str(other))
    return task.position, task.key


def _places(
    flow: Flow, key: TaskKey, to: To, beside: Place | None
) -> tuple[int, dict[TaskKey, int]]:
    """The new place, and new places of those who have to make room."""
    low, high = (None, None) if to == "last" else _neighbours(flow, key, beside)
    if to == "before":
        high = beside
    elif to == "after":
        low = beside
    if high is None:  # behind everybody, and before whoever comes next
        return first_position(flow.store.next_ids(1).start), {}
    position = between(low and low[0], high[0])
    if position is not None:
        return position, {}
    line = sorted({*_line(flow, key), *filter(None, (low, high))})
    return _spread(line, bisect_left(line, high), first_position(flow.store.next_ids(1).start))


def _neighbours(
    flow: Flow, key: TaskKey, beside: Place | None
) -> tuple[Place | None, Place | None]:
    """Who is next to that place on either side; of no place: who is first."""
    low: Place | None = None
    high: Place | None = None
    for place in _line(flow, key):
        if beside is not None and place < beside:
            low = place if low is None or place > low else low
        elif place != beside:
            high = place if high is None or place < high else high
    return low, high


def _line(flow: Flow, key: TaskKey) -> Iterator[Place]:
    """Everybody else in line. (Who is held keeps a place that nobody looks at.)"""
    for entry in flow.view.entries():
        if entry.key != key and entry.key.element == PLAIN:
            yield entry.position, entry.key


def _spread(line: list[Place], at: int, end: int) -> tuple[int, dict[TaskKey, int]]:
    """Take in neighbours on both sides until there is room for all of them."""
    first, last = at, at  # those of `line` that move: first to last - 1
    while True:
        first, last = max(0, first - 1), min(len(line), last + 1)
        low = line[first - 1][0] if first else line[0][0] - (last + 1) * GAP
        high = line[last][0] if last < len(line) else end
        step = (high - low) // (last - first + 2)
        if step >= LEAST_GAP or (first, last) == (0, len(line)):
            break
    spots = iter(range(low + step, high, step))
    before = {line[number][1]: next(spots) for number in range(first, at)}
    position = next(spots)
    return position, before | {line[number][1]: next(spots) for number in range(at, last)}
