"""The flow over a store that fails, or is overtaken, at the worst moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from stoker.domain.errors import StoreDown
from stoker.domain.event import Deleted, Ended, Placed, Started
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.engines.fake import FakeEngine
from stoker.flow.context import Flow
from stoker.flow.place import place
from stoker.flow.stop import cancel
from stoker.flow.submit import submit
from stoker.store.base import Change
from tests.helpers.builders import a_spec
from tests.helpers.flows import until, until_state


class Moody:
    """The real store, but for what a test puts before its calls."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.before_record: Callable[[Sequence[Change]], Awaitable[None]] | None = None
        self.before_tasks: Callable[[], Awaitable[None]] | None = None
        self.before_outcomes: Callable[[], Awaitable[None]] | None = None
        self.before_erase: Callable[[], Awaitable[object]] | None = None
        self.before_remember: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def record(self, changes: Sequence[Change]) -> int:
        if self.before_record is not None:
            await self.before_record(changes)
        return int(await self._store.record(changes))

    async def tasks(self, keys: Sequence[TaskKey]) -> list[Task]:
        if self.before_tasks is not None:
            await self.before_tasks()
        found: list[Task] = await self._store.tasks(keys)
        return found

    async def outcomes(self, keys: Sequence[TaskKey]) -> dict[TaskKey, str | None]:
        if self.before_outcomes is not None:
            await self.before_outcomes()
        found: dict[TaskKey, str | None] = await self._store.outcomes(keys)
        return found

    async def erase(self, tasks: Sequence[Task], deleted: Deleted) -> int:
        if self.before_erase is not None:
            await self.before_erase()
        return int(await self._store.erase(tasks, deleted))

    async def remember(self, name: str, value: str) -> None:
        if self.before_remember is not None:
            await self.before_remember()
        await self._store.remember(name, value)


def moody(flow: Flow) -> Moody:
    store = Moody(flow.store)
    flow.store = store
    return store


def times(count: int) -> Callable[..., Awaitable[None]]:
    """The disk refuses so often, then is well."""
    left = [count]

    async def refuse(*_: object) -> None:
        if left[0]:
            left[0] -= 1
            raise StoreDown("disk_full", why="no room")

    return refuse


def has(changes: Sequence[Change], kind: type) -> bool:
    return any(isinstance(event, kind) for change in changes for event in change.events)


async def fill(flow: Flow) -> tuple[TaskKey, str]:
    """One task on all four cards."""
    (task,) = await submit(flow, "ana", [a_spec(gpus=4)], batch=False)
    running = await until_state(flow, task.key, State.RUNNING)
    assert running.attempt is not None
    return running.key, running.attempt


def engine_of(flow: Flow) -> FakeEngine:
    assert isinstance(flow.engine, FakeEngine)
    return flow.engine


async def test_a_refused_intent_waits_and_starts_when_the_disk_is_well(flow: Flow) -> None:
    _, attempt = await fill(flow)
    (waiting,) = await submit(flow, "ana", [a_spec(gpus=2)], batch=False)
    store = moody(flow)
    refuse, tries = times(1), []

    async def refuse_placements(changes: Sequence[Change]) -> None:
        if has(changes, Placed):
            tries.append(changes[0].task.key)
            await refuse()

    store.before_record = refuse_placements
    engine_of(flow).finish(attempt)

    await until_state(flow, waiting.key, State.RUNNING)
    assert tries == [waiting.key, waiting.key]
    assert flow.store_problem == ""
    assert len(flow.view.rooms["node-a"].free_gpus()) == 2


async def test_a_plan_that_cannot_be_read_is_made_again(flow: Flow) -> None:
    _, attempt = await fill(flow)
    (waiting,) = await submit(flow, "ana", [a_spec(gpus=2)], batch=False)
    moody(flow).before_tasks = times(1)

    engine_of(flow).finish(attempt)

    await until_state(flow, waiting.key, State.RUNNING)
    assert len(flow.view.rooms["node-a"].free_gpus()) == 2


