"""The plan becomes intents: committed with their allocation before anything is sent.

Room is taken in the view first, then the intent is recorded; a refused record gives it back. The
store's guards (version, the array's version, one holder per card) are the last wall against giving
a card twice, and against a start that overtakes what a person has said.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from msgspec import Struct

from stoker.domain.attempt import Attempt
from stoker.domain.errors import StaleWrite, StoreDown
from stoker.domain.event import Placed
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.node import Allocation
from stoker.domain.sweep import is_array
from stoker.runner import killpoint
from stoker.scheduler.line import Waiting
from stoker.scheduler.needs import Sign
from stoker.scheduler.plan import Placement, plan
from stoker.scheduler.room import Holding
from stoker.store.base import Change

from .alarm import set_alarm
from .arrays import come_back, leave, unfolded
from .commit import commit, moved
from .context import Flow
from .follow import enqueue, waiting_for
from .keep import keep
from .launch import launch
from .pause import is_paused

log = logging.getLogger("stoker.flow")


class Spot(Struct, frozen=True):
    """Room that is taken for an attempt which is not recorded yet."""

    attempt: str
    placement: Placement
    waited: Waiting
    """Its entry in line; of a folded element its array's."""

    @property
    def is_folded(self) -> bool:
        return self.waited.key != self.placement.key


class Intent(Struct, frozen=True):
    """To run this task as this attempt. Its room is taken; it is not recorded yet."""

    change: Change
    attempt: Attempt
    before: Task | None = None
    """None: there is no row of it yet."""


async def place(flow: Flow) -> None:
    """Start everything that can start now."""
    flow.unplanned = False
    if flow.restoring is not None or is_paused(flow):
        return  # what waits may have run already; or nothing new is to start
    now = flow.clock.now()
    made = plan(flow.view, now)
    flow.view.reserve(made.reservations)
    keep(flow)
    set_alarm(flow, made.wake_at, now)
    if not made.placements:
        return
    flow.refused.difference_update(placement.sign for placement in made.placements)
    spots = [_take(flow, placement) for placement in made.placements]
    intents = await _intents(flow, spots)
    await asyncio.gather(*(_carry_out(flow, *pair) for pair in intents))


def take(flow: Flow, attempt: str, key: TaskKey, sign: Sign, where: Sequence[Allocation]) -> None:
    """From now on nobody else is given this room."""
    flow.view.take(
        Holding(
            attempt,
            key,
            sign.owner,
            sign.queue,
            sign.needs,
            tuple(where),
            flow.clock.now(),
            sign.limit_s,
            sign.array,
        )
    )


def intend(
    flow: Flow, key: TaskKey, ordinal: int, allocation: Allocation, attempt: str
) -> tuple[Placed, Attempt]:
    """The intent to run this task there, with the next launch number of the node."""
    node = flow.nodes[allocation.node]
    node.launch_number += 1
    placed = Placed(
        at=flow.clock.now(),
        attempt=attempt,
        allocation=allocation,
        incarnation=node.incarnation,
        launch_number=node.launch_number,
        epoch=flow.epoch,
    )
    killpoint.reach(killpoint.PLACE)
    return placed, Attempt(
        id=attempt,
        task_id=key.id,
        task_element=key.element,
        ordinal=ordinal,
        allocation=allocation,
        incarnation=placed.incarnation,
        launch_number=placed.launch_number,
        epoch=placed.epoch,
        placed_at=placed.at,
    )


def _take(flow: Flow, placement: Placement) -> Spot:
    """Out of the line, and the room with it."""
    waited = flow.view.waiting(placement.key)
    assert waited is not None, "the plan is of this view"
    spot = Spot(flow.new_attempt(), placement, waited)
    if spot.is_folded:
        leave(flow, placement.key)
    else:
        flow.view.dequeue(placement.key)
    take(flow, spot.attempt, placement.key, placement.sign, placement.allocations)
    return spot


def _give_back(flow: Flow, spot: Spot, now: Task | None) -> None:
    """It does not start after all: it waits as `now` says (None: as before)."""
    flow.view.free(spot.attempt)
    if spot.is_folded:
        come_back(flow, spot.placement.key)
    elif now is None:
        enqueue(flow, spot.waited)
    elif now.state is State.QUEUED:
        enqueue(flow, waiting_for(flow, now))
    flow.reconsider()


async def _intents(flow: Flow, spots: Sequence[Spot]) -> list[tuple[Spot, Intent]]:
    """The plan with what the records say of its tasks."""
    try:
        found = await flow.store.tasks(list(dict.fromkeys(spot.waited.key for spot in spots)))
    except BaseException:
        for spot in spots:
            _give_back(flow, spot, None)
        raise
    tasks = {task.key: task for task in found}
    intents = []
    for spot in spots:
        task = tasks.get(spot.waited.key)
        if task is not None and _is_as_planned(task, spot):
            intents.append((spot, _intent(flow, task, spot)))
        else:
            _drop(flow, spot, task)
    return intents


def _drop(flow: Flow, spot: Spot, task: Task | None) -> None:
    """Somebody moved it first: go by what is recorded."""
    if task is not None or spot.is_folded:
        _give_back(flow, spot, task)
    else:  # it is gone
        flow.view.free(spot.attempt)
    if spot.is_folded and (task is None or not _is_as_planned(task, spot)):
        _leave_line(flow, spot.waited)
    flow.replan()


def _leave_line(flow: Flow, outdated: Waiting) -> None:
    """Whoever changed the array puts it back in line as it is now, or has taken it out."""
    entry = flow.view.waiting(outdated.key)
    if entry is not None and entry.version == outdated.version:
        flow.view.dequeue(outdated.key)


def _intent(flow: Flow, task: Task, spot: Spot) -> Intent:
    (allocation,) = spot.placement.allocations
    key, ordinal = spot.placement.key, 1 if spot.is_folded else task.attempts + 1
    placed, attempt = intend(flow, key, ordinal, allocation, spot.attempt)
    if spot.is_folded:
        return Intent(unfolded(flow, task, key.element, placed), attempt)
    array = flow.arrays.get(task.id) if is_array(task.spec) else None
    version = None if array is None else array.version
    return Intent(moved(task, placed, array_version=version), attempt, task)


async def _carry_out(flow: Flow, spot: Spot, intent: Intent) -> None:
    """Record it, then launch it at once: nobody may see it recorded and not yet alive."""
    drained = flow.view.rooms[intent.attempt.allocation.node].drained
    if drained or is_paused(flow):  # since it was planned
        _give_back(flow, spot, None)
        return
    try:
        await commit(flow, [intent.change])
    except StaleWrite as error:
        log.warning("event=intent_dropped task_id=%s reason=%s", spot.placement.key, error)
        await _look_again(flow, spot)
    except BaseException as error:  # nothing was recorded: it waits as before
        _give_back(flow, spot, None)
        if not isinstance(error, StoreDown):  # that will pass: the loop tries again
            raise
    else:
        launch(flow, [intent])


async def _look_again(flow: Flow, spot: Spot) -> None:
    """Unreadable: the next plan looks again."""
    try:
        now = await flow.store.task(spot.waited.key)
    except StoreDown:
        _give_back(flow, spot, None)
    else:
        _drop(flow, spot, now)


def _is_as_planned(task: Task, spot: Spot) -> bool:
    return task.state is State.QUEUED and task.version == spot.placement.version
