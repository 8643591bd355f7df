"""The plan becomes intents: committed with their allocation before anything is sent.

Room is taken in the view first, then the intent is recorded; a refused record gives it back. The
store's guard (version, and one holder per card) is the last wall against giving a card twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

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

    before: Task
    change: Change
    attempt: Attempt


async def place(flow: Flow) -> None:
    """Start everything that can start now."""
    flow.unplanned = False
    placements = plan(flow.view, flow.clock.now())
    if not placements:
        return
    intents = await _intents(flow, placements)
    await asyncio.gather(*(_carry_out(flow, intent) for intent in intents))


async def _intents(flow: Flow, placements: Sequence[Placement]) -> list[Intent]:
    """The plan with what the records say of its tasks. Room is taken all the while."""
    waited = [flow.view.waiting(placement.key) for placement in placements]
    for placement in placements:
        flow.view.dequeue(placement.key)
        flow.view.take(_held_for(placement), placement.allocation)
    try:
        found = await flow.store.tasks([placement.key for placement in placements])
    except BaseException:
        for waiting in filter(None, waited):
            flow.view.enqueue(waiting.key, waiting.needs, waiting.position, waiting.version)
        flow.unplanned = True
        raise
    finally:
        for placement in placements:
            flow.view.free(_held_for(placement))
    tasks = {task.key: task for task in found}
    intents = []
    for placement in placements:
        task = tasks.get(placement.key)
        if task is not None and _is_as_planned(task, placement):
            intents.append(intend(flow, task, placement.allocation))
        elif task is not None:
            queue_again(flow, task)
    return intents


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
    return Intent(task, moved(task, placed), attempt)


def give_back(flow: Flow, intent: Intent) -> None:
    """This intent was not recorded."""
    flow.view.free(intent.attempt.id)
    flow.replan()


def queue_again(flow: Flow, task: Task) -> None:
    """Put a task back in line if it is still QUEUED."""
    if task.state is State.QUEUED:
        _enqueue(flow, task)
        flow.replan()


async def _carry_out(flow: Flow, intent: Intent) -> None:
    """Record it, then launch it at once: nobody may see it recorded and not yet alive."""
    try:
        await commit(flow, [intent.change])
    except StoreDown:  # nothing was recorded: it waits as before, until the disk is well
        flow.view.free(intent.attempt.id)
        _enqueue(flow, intent.before)
        flow.unplanned = True
    except StaleWrite as error:
        flow.view.free(intent.attempt.id)
        log.warning("event=intent_dropped task_id=%s reason=%s", intent.before.key, error)
        await _look_again(flow, intent.before)
    else:
        launch(flow, [intent])


async def _look_again(flow: Flow, task: Task) -> None:
    """Somebody moved it first: go by what is recorded. Unreadable: the next plan looks again."""
    try:
        now = await flow.store.task(task.key)
    except StoreDown:
        now = task
    if now is not None:
        queue_again(flow, now)


def _enqueue(flow: Flow, task: Task) -> None:
    flow.view.enqueue(task.key, needs_of(task.spec), task.position, task.version)


def _held_for(placement: Placement) -> str:
    """Stands for the attempt that does not exist yet."""
    return f"planned {placement.key}"


def _is_as_planned(task: Task, placement: Placement) -> bool:
    return task.state is State.QUEUED and task.version == placement.version
