"""Tasks at every point of their lives, ready to be recorded."""

from __future__ import annotations

from stoker.domain.event import Event
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import Task, apply, submit
from stoker.domain.task import TaskSpec
from stoker.store.base import Change
from tests.helpers.builders import submitted


def new(id: int, spec: TaskSpec | None = None, *more: Event, owner: str = "ana") -> Change:
    """A task that was submitted, and then `more`."""
    first = submitted(spec, owner=owner, position=id)
    task = submit(TaskKey(id), first)
    for event in more:
        task = apply(task, event)
    return Change(task, (first, *more))


def move(task: Task, *events: Event) -> Change:
    for event in events:
        task = apply(task, event)
    return Change(task, events)
