"""What flow may ask of the records: named operations, no SQL.

Every write is one transaction and returns after its commit; it is durable then. A task's row, its
event and what follows from it (attempt, allocation) are one transaction. A guard that does not
hold raises StaleWrite and nothing of that call is recorded. A disk that refuses raises StoreDown:
nothing was recorded, reads go on, the next call tries with a new connection. A write that is
cancelled either records nothing and raises, or returns as if it were not; the cancellation then
strikes at the caller's next await.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct, field

from stoker.domain.attempt import Attempt
from stoker.domain.event import Deleted, Event
from stoker.domain.indices import Indices
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.node import Incarnation
from stoker.domain.task import TaskSpec


class Change(Struct, frozen=True):
    """One task moves on by `events` to `task`. The row must still be at the version before them."""

    task: Task
    events: tuple[Event, ...]
    array_version: int | None = None
    """The version that the row of its array must have too. Needed when an element becomes a row:
    what was said to the whole array before holds for the element."""

    @property
    def before(self) -> int:
        """The version the stored row must have; 0 = there must be none."""
        return self.task.version - len(self.events)


class WaitingRow(Struct, frozen=True):
    """What the scheduler needs of a waiting task; the rest stays on disk."""

    key: TaskKey
    owner: str
    state: State
    position: int
    version: int
    spec: TaskSpec
    submitted_at: datetime
    not_before: datetime | None
    anyway: bool
    attempts: int
    never_ran: int


class ArrayRow(Struct, frozen=True):
    """What became of the elements of an array that has not ended."""

    id: int
    unfolded: Indices
    """Those that are rows."""
    states: dict[State, int]
    """How many of them are in which state."""
    outcomes: dict[str, int]
    """How many have ended how."""


class RestoredNode(Struct, frozen=True):
    """What restored records know of a node."""

    spool: str
    above: int
    """Launches with a higher number may be unknown, or known in an earlier state."""


class Restored(Struct, frozen=True):
    """Kept under `restored`: these records are from a backup, and nodes may know better."""

    at: datetime
    made_at: str
    nodes: dict[str, RestoredNode]


class Entry(Struct, frozen=True):
    """One thing that the lab has decided, as it is kept."""

    kind: str
    name: str
    version: int
    body: str
    """JSON."""


class Amendment(Struct, frozen=True, kw_only=True):
    """One entry becomes another, appears or goes."""

    kind: str
    name: str
    before: int
    """The version that it must have; 0 = there must be none."""
    body: str | None
    """JSON; None = it goes."""
    secret: str | None = None
    """Kept beside it; None = what is there stays, "" = it goes."""


class Act(Struct, frozen=True, kw_only=True):
    """Something worth knowing later: who did what to whom or what. No secrets."""

    at: datetime
    who: str
    act: str
    """A word of the code: person.add, task.cancel, login, ..."""
    on: str = ""
    """What it was done to."""
    origin: str = ""
    """From where: an address."""
    outcome: str = "done"
    """done, or the code of the refusal."""
    values: dict[str, Any] = field(default_factory=dict)


class Audited(Struct, frozen=True):
    seq: int
    act: Act
    hash: str


class TrailRow(Struct, frozen=True):
    """An act exactly as it is kept: its hash is made of this very text."""

    seq: int
    body: str
    hash: str


class Chain(Struct, frozen=True):
    """What a look at the whole audit trail found."""

    count: int
    head: str
    """The hash of the last act: whoever notes it can tell later whether the trail was cut."""
    broken: int | None
    """The first act that does not follow from the one before; None = all do."""
    noted: int | None = None
    """The act that has the hash that was asked about; None = none has, or none was asked about."""


class LabStore(Protocol):
    """What the lab has decided, and the trail of who did so."""

    async def amend(self, amendments: Sequence[Amendment], acts: Sequence[Act]) -> None:
        """All of these together with the acts that say so, or none. StaleWrite when an entry has
        another version."""
        ...

    async def entries(self) -> list[Entry]: ...

    async def secret(self, kind: str, name: str) -> str | None:
        """What is kept beside an entry."""
        ...

    async def audited(
        self, before: int | None, limit: int, *, who: str = "", act: str = ""
    ) -> list[Audited]:
        """The newest acts, the newest first; those before the number `before`. With `who` only
        that person's, with `act` only those of that word, or of the family it is the first word of."""
        ...

    async def trail(self, after: int, limit: int) -> list[TrailRow]:
        """Acts as they are kept, the oldest first; those after the number `after`."""
        ...

    async def verify_audit(self, noted: str = "") -> Chain:
        """Look at every act; and for the one with the hash `noted`."""
        ...


