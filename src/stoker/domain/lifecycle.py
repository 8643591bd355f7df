"""The life of a task: one table, events in, `apply` pure.

`TRANSITIONS[(state, event)]` is the whole truth; docs/explanation/lifecycle.md is generated from
it. A task changes only by `apply`, each event raises its version by one, and FINISHED never
changes. Editing, moving and extending will be events here that change no state.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, structs

from .errors import InvalidTransition
from .event import (
    Ended,
    Event,
    Held,
    Placed,
    Released,
    Requeued,
    Started,
    StopRequested,
    Submitted,
)
from .key import TaskKey
from .outcome import End
from .task import TaskSpec


class State(StrEnum):
    """Each state waits for one thing, which `WAITS_FOR` names."""

    HELD = "HELD"
    QUEUED = "QUEUED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    FINISHED = "FINISHED"


WAITS_FOR: dict[State, str] = {
    State.HELD: "a person to release it",
    State.QUEUED: "its turn",
    State.STARTING: "the node to start it (the intent is committed)",
    State.RUNNING: "its own end",
    State.STOPPING: "the node to say that nothing is left of it",
    State.FINISHED: "nothing",
}

WAITING = frozenset({State.HELD, State.QUEUED})
LIVE = frozenset({State.STARTING, State.RUNNING, State.STOPPING})
"""States in which an attempt holds its allocation."""

TRANSITIONS: dict[tuple[State, type[Event]], State] = {
    (State.HELD, Released): State.QUEUED,
    (State.HELD, Ended): State.FINISHED,
    (State.QUEUED, Held): State.HELD,
    (State.QUEUED, Placed): State.STARTING,
    (State.QUEUED, Ended): State.FINISHED,
    (State.STARTING, Started): State.RUNNING,
    (State.STARTING, StopRequested): State.STOPPING,
    (State.STARTING, Requeued): State.QUEUED,
    (State.STARTING, Ended): State.FINISHED,
    (State.RUNNING, StopRequested): State.STOPPING,
    (State.RUNNING, Requeued): State.QUEUED,
    (State.RUNNING, Ended): State.FINISHED,
    (State.STOPPING, Requeued): State.QUEUED,
    (State.STOPPING, Ended): State.FINISHED,
}
"""`Submitted` creates HELD or QUEUED. STOPPING is left by Requeued only when the stop asked for it."""


class Task(Struct, frozen=True, kw_only=True):
    """A task as its events have made it."""

    id: int
    element: int
    owner: str
    spec: TaskSpec
    state: State
    version: int
    position: int
    submitted_at: datetime
    attempts: int = 0
    attempt: str | None = None
    """The current attempt, or the last one."""
    node: str | None = None
    gpu_ids: tuple[int, ...] = ()
    started_at: datetime | None = None
    finished_at: datetime | None = None
    stop_cause: str | None = None
    stopped_by: str | None = None
    end: End | None = None

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.id, self.element)


def submit(key: TaskKey, event: Submitted) -> Task:
    """The task that `Submitted` creates."""
    return Task(
        id=key.id,
        element=key.element,
        owner=event.owner,
        spec=event.spec,
        state=State.HELD if event.spec.hold else State.QUEUED,
        version=1,
        position=event.position,
        submitted_at=event.at,
    )


def apply(task: Task, event: Event) -> Task:
    """The task after `event`. Raises InvalidTransition for what the table does not allow."""
    state = TRANSITIONS.get((task.state, type(event)))
    if state is None or _contradicts(task, event):
        raise InvalidTransition(
            task=str(task.key), state=str(task.state), version=task.version, event=repr(event)
        )
    moved = structs.replace(task, state=state, version=task.version + 1)
    match event:
        case Placed():
            return structs.replace(
                moved,
                attempts=task.attempts + 1,
                attempt=event.attempt,
                node=event.allocation.node,
                gpu_ids=tuple(gpu.index for gpu in event.allocation.gpus),
                started_at=None,
            )
        case Started():
            return structs.replace(moved, started_at=event.at)
        case StopRequested():
            return structs.replace(moved, stop_cause=event.cause, stopped_by=event.by)
        case Requeued():
            return structs.replace(
                moved, node=None, gpu_ids=(), started_at=None, stop_cause=None, stopped_by=None
            )
        case Ended():
            return structs.replace(
                moved,
                finished_at=event.at,
                end=event.end,
                stopped_by=event.by or task.stopped_by,
            )
        case Held() | Released() | Submitted():
            return moved


def replay(key: TaskKey, events: Iterable[Event]) -> Task:
    """The task that this history makes. The first event is Submitted."""
    history = iter(events)
    first = next(history, None)
    if not isinstance(first, Submitted):
        raise InvalidTransition(task=str(key), event=repr(first))
    task = submit(key, first)
    for event in history:
        task = apply(task, event)
    return task


def _contradicts(task: Task, event: Event) -> bool:
    """Stale news of an older attempt, or a requeue of a task that a person stopped."""
    match event:
        case Started() | Requeued():
            if event.attempt != task.attempt:
                return True
        case Ended():
            if event.attempt != (task.attempt if task.state in LIVE else None):
                return True
        case _:
            pass
    return (
        isinstance(event, Requeued)
        and task.state is State.STOPPING
        and task.stop_cause != "requeue"
    )
