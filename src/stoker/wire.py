"""What travels over HTTP. Requests are closed, answers are open (an old client, a newer server).

`id` is always a string (`"17"`, `"17_3"`). Instants are ISO 8601 in UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from stoker.domain.node import Gpu
from stoker.domain.outcome import End
from stoker.domain.task import TaskSpec

MOST_IN_BATCH = 10_000


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
    spec: TaskSpec | Raw


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
    values: dict[str, Any] | Raw
    """The event's own fields."""


class EventPage(Struct, frozen=True, kw_only=True):
    events: tuple[EventView, ...]
    next: int
    """Give it as `after` for what follows; stays the same when nothing has."""
    reset: bool
    """`after` was not of these records, or too old: load what you show anew, go on from `next`."""


class LogPiece(Struct, frozen=True, kw_only=True):
    """One event of a log stream: bytes `offset` to `next` of the output, as text."""

    attempt: str
    offset: int
    """Above the `next` before it when the middle of the output was not kept."""
    next: int
    text: str
    """Bytes that are not UTF-8 are replaced; no character is split between two events."""


class WaitReason(Struct, frozen=True, kw_only=True):
    code: str
    message: str


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
    """Who holds it."""
    memory_used_mib: int | None
    utilisation: int | None
    temperature_c: int | None
    power_w: int | None
    foreign: tuple[str, ...]
    """Processes on it that are not Stoker's, each `account:pid:command`."""


class NodeView(Struct, frozen=True, kw_only=True):
    name: str
    up: bool
    since: datetime | None
    """When it came up, or went out of reach."""
    why: str
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
    waiting: int
    live: int


class Version(Struct, frozen=True, kw_only=True):
    version: str
    api: str
    home: str


class Problem(Struct, frozen=True, kw_only=True):
    """Every error of the API has this shape."""

    code: str
    message: str
    field: str | None = None
    hint: str | None = None