async def test_an_end_that_was_refused_is_recorded_later(flow: Flow) -> None:
    key, attempt = await fill(flow)
    store = moody(flow)
    refuse = times(2)

    async def refuse_ends(changes: Sequence[Change]) -> None:
        if has(changes, Ended):
            await refuse()

    store.before_record = refuse_ends
    engine_of(flow).finish(attempt, 7)

    task = await until_state(flow, key, State.FINISHED)
    assert task.end is not None
    assert task.end.exit_code == 7
    await until(lambda: len(flow.view.rooms["node-a"].free_gpus()) == 4)


async def test_a_refused_submit_leaves_nothing_behind(flow: Flow) -> None:
    moody(flow).before_record = times(1)
    with pytest.raises(StoreDown) as refused:
        await submit(flow, "ana", [a_spec(gpus=2)], batch=False)

    assert refused.value.code == "disk_full"
    assert len(flow.view.rooms["node-a"].free_gpus()) == 4
    assert len(flow.view) == 0
    assert flow.live == {}


async def test_a_cancel_that_overtakes_a_start_still_stops_it(flow: Flow) -> None:
    """It is cancelled in the moment when its start is on its way to the records."""
    store = moody(flow)
    stopped: list[Task] = []

    async def overtake(changes: Sequence[Change]) -> None:
        if has(changes, Started) and not stopped:
            stopped.append(changes[0].task)
            await cancel(flow, changes[0].task.key, "ana")

    store.before_record = overtake
    (task,) = await submit(flow, "ana", [a_spec(gpus=1)], batch=False)

    ended = await until_state(flow, task.key, State.FINISHED)
    assert stopped
    assert ended.end is not None
    assert ended.end.outcome == "cancelled"


async def test_a_cancel_that_overtakes_an_end_loses_it_not(flow: Flow) -> None:
    key, attempt = await fill(flow)
    store = moody(flow)
    once: list[int] = []

    async def overtake(changes: Sequence[Change]) -> None:
        if has(changes, Ended) and not once:
            once.append(1)
            await cancel(flow, key, "ana")

    store.before_record = overtake
    engine_of(flow).finish(attempt, 3)

    ended = await until_state(flow, key, State.FINISHED)
    assert once
    assert ended.end is not None
    assert (ended.end.exit_code, ended.stopped_by) == (3, "ana")


async def test_a_cancel_between_intent_and_launch_stops_it(flow: Flow) -> None:
    """Two intents of one plan; the first is recorded, the second is slow, the first is cancelled."""
    _, attempt = await fill(flow)
    first, second = await submit(flow, "ana", [a_spec(gpus=1), a_spec(gpus=1)], batch=True)
    store = moody(flow)
    slow = asyncio.Event()

    async def hold_up(changes: Sequence[Change]) -> None:
        if has(changes, Placed) and changes[0].task.key == second.key:
            await slow.wait()

    store.before_record = hold_up
    engine_of(flow).finish(attempt)
    await until_state(flow, first.key, State.STARTING, State.RUNNING)
    await cancel(flow, first.key, "ana")
    slow.set()

    ended = await until_state(flow, first.key, State.FINISHED)
    assert ended.end is not None
    assert ended.end.outcome == "cancelled"
    await until_state(flow, second.key, State.RUNNING)


async def test_a_submit_that_meets_a_pending_plan_is_planned_afterwards(flow: Flow) -> None:
    """It is not placed at once, and the plan is made, without it, while it is being recorded."""
    store = moody(flow)

    async def plan_meanwhile(_changes: Sequence[Change]) -> None:
        store.before_record = None
        await place(flow)

    store.before_record = plan_meanwhile
    flow.unplanned = True

    (task,) = await submit(flow, "ana", [a_spec(gpus=1)], batch=False)

    assert task.state is State.QUEUED
    await until_state(flow, task.key, State.RUNNING)


async def test_an_empty_plan_asks_the_records_nothing(flow: Flow) -> None:
    async def refuse() -> None:
        raise AssertionError("asked for nothing")

    moody(flow).before_tasks = refuse
    await place(flow)