class Store(LabStore, Protocol):
    """The writing side, used by flow only."""

    @property
    def failing(self) -> str:
        """Why nothing can be recorded at the moment; "" = it can, as far as anybody knows."""
        ...

    def next_ids(self, count: int) -> range:
        """Ids for new tasks, never given twice. Known before the commit; gaps are fine."""
        ...

    async def record(self, changes: Sequence[Change]) -> int:
        """All of these, or none. Returns the sequence number of the last event."""
        ...

    async def erase(self, tasks: Sequence[Task], deleted: Deleted) -> int:
        """All of these with everything that belongs to them, an array with its elements; or none.

        Each must still be at its version, and nothing of it may be live: else StaleWrite. Of each
        one event stays, `deleted`, so that its id is never given again. Returns the sequence number
        of the last of them. Elements are gone at once for all who read; what they fill on the disk
        is swept by and by, without keeping others waiting.
        """
        ...

    async def remember(self, name: str, value: str) -> None:
        """Keep a value over restarts, in the place of the one of that name."""
        ...

    async def renumber(
        self, attempt: str, before: int, after: int, incarnation: Incarnation
    ) -> None:
        """Give a live attempt that provably never began another launch number."""
        ...

    async def raise_epoch(self) -> int:
        """The next epoch of the server, durable. Called once at each start."""
        ...

    async def highest_launch_number(self, node: str) -> int: ...

    async def recall(self, name: str) -> str | None:
        """What was remembered by that name."""
        ...

    async def task(self, key: TaskKey) -> Task | None: ...

    async def tasks(self, keys: Sequence[TaskKey]) -> list[Task]:
        """Those of `keys` that there are, in the order asked for."""
        ...

    async def waiting(self) -> list[WaitingRow]:
        """HELD and QUEUED, by position. Specs are decoded; callers keep only what they need."""
        ...

    async def live(self) -> list[tuple[Task, Attempt]]:
        """STARTING, RUNNING and STOPPING, each with its current attempt."""
        ...

    async def arrays(self) -> list[ArrayRow]:
        """Arrays that have not ended, by id."""
        ...

    async def ended(self, id: int, outcomes: Collection[str]) -> Indices:
        """Elements of this array that ended so. Those that never became rows are not among them."""
        ...

    async def outcomes(self, keys: Sequence[TaskKey]) -> dict[TaskKey, str | None]:
        """How each of these ended; None = it has not. A key that is missing is no row."""
        ...

    async def attempt(self, id: str) -> Attempt | None: ...

    async def outlived(
        self, before: datetime | None, beyond: int | None, after: Task | None, limit: int
    ) -> list[Task]:
        """Finished tasks and arrays, the oldest end first: those that ended before `before`, and
        those that `beyond` others or more have ended after. It goes on after `after`."""
        ...

    async def absent(self, attempts: Sequence[str]) -> list[str]:
        """Those of `attempts` (ids) that are not recorded, or no longer."""
        ...

    async def attempts_of(self, keys: Sequence[TaskKey]) -> list[str]:
        """Ids of all attempts of these tasks; of an array: of its elements."""
        ...

    async def history(self, key: TaskKey) -> list[Event]:
        """A task's events, oldest first."""
        ...

    def check(self) -> list[str]:
        """Every broken invariant as a sentence; empty = sound. For tests and `doctor`."""
        ...


class LogCopy(Protocol):
    """An output being copied: appears whole at `keep`, or not at all."""

    def write(self, offset: int, data: bytes) -> None: ...

    def keep(self, size: int) -> None:
        """Durable when it returns. May block: call it in a thread."""
        ...

    def drop(self) -> None: ...


class LogShelf(Protocol):
    """Copies of finished attempts' output. Files on the server, not in the database."""

    def copy(self, attempt: str, rank: int, stream: str) -> LogCopy: ...

    def has(self, attempt: str, rank: int, stream: str) -> bool: ...

    def read(
        self, attempt: str, rank: int, stream: str, offset: int, limit: int
    ) -> tuple[int, bytes, int] | None:
        """(offset after a hole, bytes, size), or None when there is no copy."""
        ...

    def batches(self, before: datetime) -> Iterator[list[str]]:
        """Attempts that have a copy, none of it made since `before`; some at a time. May block."""
        ...

    def remove(self, attempt: str) -> None:
        """Every copy of this attempt's output; there may be none. May block."""
        ...
