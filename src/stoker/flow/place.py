"""The plan becomes intents: committed with their allocation before anything is sent.

Room is taken in the view first, then the intent is recorded; a refused record gives it back. The
store's guard (version, and one holder per card) is the last wall against giving a card twice.
"""

from __future__ import annotations

import asyncio
import logging

from msgspec import Struct

from stoker.domain.attempt import Attempt
from stoker.domain.errors import StaleWrite, StoreDown
from stoker.domain.event import Placed
from stoker.domain.lifecycle import State, Task
from stoker.domain.node import Allocation
from stoker.runner import killpoint
from stoker.scheduler.plan import Placement, plan
from stoker.scheduler.view import needs_of
from stoker.store.base import Change

from .commit import commit, moved
from .context import Flow
from .launch import launch

log = logging.getLogger("stoker.flow")


class Intent(Struct, frozen=True):
    """To run this task as this attempt. Its room is taken; it is not recorded yet."""

    change: Change
    attempt: Attempt


async def place(flow: Flow) -> None:
    """Start everything that can start now."""
    flow.unplanned = False
    placements = plan(flow.view, flow.clock.now())
    if not placements:
        return
    for placement in placements:
        flow.view.dequeue(placement.key)
    holds = {p.key: f"planned {p.key}" for p in placements}
    for placement in placements:
        flow.view.take(holds[placement.key], placement.allocation)
    tasks = {task.key: task for task in await flow.store.tasks([p.key for p in placements])}
    intents: list[Intent] = []
    for placement in placements:
        flow.view.free(holds[placement.key])
        task = tasks.get(placement.key)
        if task is not None and _is_as_planned(task, placement):
            intents.append(intend(flow, task, placement.allocation))
        elif task is not None:
            queue_again(flow, task)
    recorded = await asyncio.gather(*(_record(flow, intent) for intent in intents))
    launch(flow, [intent for intent, ok in zip(intents, recorded, strict=True) if ok])


def intend(flow: Flow, task: Task, allocation: Allocation) -> Intent:
    """Take the room and a launch number for a new attempt at `task`."""
    node = flow.nodes[allocation.node]
    node.launch_number += 1
    placed = Placed(
        at=flow.clock.now(),
        attempt=flow.new_attempt(),
        allocation=allocation,
        incarnation=node.incarnation,
        launch_number=node.launch_number,
        epoch=flow.epoch,
    )
    flow.view.take(placed.attempt, allocation)
    attempt = Attempt(
        id=placed.attempt,
        task_id=task.id,
        task_element=task.element,
        ordinal=task.attempts + 1,
        allocation=allocation,
        incarnation=placed.incarnation,
        launch_number=placed.launch_number,
        epoch=placed.epoch,
        placed_at=placed.at,
    )
    killpoint.reach(killpoint.PLACE)
    return Intent(moved(task, placed), attempt)


def give_back(flow: Flow, intent: Intent) -> None:
    """This intent was not recorded."""
    flow.view.free(intent.attempt.id)
    flow.replan()


def queue_again(flow: Flow, task: Task) -> None:
    """Put a task back in line if it is still QUEUED."""
    if task.state is State.QUEUED:
        flow.view.enqueue(task.key, needs_of(task.spec), task.position, task.version)
        flow.replan()


async def _record(flow: Flow, intent: Intent) -> bool:
    try:
        await commit(flow, [intent.change])
    except (StaleWrite, StoreDown) as error:
        flow.view.free(intent.attempt.id)
        await _reload(flow, intent, error)
        return False
    return True


async def _reload(flow: Flow, intent: Intent, error: Exception) -> None:
    """Somebody moved the task first, or the disk refused: go by what is recorded."""
    key = intent.change.task.key
    log.warning("event=intent_dropped task_id=%s reason=%s", key, error)
    task = await flow.store.task(key)
    if task is None or task.state is not State.QUEUED:
        return
    flow.view.enqueue(key, needs_of(task.spec), task.position, task.version)
    if isinstance(error, StaleWrite):
        flow.replan()


def _is_as_planned(task: Task, placement: Placement) -> bool:
    return task.state is State.QUEUED and task.version == placement.version
