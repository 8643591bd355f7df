"""One try at running a task: one allocation, one outcome. Made from the task's events."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from .key import TaskKey
from .node import Allocation, Incarnation
from .outcome import End


class Attempt(Struct, frozen=True, kw_only=True):
    id: str
    """Random, 128 bits in hex: the key of everything on the node."""
    task_id: int
    task_element: int
    ordinal: int
    """1 for the first."""
    allocation: Allocation
    incarnation: Incarnation
    """The node's life it was placed in; another one now is proof about this attempt."""
    launch_number: int
    epoch: int
    placed_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    end: End | None = None
    """None with `ended_at`: it provably never ran."""

    @property
    def task(self) -> TaskKey:
        return TaskKey(self.task_id, self.task_element)
