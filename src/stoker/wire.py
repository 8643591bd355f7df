"""What travels over HTTP. Requests are closed, answers are open (an old client, a newer server).

`id` is always a string (`"17"`, `"17_3"`). Instants are ISO 8601 in UTC. Types say what a client
reads; the server puts JSON that is encoded already in some of these places.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from typing_extensions import override

from stoker.domain.node import Gpu
from stoker.domain.outcome import End
from stoker.domain.task import TaskSpec

MOST_IN_BATCH = 10_000
MOST_WHY = 500


class Submission(TaskSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /tasks: a TaskSpec, no field of its own."""


class Batch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /tasks/batch: all of them are accepted, or none."""

    tasks: Annotated[tuple[Submission, ...], Meta(min_length=1, max_length=MOST_IN_BATCH)]


class Created(Struct, frozen=True, kw_only=True):
    """The answer to a submit. `state` is STARTING when it could begin at once."""

    id: str
    state: str


class BatchCreated(Struct, frozen=True, kw_only=True):
    ids: tuple[str, ...]


class Move(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a waiting task goes in the line."""

    to: Literal["first", "last", "before", "after"]
    other: Annotated[str, Meta(max_length=50)] | None = None
    """The task that `before` and `after` are about."""


class Extension(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another time limit: exactly one of these."""

    time_limit_s: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    """From its start on, in seconds."""
    add_s: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    """So many seconds more than now."""
    no_limit: bool = False


class DrainWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    why: Annotated[str, Meta(max_length=MOST_WHY)] = ""
    """Shown to everybody whose task waits for the node."""


class Deletion(Struct, frozen=True, kw_only=True):
    deleted: tuple[str, ...]
    """Every task that is gone, those that waited for it included when that was asked for."""


class ArrayCounts(Struct, frozen=True, kw_only=True):
    """The elements of an array. The last five are how they ended; all but `size` add up to it."""

    size: int
    waiting: int = 0
    live: int = 0
    """Starting, running or stopping."""
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    timed_out: int = 0
    lost: int = 0


class TaskView(Struct, frozen=True, kw_only=True):
    """A task as lists show it."""

    id: str
    owner: str
    state: str
    version: int
    submitted_at: datetime
    attempts: int
    started_at: datetime | None
    finished_at: datetime | None
    node: str | None
    gpu_ids: tuple[int, ...]
    outcome: str | None
    reason: str | None
    """A code; `message` is the same as a sentence."""
    message: str | None
    exit_code: int | None
    signal: int | None
    stopped_by: str | None
    origin: str | None = None
    """The task it was made from, by an edit or a new submit of an old one."""
    array: ArrayCounts | None = None
    """Of an array as a whole; null for a plain task and for an element."""
    sweep: dict[str, str] | None = None
    """Of an element of a sweep: its values, by name; null for all others."""
    reduced: bool = False
    """It is another person's: what only its owner and admins see is left out here, above all of
    `spec`, whose `command` is empty unless the lab shows it to all."""
    spec: TaskSpec

    @override
    def __repr__(self) -> str:
        """Short, for a prompt or a notebook: what it is called, where it is, how it ended."""
        known = {
            "name": self.spec.name,
            "outcome": self.outcome,
            "message": self.message,
            "node": self.node,
            "gpu_ids": self.gpu_ids,
            "array": self.array,
        }
        shown = "".join(f", {name}={value!r}" for name, value in known.items() if value)
        return f"TaskView(id={self.id!r}, state={self.state!r}{shown})"


class TaskPage(Struct, frozen=True, kw_only=True):
    tasks: tuple[TaskView, ...]
    next: str | None
    """Give it as `cursor` for the following page; null at the end."""


class AttemptView(Struct, frozen=True, kw_only=True):
    id: str
    ordinal: int
    node: str
    gpu_ids: tuple[int, ...]
    placed_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    end: End | None


class EventView(Struct, frozen=True, kw_only=True):
    seq: int
    task: str
    event: str
    at: datetime
    values: dict[str, Any]
    """The event's own fields."""


class EventPage(Struct, frozen=True, kw_only=True):
    events: tuple[EventView, ...]
    next: int
    """Give it as `after` for what follows; stays the same when nothing has."""
    reset: bool
    """`after` was not of these records: load what you show anew, go on from `next`."""


class LogPiece(Struct, frozen=True, kw_only=True):
    """One event of a log stream: bytes `offset` to `next` of the output, as text."""

    attempt: str
    offset: int
    """Above the `next` before it when the middle of the output was not kept."""
    next: int
    text: str
    """Bytes that are not UTF-8 are replaced; no character is split between two events."""


class WaitReason(Struct, frozen=True, kw_only=True):
    """A code, its values, and the two as a sentence."""

    code: str
    message: str
    values: dict[str, Any] = field(default_factory=dict)


class StartView(Struct, frozen=True, kw_only=True):
    """Where it would start."""

    node: str
    gpu_ids: tuple[int, ...]


class HolderView(Struct, frozen=True, kw_only=True):
    """A task that holds what this one waits for; without `task` and `owner` where the lab does not
    show whose it is."""

    task: str
    owner: str
    node: str
    gpu_ids: tuple[int, ...]
    ends: datetime | None
    """When its time limit ends it at the latest; null when it has none."""


class PlaceView(Struct, frozen=True, kw_only=True):
    ahead: int
    """Tasks that come before it."""
    more: bool
    """There are at least so many; nobody counted on."""
    waiting: int
    """All tasks in line; an array counts once."""


class EstimateView(Struct, frozen=True, kw_only=True):
    at: datetime | None
    """When it may start; null when nobody can say."""
    basis: WaitReason
    """What that is based on."""


class SuggestionView(Struct, frozen=True, kw_only=True):
    """A change with which it would start now."""

    code: str
    message: str
    values: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of the task with the values they would need; empty for an act that is no edit."""


class WhyView(Struct, frozen=True, kw_only=True):
    """Why a task waits, or would; everything is empty for one that does not wait."""

    starts: tuple[StartView, ...] | None
    """Where it could start now; null when it has to wait."""
    reasons: tuple[WaitReason, ...]
    """All of them, not only the first."""
    holders: tuple[HolderView, ...]
    place: PlaceView | None
    estimate: EstimateView | None
    suggestions: tuple[SuggestionView, ...]


class TaskDetail(Struct, frozen=True, kw_only=True):
    task: TaskView
    waits: tuple[WaitReason, ...]
    """Why it does not run yet; empty unless it waits."""
    attempts: tuple[AttemptView, ...]
    events: tuple[EventView, ...]
    unconfirmed: bool
    """Its node is out of reach: what is shown is what was last known."""


class CardView(Struct, frozen=True, kw_only=True):
    gpu: Gpu
    task: str | None
    """Who holds it; the first of `tasks`."""
    tasks: tuple[str, ...] = ()
    """Everybody who holds it: several with mode shared or reuse, or with several slots."""
    busy: bool = False
    """Somebody holds it, also where the lab does not show whose task that is."""
    kept_for: str | None = None
    """It is kept free for this task, which is the first that does not fit; "" when the lab does
    not show whose that is."""
    kept_since: datetime | None = None
    memory_used_mib: int | None
    utilisation: int | None
    temperature_c: int | None
    power_w: int | None
    foreign: tuple[str, ...]
    """Processes on it that are not Stoker's, each `account:pid:command`; without the command for
    whom it is none of their business."""


class NodeView(Struct, frozen=True, kw_only=True):
    name: str
    up: bool
    since: datetime | None
    """When it came up, or went out of reach."""
    why: str
    drained: str | None = None
    """Why nothing new starts on it; null when it takes tasks."""
    labels: tuple[str, ...] = ()
    """By which queues may name it."""
    cpus: int
    cpus_held: int
    memory_mib: int
    memory_held_mib: int
    memory_available_mib: int | None
    load1: float | None
    disk_free_mib: int | None
    limits: tuple[str, ...]
    gpu_error: str
    cards: tuple[CardView, ...]


class Health(Struct, frozen=True, kw_only=True):
    status: str
    """ok | degraded."""
    problems: tuple[str, ...]
    """What is wrong; left out for strangers."""
    waiting: int
    live: int
    notices: tuple[str, ...] = ()
    """What was decided so and everybody here should know; left out for strangers."""


class Version(Struct, frozen=True, kw_only=True):
    version: str
    api: str
    home: str
    """The state folder of the server; "" for all but admins."""


class Problem(Struct, frozen=True, kw_only=True):
    """Every error of the API has this shape."""

    code: str
    message: str
    field: str | None = None
    hint: str | None = None
