"""What the checker judges: plain values from the witness, the database, the node and the API.

No behaviour here. Times named `ns` are CLOCK_BOOTTIME; times named `wall_ns` are the wall clock of
whoever wrote them. Ids are strings throughout, as the API gives them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Line:
    """A witness said that it lives."""

    task: str
    attempt: str
    pid: int
    boot: str
    ns: int
    wall_ns: int
    what: Literal["start", "tick", "end"]
    who: Literal["main", "child"] = "main"
    gpus: tuple[int, ...] = ()
    code: int | None = None
    """With `end` only; negative for a signal that it raised itself."""


@dataclass(frozen=True)
class Exit:
    """How a part ended, in the node's own words (its record, or `ended.jsonl`)."""

    cause: str
    code: int | None = None
    signal: int | None = None


@dataclass(frozen=True)
class EndRow:
    """The recorded end of an attempt."""

    outcome: str
    reason: str
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True)
class TaskRow:
    id: str
    name: str
    state: str
    attempt: str | None = None
    end: EndRow | None = None
    requeue_on_loss: bool = False


@dataclass(frozen=True)
class AttemptRow:
    id: str
    task: str
    ordinal: int
    gpus: tuple[int, ...]
    boot: str
    spool: str
    placed_ns: int
    """Wall clock of the server, before the intent was committed."""
    ended_ns: int | None = None
    """Wall clock of the server, after nothing was left and before the end was committed."""
    end: EndRow | None = None
    """None with `ended_ns`: recorded as never having run."""


@dataclass(frozen=True)
class EventRow:
    seq: int
    task: str
    kind: str
    attempt: str | None = None


@dataclass(frozen=True)
class Answer:
    """The API said yes."""

    act: Literal["submit", "cancel", "finished"]
    """`finished`: it showed the task as FINISHED."""
    task: str
    ns: int
    name: str = ""
    """With `submit`: what was asked for."""


@dataclass
class History:
    lines: list[Line] = field(default_factory=list)
    tasks: list[TaskRow] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    exits: dict[str, Exit] = field(default_factory=dict)
    """By attempt: what the node itself still knows."""
    killed_supervisors: set[str] = field(default_factory=set)
    """Attempts whose supervisor was killed where its end could not be recorded."""
    unnamed_supervisor_kills: int = 0
    """Such deaths of which it is not known whose they were."""
    deleted_spools: set[str] = field(default_factory=set)
    ended_boots: set[str] = field(default_factory=set)
    is_server_clock_true: bool = True
    """False when the server's wall clock was altered: it is not compared with the witness's."""
