"""What is worth telling somebody, at the moment it happens: who listens is not flow's business.

Told once, after it is recorded; a crash in between takes the word with it, and it is not said
again. Elements of arrays are told of as well as arrays: listeners choose. A listener returns at
once and raises nothing; one that does not is logged and harms nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from stoker.domain.lifecycle import Task

if TYPE_CHECKING:
    from .context import Flow

log = logging.getLogger("stoker.flow")

Kind = Literal["started", "ended", "waiting_long", "limit_near"]


class Told(Struct, frozen=True, kw_only=True):
    """One thing that happened to a task."""

    kind: Kind
    task: Task
    """As it is now: with `ended` its end is in it."""
    at: datetime
    values: dict[str, object] = field(default_factory=dict)
    """waiting_long: `waited_s`. limit_near: `left_s`, `limit_s`, `ends_at`."""


Listener = Callable[[Told], None]
"""Must return at once and raise nothing."""


def tell(flow: Flow, kind: Kind, task: Task, **values: object) -> None:
    """Say it to everybody in `flow.listeners`."""
    if not flow.listeners:
        return
    told = Told(kind=kind, task=task, at=flow.clock.now(), values=values)
    for listener in flow.listeners:
        try:
            listener(told)
        except Exception:
            log.exception("event=listener_failed kind=%s task_id=%s", kind, task.key)
