"""What runs attempts, as flow sees it.

Orders are idempotent per attempt and only queue: they return at once, never wait for a node, and
may be repeated. What was seen comes back as facts, possibly late, twice or out of order. Being
unreachable says nothing about an attempt.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

from stoker.domain.attempt import Attempt
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.node import Incarnation, Node
from stoker.domain.outcome import End
from stoker.domain.task import TaskSpec


class Capabilities(Struct, frozen=True, kw_only=True):
    places_itself: bool
    """It has a scheduler of its own; we do not choose nodes and cards."""
    survives_restart: bool
    live_logs: bool


# ---- orders


class LaunchOrder(Struct, frozen=True, kw_only=True):
    """Ensure that this attempt runs."""

    attempt: Attempt
    spec: TaskSpec
    owner: str
    account: str = ""
    """The unix account it runs as; "" = that of the runner."""
    submitted_at: datetime | None = None
    """Of its task: with its id it says which task this is, also to a server with older records."""


class StopOrder(Struct, frozen=True, kw_only=True):
    """End this attempt: TERM, grace, KILL."""

    attempt: Attempt
    cause: str
    grace_s: int


class ExtendOrder(Struct, frozen=True, kw_only=True):
    """The time limit of this attempt is another one, longer or shorter."""

    attempt: Attempt
    time_limit_s: int | None
    """From its start; None = none."""
    serial: int
    """The higher one is the newer: the version of its task."""


class LiveAttempt(Struct, frozen=True, kw_only=True):
    """An attempt that the records say is alive, for `reconcile` after a restart."""

    attempt: Attempt
    state: State
    spec: TaskSpec
    owner: str
    account: str = ""
    """As in its LaunchOrder."""
    stop_cause: str | None = None
    submitted_at: datetime | None = None
    version: int = 0
    """Of its task."""


# ---- facts


class NodeUp(Struct, frozen=True, kw_only=True):
    """A node introduced itself. Placement on it may use launch numbers above `highest`."""

    node: Node
    incarnation: Incarnation
    highest: int


class NodeDown(Struct, frozen=True, kw_only=True):
    """Out of reach since `at`. Its attempts are unconfirmed; its cards stay held."""

    node: str
    at: datetime
    why: str = ""


class CardUse(Struct, frozen=True, kw_only=True):
    uuid: str
    memory_used_mib: int
    utilisation: int
    temperature_c: int | None = None
    power_w: int | None = None
    foreign: tuple[str, ...] = ()
    """Processes on it that are not of any attempt, each as `account:pid:command`."""
    foreign_mib: int = 0
    """Memory that those use."""
    attempts: dict[str, int] = field(default_factory=dict)
    """MiB measured for each attempt of ours."""


class NodeSampled(Struct, frozen=True, kw_only=True):
    node: str
    at: datetime
    load1: float
    memory_available_mib: int
    disk_free_mib: int
    cards: tuple[CardUse, ...] = ()


class AttemptStarted(Struct, frozen=True, kw_only=True):
    attempt: str
    at: datetime


class AttemptEnded(Struct, frozen=True, kw_only=True):
    """Nothing is left of it."""

    attempt: str
    at: datetime
    end: End
    started_at: datetime | None = None
    """When its command began, if it did."""
    requeue: bool = False
    """It was stopped so that it can run again."""
    log: bytes | None = None
    """The whole of Stoker's own log, when the engine has it at hand."""


class AttemptLost(Struct, frozen=True, kw_only=True):
    """No exit will ever be known, and nothing is left of it. `evidence` is a reason code."""

    attempt: str
    at: datetime
    evidence: str


class AttemptNeverRan(Struct, frozen=True, kw_only=True):
    """Proof that its command never began: a new attempt is always allowed."""

    attempt: str


class AttemptUnnumbered(Struct, frozen=True, kw_only=True):
    """Never begun, and its launch number is used up: commit a new one, then launch again."""

    attempt: str
    incarnation: Incarnation


class AttemptStuck(Struct, frozen=True, kw_only=True):
    """It cannot be ended (a process ignores KILL). Its cards stay held."""

    attempt: str
    why: str


class AttemptUnknown(Struct, frozen=True, kw_only=True):
    """A node has an attempt that we did not expect there: an old end, or another history."""

    attempt: str
    node: str
    ended: bool
    gpus: tuple[str, ...] = ()
    """UUIDs of the cards it was given."""


class PastAttempt(Struct, frozen=True, kw_only=True):
    """An attempt that a node was once given, as the node remembers it."""

    attempt: str
    number: int
    incarnation: Incarnation
    epoch: int
    task: TaskKey | None
    """None: the node does not remember."""
    submitted_at: datetime | None
    gpus: tuple[str, ...] = ()
    over: AttemptEnded | AttemptLost | AttemptNeverRan | None = None
    """None: it runs."""
    revoked: bool = False
    """It was stopped before it began."""


class NodeRecalled(Struct, frozen=True, kw_only=True):
    """Everything that was launched on a node above the number it was asked about."""

    node: str
    incarnation: Incarnation
    parts: tuple[PastAttempt, ...]
    """By launch number."""
    unexplained: tuple[int, ...] = ()
    """Launch numbers that were used, but the node does not remember for what."""


class EngineOutdated(Struct, frozen=True, kw_only=True):
    """A node obeys a server with a higher epoch: this server must stop giving orders."""

    node: str
    epoch: int


Fact = (
    NodeUp
    | NodeDown
    | NodeSampled
    | AttemptStarted
    | AttemptEnded
    | AttemptLost
    | AttemptNeverRan
    | AttemptUnnumbered
    | AttemptStuck
    | AttemptUnknown
    | NodeRecalled
    | EngineOutdated
)


class LogChunk(Struct, frozen=True):
    """Bytes of output from `offset` (above the one asked for when the middle was not kept)."""

    offset: int
    data: bytes
    size: int
    """Of the whole output at this moment."""


class Engine(Protocol):
    capabilities: Capabilities

    async def start(self, epoch: int) -> None:
        """Begin to reach nodes. Orders carry `epoch`."""
        ...

    async def close(self) -> None:
        """Let go of nodes; attempts go on."""
        ...

    def facts(self) -> AsyncIterator[Fact]: ...

    def reconcile(self, attempts: Sequence[LiveAttempt]) -> None:
        """Expect these: called once after a restart, before any order."""
        ...

    def recall(self, above: Mapping[str, int]) -> frozenset[str]:
        """Ask every node first what was launched above this number (0 if it is not named).

        Called after a restore, before `start`. Each node answers once, by NodeRecalled, before any
        other word about an attempt there. Returns the nodes that will be asked.
        """
        ...

    def launch(self, orders: Sequence[LaunchOrder]) -> None: ...

    def stop(self, orders: Sequence[StopOrder]) -> None: ...

    def extend(self, orders: Sequence[ExtendOrder]) -> None:
        """Repeated until the node has it, or the attempt is over: whichever comes first."""
        ...

    def forget(self, node: str, attempts: Sequence[Attempt]) -> None:
        """Their ends are committed and their logs copied."""
        ...

    async def read_log(
        self, attempt: Attempt, rank: int, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """Raises UnknownLog when there is none, EngineUnreachable when the node is."""
        ...


@runtime_checkable
class NodeCalls(Protocol):
    """Beside Engine, for those that can: anything else that a node is asked for."""

    async def call(
        self, node: str, account: str, verb: str, args: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """What the node found, as `account` ("" = the runner's own). Takes seconds: never awaited
        by the loop. Raises EngineUnreachable when there is no answer in time, EngineRefused when
        it cannot do that."""
        ...
