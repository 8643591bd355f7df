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
    origin: str | None = None
    """The task it was made from."""


class Unfolded(_Event, frozen=True, kw_only=True, tag="Unfolded"):
    """An element of an array has become a task of its own. Its spec is the array's."""

    owner: str
    spec: TaskSpec
    position: int
    submitted_at: datetime
    """When the array was."""
    origin: str | None = None
    held: bool = False
    anyway: bool = False


class Edited(_Event, frozen=True, kw_only=True, tag="Edited"):
    by: str
    spec: TaskSpec


class Moved(_Event, frozen=True, kw_only=True, tag="Moved"):
    by: str
    position: int


class LimitExtended(_Event, frozen=True, kw_only=True, tag="LimitExtended"):
    """Its time limit is another one from now on, whether it waits or runs."""

    by: str
    time_limit_s: int | None
    """From its start; None = none."""


class Waived(_Event, frozen=True, kw_only=True, tag="Waived"):
    """It may run although a task it waits for did not end as it should."""

    by: str


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
    not_before: datetime | None = None
    """It is not tried again before this."""
    retry: bool = False
    """It failed and is run again because its spec says so."""


class Ended(_Event, frozen=True, kw_only=True, tag="Ended"):
    end: End
    attempt: str | None = None
    by: str = ""
    """Who cancelled it, when somebody did."""
    counts: dict[str, int] | None = None
    """Of an array: how many elements had which outcome."""


class Deleted(_Event, frozen=True, kw_only=True, tag="Deleted"):
    """All that is left of a task that was deleted. Never applied: there is nothing left to change."""

    by: str
    owner: str = ""
    """Whose it was: no row says that any more."""


Event = (
    Submitted | Unfolded | Edited | Moved | LimitExtended | Waived | Held | Released | Placed
    | Started | StopRequested | Requeued | Ended | Deleted
)  # fmt: skip
EVENTS: tuple[type[Event], ...] = (
    Submitted, Unfolded, Edited, Moved, LimitExtended, Waived, Held, Released, Placed, Started,
    StopRequested, Requeued, Ended, Deleted,
)  # fmt: skip
