"""The life of a task: one table, events in, `apply` pure.

`TRANSITIONS[(state, event)]` is the whole truth; docs/explanation/lifecycle.md is generated from
it. A task changes only by `apply`, each event raises its version by one, and FINISHED never
changes. An array is a task that is never placed: its elements are tasks of their own from the
moment something happens to one of them alone, and it ends when all of them have.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, structs

from .errors import InvalidTransition
from .event import (
    Deleted,
    Edited,
    Ended,
    Event,
    Held,
    LimitExtended,
    Moved,
    Placed,
    Released,
    Requeued,
    Started,
    StopRequested,
    Submitted,
    Unfolded,
    Waived,
)
from .key import PLAIN, TaskKey
from .outcome import End
from .sweep import array_of, is_array
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
    State.QUEUED: "its turn (an array: its elements to end)",
    State.STARTING: "the node to start it (the intent is committed)",
    State.RUNNING: "its own end",
    State.STOPPING: "the node to say that nothing is left of it (an array: its elements to end)",
    State.FINISHED: "nothing",
}

WAITING = frozenset({State.HELD, State.QUEUED})
LIVE = frozenset({State.STARTING, State.RUNNING, State.STOPPING})
"""States in which an attempt holds its allocation (a stopping array has none)."""

TRANSITIONS: dict[tuple[State, type[Event]], State] = {
    (State.HELD, Edited): State.HELD,
    (State.HELD, Moved): State.HELD,
    (State.HELD, LimitExtended): State.HELD,
    (State.HELD, Waived): State.HELD,
    (State.HELD, Released): State.QUEUED,
    (State.HELD, StopRequested): State.STOPPING,
    (State.HELD, Ended): State.FINISHED,
    (State.QUEUED, Edited): State.QUEUED,
    (State.QUEUED, Moved): State.QUEUED,
    (State.QUEUED, LimitExtended): State.QUEUED,
    (State.QUEUED, Waived): State.QUEUED,
    (State.QUEUED, Held): State.HELD,
    (State.QUEUED, Placed): State.STARTING,
    (State.QUEUED, StopRequested): State.STOPPING,
    (State.QUEUED, Ended): State.FINISHED,
    (State.STARTING, Started): State.RUNNING,
    (State.STARTING, LimitExtended): State.STARTING,
    (State.STARTING, StopRequested): State.STOPPING,
    (State.STARTING, Requeued): State.QUEUED,
    (State.STARTING, Ended): State.FINISHED,
    (State.RUNNING, LimitExtended): State.RUNNING,
    (State.RUNNING, StopRequested): State.STOPPING,
    (State.RUNNING, Requeued): State.QUEUED,
    (State.RUNNING, Ended): State.FINISHED,
    (State.STOPPING, LimitExtended): State.STOPPING,
    (State.STOPPING, StopRequested): State.STOPPING,
    (State.STOPPING, Requeued): State.QUEUED,
    (State.STOPPING, Ended): State.FINISHED,
}
"""`Submitted` creates HELD or QUEUED, and so does `Unfolded` for an element of an array. STOPPING is
left by Requeued only when the stop asked for it. Only an array is stopped while it waits, and no
array is ever placed."""


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
    origin: str | None = None
    """The task it was made from."""
    anyway: bool = False
    """It no longer waits for other tasks."""
    not_before: datetime | None = None
    retried: int = 0
    never_ran: int = 0
    """Attempts in a row that never ran, up to now."""
    counts: dict[str, int] | None = None
    """Of an array that has ended: elements by outcome."""

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.id, self.element)

    @property
    def is_array(self) -> bool:
        return self.element == PLAIN and is_array(self.spec)


def begin(key: TaskKey, event: Submitted | Unfolded) -> Task:
    """The task that its first event creates: an element is unfolded, any other task submitted."""
    if isinstance(event, Unfolded) != (key.element != PLAIN):
        raise InvalidTransition(task=str(key), event=repr(event))
    match event:
        case Submitted():
            held, anyway, submitted_at = event.spec.hold, False, event.at
        case Unfolded():
            held, anyway, submitted_at = event.held, event.anyway, event.submitted_at
    return Task(
        id=key.id,
        element=key.element,
        owner=event.owner,
        spec=event.spec,
        state=State.HELD if held else State.QUEUED,
        version=1,
        position=event.position,
        submitted_at=submitted_at,
        origin=event.origin,
        anyway=anyway,
    )


def unfold(array: Task, element: int, at: datetime) -> Unfolded:
    """How this element begins: as it has waited until now, together with the others.

    Raises InvalidTransition when the array has no such element, or none that may still begin.
    """
    indices = array_of(array.spec) if array.is_array else None
    if indices is None or element not in indices.indices or array.state not in WAITING:
        raise InvalidTransition(
            task=str(array.key), state=str(array.state), version=array.version, element=element
        )
    return Unfolded(
        at=at,
        owner=array.owner,
        spec=array.spec,
        position=array.position,
        submitted_at=array.submitted_at,
        origin=array.origin,
        held=array.state is State.HELD,
        anyway=array.anyway,
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
        case Edited() | Moved() | Waived() | Held() | Released():
            return _in_line(moved, event)
        case LimitExtended():
            spec = structs.replace(task.spec, time_limit_s=event.time_limit_s)
            return structs.replace(moved, spec=spec)
        case Placed() | Started() | StopRequested() | Requeued() | Ended():
            return _on_its_way(moved, event)
        case Submitted() | Unfolded() | Deleted():
            return moved


def replay(key: TaskKey, events: Iterable[Event]) -> Task:
    """The task that this history makes. The first event is Submitted or Unfolded."""
    history = iter(events)
    first = next(history, None)
    if not isinstance(first, Submitted | Unfolded):
        raise InvalidTransition(task=str(key), event=repr(first))
    task = begin(key, first)
    for event in history:
        task = apply(task, event)
    return task


def _in_line(task: Task, event: Edited | Moved | Waived | Held | Released) -> Task:
    """What else changes while it waits."""
    match event:
        case Edited():
            return structs.replace(
                task,
                spec=event.spec,
                not_before=None,
                never_ran=0,
                anyway=task.anyway and event.spec.after == task.spec.after,
            )
        case Moved():
            return structs.replace(task, position=event.position)
        case Waived():
            return structs.replace(task, anyway=True)
        case Released():
            return structs.replace(task, not_before=None)
        case Held():
            return task


def _on_its_way(task: Task, event: Placed | Started | StopRequested | Requeued | Ended) -> Task:
    """What else changes from its place to its end."""
    match event:
        case Placed():
            return structs.replace(
                task,
                attempts=task.attempts + 1,
                attempt=event.attempt,
                node=event.allocation.node,
                gpu_ids=tuple(gpu.index for gpu in event.allocation.gpus),
                started_at=None,
                not_before=None,
            )
        case Started():
            return structs.replace(task, started_at=event.at, never_ran=0)
        case StopRequested():
            return structs.replace(task, stop_cause=event.cause, stopped_by=event.by)
        case Requeued():
            return structs.replace(
                task,
                node=None,
                gpu_ids=(),
                started_at=None,
                stop_cause=None,
                stopped_by=None,
                not_before=event.not_before,
                retried=task.retried + event.retry,
                never_ran=task.never_ran + 1 if event.end is None else 0,
            )
        case Ended():
            return structs.replace(
                task,
                finished_at=event.at,
                end=event.end,
                stopped_by=event.by or task.stopped_by,
                counts=event.counts,
            )


def _contradicts(task: Task, event: Event) -> bool:  # noqa: PLR0911 - one rule per event
    """Stale news of an older attempt, a requeue of a task that a person stopped, or what happens
    only to arrays, or never to them."""
    match event:
        case Started():
            return event.attempt != task.attempt
        case Requeued():
            stopped = task.state is State.STOPPING and task.stop_cause != "requeue"
            return stopped or event.attempt != task.attempt
        case Ended():
            return event.attempt != (task.attempt if task.state in LIVE else None)
        case Placed():
            return task.is_array
        case LimitExtended() if task.state is State.STOPPING:
            return task.stop_cause != "requeue"  # what was cancelled has no time left
        case StopRequested() if task.state is State.STOPPING:
            # A requeue may become a cancel, not the other way.
            return task.stop_cause != "requeue" or event.cause == "requeue"
        case StopRequested():
            return task.state in WAITING and not task.is_array
        case _:
            return False
