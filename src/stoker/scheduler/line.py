"""Who waits: tasks in line, alike ones together, those that may not start yet apart.

A task is *ready* when its dependencies have come true and its time has come; only ready ones are
planned. An array waits as one entry, however many elements it has.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from datetime import datetime
from functools import lru_cache
from heapq import heapify, heappop, heapreplace

from msgspec import Struct, structs

from stoker.domain.dependency import Dependency, parse_after
from stoker.domain.indices import Indices
from stoker.domain.key import TaskKey
from stoker.domain.task import TaskSpec

from .needs import Needs, Sign, sign_of


class Waiting(Struct, frozen=True):
    """A QUEUED task, or an array with the elements that are not tasks of their own yet."""

    key: TaskKey
    version: int
    position: int
    sign: Sign
    since: datetime
    """When it was handed over."""
    after: tuple[Dependency, ...] = ()
    not_before: datetime | None = None
    folded: Indices | None = None
    """Of an array: elements still to be started."""
    tries: int = 0
    """How often in a row its launch failed."""

    @property
    def order(self) -> tuple[int, TaskKey]:
        return self.position, self.key


def waiting_of(
    key: TaskKey,
    owner: str,
    spec: TaskSpec,
    *,
    position: int,
    version: int,
    since: datetime,
    not_before: datetime | None = None,
    anyway: bool = False,
    folded: Indices | None = None,
    tries: int = 0,
    needs: Needs | None = None,
) -> Waiting:
    """What planning needs to know of a task. `anyway`: whatever became of its predecessors;
    `needs`: what it asks for, if that was worked out already."""
    after: tuple[Dependency, ...] = ()
    if spec.after and not anyway:
        after = tuple(found for text in spec.after if (found := parse_after(text)) is not None)
    if spec.start_after:
        wanted = datetime.fromisoformat(spec.start_after)
        not_before = wanted if not_before is None else max(wanted, not_before)
    sign = sign_of(key, owner, spec, needs)
    return Waiting(key, version, position, sign, since, after, not_before, folded, tries)


class Group:
    """Ready tasks that are alike but for their limits, which are within a factor of two; by
    position. The limit of `sign` is the lower bound. An array is a group by itself."""

    __slots__ = ("sign", "tasks")

    def __init__(self, sign: Sign) -> None:
        self.sign = sign
        self.tasks: list[Waiting] = []

    def join(self, waiting: Waiting) -> None:
        tasks = self.tasks
        if tasks and tasks[-1].order > waiting.order:
            insort(tasks, waiting, key=_order)
        else:
            tasks.append(waiting)

    def leave(self, waiting: Waiting) -> None:
        del self.tasks[bisect_left(self.tasks, waiting.order, key=_order)]

    def __len__(self) -> int:
        return sum(1 if one.folded is None else len(one.folded) for one in self.tasks)


def _order(waiting: Waiting) -> tuple[int, TaskKey]:
    return waiting.order


LinePlace = tuple[int, int, TaskKey, int, Group]
"""Priority turned round, position, key; where in which group."""


class OwnerLine:
    """What one owner has in line at one level, and how much of it was started in this pass."""

    __slots__ = ("_heap", "_mixed", "_used")

    def __init__(self, groups: list[Group], used: dict[TaskKey, int]) -> None:
        self._used = used
        heap = [place for group in groups if (place := self._place(group, 0)) is not None]
        heapify(heap)
        self._heap = heap
        self._mixed = len({place[0] for place in heap}) > 1

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def is_plain(self) -> bool:
        """All of one priority: the next task is the oldest one."""
        return not self._mixed

    def next(self) -> Waiting:
        """The highest priority, then the first in line."""
        _, _, _, at, group = self._heap[0]
        return group.tasks[at]

    def oldest(self) -> tuple[int, TaskKey]:
        """Of what was not passed over."""
        if self._mixed:
            return min(place[1:3] for place in self._heap)
        return self._heap[0][1:3]

    def advance(self) -> None:
        """The next task was started."""
        _, _, _, at, group = self._heap[0]
        place = self._place(group, at)
        if place is None:
            heappop(self._heap)
        else:
            heapreplace(self._heap, place)

    def skip(self, limit: int) -> None:
        """The next task is passed over, and all that are like it with this limit or a longer one."""
        _, _, _, at, group = self._heap[0]
        lowest = group.sign.limit_s
        place = None
        if lowest is not None and lowest < limit:
            place = self._place(group, at + 1)
        if place is None:
            heappop(self._heap)
        else:
            heapreplace(self._heap, place)

    def _place(self, group: Group, at: int) -> LinePlace | None:
        """Of the first entry from `at` on that has something left to start."""
        for number in range(at, len(group.tasks)):
            entry = group.tasks[number]
            most = 1 if entry.folded is None else len(entry.folded)
            if self._used.get(entry.key, 0) < most:
                return -group.sign.priority, entry.position, entry.key, number, group
        return None


GroupKey = tuple[Sign, bool]


def group_key(waiting: Waiting) -> GroupKey:
    """A folded array stays apart from those of its elements that are tasks of their own."""
    return _family(waiting.sign), waiting.folded is not None


@lru_cache(65_536)
def _family(sign: Sign) -> Sign:
    """The sign of its group: its limit rounded down to a power of two."""
    limit = sign.limit_s
    if limit is None:
        return sign
    return structs.replace(sign, limit_s=1 << (limit.bit_length() - 1))


def element_of(waiting: Waiting, number: int) -> TaskKey:
    """The task that the `number`th start of this entry means."""
    if waiting.folded is None:
        return waiting.key
    return TaskKey(waiting.key.id, waiting.folded.nth(number))


def refolded(waiting: Waiting, folded: Indices) -> Waiting:
    return structs.replace(waiting, folded=folded)
