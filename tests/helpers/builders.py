"""Small builders, so that a test says only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from stoker.domain.event import Ended, Event, Placed, Started, Submitted
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import Task, apply, begin, unfold
from stoker.domain.node import Allocation, Gpu, HeldGpu, Incarnation, Node
from stoker.domain.outcome import End, Outcome
from stoker.domain.task import TaskSpec
from stoker.store.base import Change

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
LIFE = Incarnation("boot-1", "spool-1")


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def a_spec(**fields: Any) -> TaskSpec:
    return TaskSpec(**{"command": ("true",), "workdir": "/tmp", **fields})


def a_node(name: str = "node-a", gpus: int = 4, cpus: int = 16, memory_mib: int = 64_000) -> Node:
    cards = tuple(Gpu(i, f"{name}-gpu-{i}", "Test GPU", 24_576) for i in range(gpus))
    return Node(name=name, cpus=cpus, memory_mib=memory_mib, gpus=cards)


def an_allocation(node: str = "node-a", *gpus: int, cpus: int = 0) -> Allocation:
    held = tuple(HeldGpu(i, f"{node}-gpu-{i}") for i in gpus)
    return Allocation(node=node, gpus=held, cpus=cpus)


def submitted(spec: TaskSpec | None = None, owner: str = "ana", position: int = 1) -> Submitted:
    return Submitted(at=NOON, owner=owner, spec=spec or a_spec(), position=position)


def placed(attempt: str = "a1", *gpus: int, number: int = 1) -> Placed:
    return Placed(
        at=at(1),
        attempt=attempt,
        allocation=an_allocation("node-a", *gpus),
        incarnation=LIFE,
        launch_number=number,
        epoch=1,
    )


def started(attempt: str = "a1") -> Started:
    return Started(at=at(2), attempt=attempt)


def ended(
    attempt: str | None = "a1", outcome: Outcome = "succeeded", reason: str = "exit_zero"
) -> Ended:
    return Ended(at=at(3), attempt=attempt, end=End(outcome=outcome, reason=reason, exit_code=0))


def a_task(id: int = 1, **fields: Any) -> Task:
    return begin(TaskKey(id), submitted(a_spec(**fields), position=id))


def an_element(array: Task, element: int, *events: Event) -> tuple[Task, tuple[Event, ...]]:
    """An element of `array` that became a row by `events`, and all its events."""
    first = unfold(array, element, at(1))
    task = begin(TaskKey(array.id, element), first)
    for event in events:
        task = apply(task, event)
    return task, (first, *events)


# ---- ready to be recorded


def new(id: int, spec: TaskSpec | None = None, *more: Event, owner: str = "ana") -> Change:
    """A task that was submitted, and then `more`."""
    first = submitted(spec, owner=owner, position=id)
    task = begin(TaskKey(id), first)
    for event in more:
        task = apply(task, event)
    return Change(task, (first, *more))


def move(task: Task, *events: Event) -> Change:
    for event in events:
        task = apply(task, event)
    return Change(task, events)


def element(array: Task, number: int, *events: Event) -> Change:
    """An element of `array`, as it was read, becomes a row."""
    return Change(*an_element(array, number, *events), array.version)
