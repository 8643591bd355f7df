"""What happened to a task, past tense. Replaying a task's events gives its stored state.

Events are written once and never changed; a new field needs a default, so that old ones read.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from .node import Allocation, Incarnation
from .outcome import End
from .task import TaskSpec


class _Event(Struct, frozen=True, kw_only=True, tag_field="event"):
    at: datetime


class Submitted(_Event, frozen=True, kw_only=True, tag="Submitted"):
    owner: str
    spec: TaskSpec
    position: int


class Held(_Event, frozen=True, kw_only=True, tag="Held"):
    by: str


class Released(_Event, frozen=True, kw_only=True, tag="Released"):
    by: str


class Placed(_Event, frozen=True, kw_only=True, tag="Placed"):
    """The intent to run it: committed before anything is sent."""

    attempt: str
    allocation: Allocation
    incarnation: Incarnation
    launch_number: int
    epoch: int


class Started(_Event, frozen=True, kw_only=True, tag="Started"):
    attempt: str


class StopRequested(_Event, frozen=True, kw_only=True, tag="StopRequested"):
    by: str
    cause: str = "cancel"
    """cancel | requeue."""


class Requeued(_Event, frozen=True, kw_only=True, tag="Requeued"):
    """This attempt is over, the task waits again."""

    attempt: str
    end: End | None = None
    """None: the attempt provably never ran."""


class Ended(_Event, frozen=True, kw_only=True, tag="Ended"):
    end: End
    attempt: str | None = None
    by: str = ""
    """Who cancelled it, when somebody did."""


Event = Submitted | Held | Released | Placed | Started | StopRequested | Requeued | Ended
EVENTS: tuple[type[Event], ...] = (
    Submitted, Held, Released, Placed, Started, StopRequested, Requeued, Ended,
)  # fmt: skip
