"""What is recorded, followed commit by commit: a second copy that no restart forgets.

It is made from what the writer committed, not from what the server believes; `checker` compares it
with the truth, and the database with it after every restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from stoker.domain.event import (
    Ended,
    Event,
    LimitExtended,
    Placed,
    Requeued,
    Started,
    StopRequested,
)
from stoker.domain.indices import Indices
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import LIVE, State, Task
from stoker.domain.node import Allocation, Incarnation
from stoker.domain.outcome import End
from stoker.domain.sweep import array_of
from stoker.domain.task import TaskSpec
from stoker.store.base import Change


class Recorded(Struct):
    """An attempt, as the records know it."""

    key: TaskKey
    owner: str
    spec: TaskSpec
    allocation: Allocation
    incarnation: Incarnation
    placed: float
    started: bool = False
    stop_asked: float | None = None
    limit_s: int | None = None
    limit_since: float = 0.0
    """Since when that is its limit."""
    over: float | None = None
    end: End | None = None


class Records:
    def __init__(self) -> None:
        self.tasks: dict[TaskKey, Task] = {}
        self.attempts: dict[str, Recorded] = {}
        self.live: dict[str, Recorded] = {}
        """Attempts that hold something."""
        self.deleted: set[TaskKey] = set()
        self.elements: dict[int, dict[int, Task]] = {}
        """Of arrays: those that are rows."""
        self.commits = 0

    def follow(self, change: Change, event: Event, at: float) -> None:
        """One event of a committed change."""
        task = change.task
        match event:
            case Placed():
                recorded = Recorded(
                    task.key, task.owner, task.spec, event.allocation, event.incarnation, at
                )
                recorded.limit_s, recorded.limit_since = task.spec.time_limit_s, at
                self.attempts[event.attempt] = self.live[event.attempt] = recorded
            case Started():
                self.attempts[event.attempt].started = True
            case LimitExtended() if task.attempt in self.live:
                extended = self.live[task.attempt]
                extended.limit_s, extended.limit_since = event.time_limit_s, at
            case StopRequested() if task.attempt in self.live:
                self.live[task.attempt].stop_asked = at
            case Ended() | Requeued() if event.attempt is not None:
                recorded = self.attempts[event.attempt]
                recorded.over, recorded.end = at, event.end
                self.live.pop(event.attempt, None)
            case _:
                pass

    def keep(self, task: Task) -> None:
        self.tasks[task.key] = task
        if task.element != PLAIN:
            self.elements.setdefault(task.id, {})[task.element] = task

    def drop(self, tasks: Sequence[Task]) -> list[TaskKey]:
        """Deleted, an array with its elements. Their attempts stay known: they must not run."""
        gone = []
        for task in tasks:
            gone.append(task.key)
            if task.is_array:
                gone += [TaskKey(task.id, e) for e in self.elements.pop(task.id, {})]
            elif task.element != PLAIN:
                self.elements.get(task.id, {}).pop(task.element, None)
        for key in gone:
            self.tasks.pop(key, None)
            self.deleted.add(key)
        return gone

    # ---- questions

    def outcome(self, key: TaskKey) -> str | None:
        """How a task ended; "deleted"; None: it has not, or it is an element that is no row."""
        task = self.tasks.get(key)
        if task is not None:
            return task.end.outcome if task.state is State.FINISHED and task.end else None
        if key in self.deleted or TaskKey(key.id) in self.deleted:
            return "deleted"
        array = self.tasks.get(TaskKey(key.id))
        if array is not None and array.state is State.FINISHED and array.end is not None:
            return array.end.outcome
        return None

    def folded(self, array: Task) -> Indices:
        """Elements that are not rows yet."""
        parsed = array_of(array.spec)
        assert parsed is not None
        return parsed.indices.minus(Indices.only(*self.elements.get(array.id, {})))

    def live_elements(self, id: int) -> int:
        return sum(task.state in LIVE for task in self.elements.get(id, {}).values())

    def cards_of(self, owner: str) -> int:
        return sum(len(a.allocation.gpus) for a in self.live.values() if a.owner == owner)

    def on_card(self, node: str, uuid: str) -> list[tuple[str, Recorded]]:
        return [
            (id, a)
            for id, a in self.live.items()
            if a.allocation.node == node and any(gpu.uuid == uuid for gpu in a.allocation.gpus)
        ]
