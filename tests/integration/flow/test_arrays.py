"""Arrays: one row for what waits, rows of their own for elements that something happens to."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from stoker.domain.errors import Conflict, InvalidSpec, StaleVersion, UnknownTask
from stoker.domain.event import Ended, Placed, StopRequested, Unfolded
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.engines.base import AttemptLost, AttemptNeverRan
from stoker.engines.fake import FakeEngine
from stoker.flow import overview
from stoker.flow.context import Flow
from stoker.flow.queue import edit, hold, move, release, requeue
from stoker.flow.stop import cancel
from stoker.flow.submit import submit
from stoker.store.base import Change
from tests.helpers.builders import NOON, a_spec
from tests.helpers.flows import (
    attempt_of,
    codes,
    end,
    engine_of,
    free_cards,
    later,
    like,
    one,
    recorded,
    say,
    settled,
    until,
    until_running,
    until_state,
)

from .conftest import waiting_engine
from .test_faults import has, moody, times

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]


def elements(flow: Flow) -> list[int]:
    """Those that hold cards."""
    return sorted(live.task.element for live in flow.live.values())


async def array(flow: Flow, indices: str, **fields: Any) -> int:
    key = await one(flow, gpus=1, array=indices, **fields)
    await settled(flow)
    return key.id


async def test_elements_start_in_order_and_become_rows_then(flow: Flow) -> None:
    id = await array(flow, "0-9")
    await until(lambda: len(flow.live) == 4)

    assert elements(flow) == [0, 1, 2, 3]
    history = await flow.store.history(TaskKey(id, 2))
    assert [type(event) for event in history][:2] == [Unfolded, Placed]
    assert await flow.store.task(TaskKey(id, 4)) is None
    counts = overview.array_counts(flow, id)
    assert counts is not None
    assert (counts.size, counts.waiting, counts.live) == (10, 6, 4)


async def test_a_cap_is_kept(flow: Flow) -> None:
    id = await array(flow, "0-9%2")
    await until(lambda: len(flow.live) == 2)
    assert codes(flow, await recorded(flow, TaskKey(id))) == ["array_cap"]

    await end(flow, TaskKey(id, 0))
    await until_running(flow, TaskKey(id, 2))

    assert elements(flow) == [1, 2]


async def test_the_array_ends_with_its_last_element(flow: Flow) -> None:
    good, bad = await array(flow, "1,2"), await array(flow, "5-6")
    for key in (TaskKey(good, 1), TaskKey(good, 2), TaskKey(bad, 5)):
        await end(flow, key)
    await end(flow, TaskKey(bad, 6), code=3)

    task = await until_state(flow, TaskKey(good), State.FINISHED)
    assert task.end is not None
    assert (task.end.reason, task.counts) == ("all_succeeded", {"succeeded": 2})
    task = await until_state(flow, TaskKey(bad), State.FINISHED)
    assert task.end is not None
    assert (task.end.outcome, task.end.reason, task.end.detail) == (
        "failed", "elements_failed", "1 of 2",
    )  # fmt: skip
    assert task.counts == {"succeeded": 1, "failed": 1}
    await until(lambda: not flow.arrays)


async def test_a_cancelled_array_stops_what_runs_and_never_starts_the_rest(flow: Flow) -> None:
    id = await array(flow, "0-9")
    await until(lambda: len(flow.live) == 4)
    await end(flow, TaskKey(id, 0))

    stopping = await cancel(flow, TaskKey(id), "bob")

    assert stopping.state is State.STOPPING
    task = await until_state(flow, TaskKey(id), State.FINISHED)
    assert task.end is not None
    assert (task.end.outcome, task.stopped_by) == ("cancelled", "bob")
    assert task.counts == {"succeeded": 1, "cancelled": 9}
    await until(lambda: not flow.arrays and free_cards(flow) == 4)
    folded = await overview.task(flow, TaskKey(id, 9))
    assert folded is not None
    assert folded.end is not None
    assert (folded.state, folded.end.outcome) == (State.FINISHED, "cancelled")
    with pytest.raises(Conflict):
        await cancel(flow, TaskKey(id, 9), "bob")


async def test_an_array_that_waits_is_cancelled_as_quickly(flow: Flow) -> None:
    await one(flow, gpus=4)
    id = await array(flow, "0-999999")

    await cancel(flow, TaskKey(id), "ana")

    task = await until_state(flow, TaskKey(id), State.FINISHED)
    assert task.counts == {"cancelled": 1_000_000}
    assert len(await flow.store.history(TaskKey(id))) == 3


async def test_one_element_is_cancelled_held_and_released_by_itself(flow: Flow) -> None:
    await one(flow, gpus=4)
    id = await array(flow, "0-2")

    gone = await cancel(flow, TaskKey(id, 0), "ana")
    held = await hold(flow, TaskKey(id, 1), "ana")

    assert (gone.state, held.state) == (State.FINISHED, State.HELD)
    assert [type(e) for e in await flow.store.history(TaskKey(id, 0))] == [Unfolded, Ended]
    counts = overview.array_counts(flow, id)
    assert counts is not None
    assert (counts.waiting, counts.cancelled) == (2, 1)
    await cancel(flow, TaskKey(1), "ana")
    await until_running(flow, TaskKey(id, 2))
    assert elements(flow) == [2]
    await release(flow, TaskKey(id, 1), "ana")
    await end(flow, TaskKey(id, 1))
    await end(flow, TaskKey(id, 2))
    task = await until_state(flow, TaskKey(id), State.FINISHED)
    assert task.counts == {"cancelled": 1, "succeeded": 2}


async def test_a_held_array_starts_nothing_not_even_what_comes_back(flow: Flow) -> None:
    id = await array(flow, "0-5%2")
    await until(lambda: len(flow.live) == 2)
    await hold(flow, TaskKey(id), "ana")
    await requeue(flow, TaskKey(id, 0), "ana")
    back = await until_state(flow, TaskKey(id, 0), State.QUEUED)
    await end(flow, TaskKey(id, 1))
    await settled(flow)

    assert flow.live == {}
    assert "held" in codes(flow, back)
    with pytest.raises(Conflict, match="not_held"):
        await release(flow, TaskKey(id, 3), "ana")
    assert (await hold(flow, TaskKey(id, 3), "ana")).version == 0

    await release(flow, TaskKey(id), "ana")

    await until(lambda: len(flow.live) == 2)
    assert elements(flow) == [0, 2]


async def test_releasing_an_array_releases_everything_of_it(flow: Flow) -> None:
    id = await array(flow, "0-1", hold=True)
    spec = (await recorded(flow, TaskKey(id))).spec
    edited = await edit(flow, TaskKey(id, 1), like(spec, name="another"), 0, "ana")
    assert (edited.state, edited.spec.name) == (State.HELD, "another")

    await release(flow, TaskKey(id), "ana")

    await until(lambda: elements(flow) == [0, 1])


async def test_an_edit_of_the_array_reaches_what_is_folded(flow: Flow) -> None:
    blocker = await one(flow, gpus=4)
    id = await array(flow, "0-4%1")
    spec = (await recorded(flow, TaskKey(id))).spec

    await edit(flow, TaskKey(id), like(spec, array="2-3,7", name="new"), 1, "ana")
    await end(flow, blocker)
    await until(lambda: len(flow.live) == 3)

    assert elements(flow) == [2, 3, 7]
    assert {live.task.spec.name for live in flow.live.values()} == {"new"}
    with pytest.raises(InvalidSpec, match="array_fixed"):
        await edit(flow, TaskKey(id), like(spec, array="0-9"), None, "ana")
    with pytest.raises(UnknownTask):
        await cancel(flow, TaskKey(id, 0), "ana")
    with pytest.raises(InvalidSpec, match="array_fixed"):
        await edit(flow, await a_waiting_element(flow), like(spec, array="1"), None, "ana")


async def a_waiting_element(flow: Flow) -> TaskKey:
    return TaskKey(await array(flow, "0-1"), 1)


async def test_an_edited_element_is_a_row_with_its_own_spec(flow: Flow) -> None:
    blocker = await one(flow, gpus=4)
    id = await array(flow, "0-1")
    spec = (await recorded(flow, TaskKey(id))).spec
    with pytest.raises(StaleVersion):
        await edit(flow, TaskKey(id, 1), spec, 1, "ana")

    row = await edit(flow, TaskKey(id, 1), like(spec, gpus=2), 0, "ana")

    assert (row.version, row.spec.gpus, row.state) == (2, 2, State.QUEUED)
    await end(flow, blocker)
    await until(lambda: elements(flow) == [0, 1])
    assert free_cards(flow) == 1


async def test_an_array_becomes_a_plain_task_while_nothing_has_begun(flow: Flow) -> None:
    blocker = await one(flow, gpus=4)
    id = await array(flow, "0-4")
    spec = (await recorded(flow, TaskKey(id))).spec
    waits = await one(flow, after=(f"{id}_3",))

    await edit(flow, TaskKey(id), like(spec, array=""), None, "ana")

    assert flow.arrays == {}
    await until_state(flow, waits, State.RUNNING)  # any end will do, and it is gone
    await end(flow, blocker)
    await until_state(flow, TaskKey(id), State.RUNNING)


async def test_an_element_does_not_move_by_itself(flow: Flow) -> None:
    await one(flow, gpus=4)
    id = await array(flow, "0-1")
    with pytest.raises(Conflict, match="array_moves_whole"):
        await move(flow, TaskKey(id, 1), "first", None, "ana")
    with pytest.raises(Conflict, match="is_array"):
        await requeue(flow, TaskKey(id), "ana")


async def test_what_never_ran_of_a_cancelled_array_does_not_come_back(flow: Flow) -> None:
    id = await array(flow, "0", retries=3, requeue_on_loss=True)
    attempt = await attempt_of(flow, TaskKey(id, 0))
    engine_of(flow).lose("node-a")
    await cancel(flow, TaskKey(id), "ana")
    await until_state(flow, TaskKey(id, 0), State.STOPPING)

    say(flow, AttemptNeverRan(attempt=attempt))

    task = await until_state(flow, TaskKey(id), State.FINISHED)
    assert task.counts == {"cancelled": 1}


async def test_a_cancel_that_overtakes_a_start_keeps_it_from_starting(flow: Flow) -> None:
    """The intent of an element is on its way to the records when its array is cancelled."""
    store = moody(flow)
    once: list[TaskKey] = []

    async def overtake(changes: Sequence[Change]) -> None:
        if has(changes, Placed) and not once:
            once.append(changes[0].task.key)
            await cancel(flow, TaskKey(changes[0].task.id), "ana")

    store.before_record = overtake
    id = (await one(flow, gpus=1, array="0-1%1")).id

    task = await until_state(flow, TaskKey(id), State.FINISHED)
    assert once == [TaskKey(id, 0)]
    assert task.counts == {"cancelled": 2}
    assert engine_of(flow).launches == []
    assert free_cards(flow) == 4


async def test_a_start_that_is_recorded_just_before_the_cancel_is_stopped(flow: Flow) -> None:
    """The array's cancel is on its way to the records when an element starts."""
    store = moody(flow)
    await one(flow, gpus=4)
    id = await array(flow, "0-3")
    slow = asyncio.Event()

    async def hold_up(changes: Sequence[Change]) -> None:
        if has(changes, StopRequested) and changes[0].task.key == TaskKey(id):
            await slow.wait()

    store.before_record = hold_up
    cancelling = asyncio.create_task(cancel(flow, TaskKey(id), "ana"))
    await end(flow, TaskKey(1))
    await until(lambda: len(flow.live) == 4)
    slow.set()
    await cancelling

    task = await until_state(flow, TaskKey(id), State.FINISHED)
    assert task.counts == {"cancelled": 4}
    assert free_cards(flow) == 4


@pytest.mark.parametrize("act", ["hold", "edit"])
async def test_what_is_said_to_an_array_is_not_overtaken(flow: Flow, act: str) -> None:
    store = moody(flow)
    once: list[int] = []

    async def overtake(changes: Sequence[Change]) -> None:
        if has(changes, Placed) and not once:
            id = changes[0].task.id
            once.append(id)
            if act == "hold":
                await hold(flow, TaskKey(id), "ana")
            else:
                spec = (await recorded(flow, TaskKey(id))).spec
                await edit(flow, TaskKey(id), like(spec, name="new"), None, "ana")

    store.before_record = overtake
    id = (await one(flow, gpus=4, array="0-1")).id
    await until(lambda: bool(once))
    await settled(flow)

    if act == "hold":
        assert flow.live == {}
        assert free_cards(flow) == 4
        await release(flow, TaskKey(id), "ana")
    assert (await until_running(flow, TaskKey(id, 0))).spec.name == ("" if act == "hold" else "new")


async def test_a_refused_intent_of_an_element_waits_as_before(flow: Flow) -> None:
    refuse = times(1)
    store = moody(flow)

    async def refuse_placements(changes: Sequence[Change]) -> None:
        if has(changes, Placed):
            await refuse()

    store.before_record = refuse_placements
    id = (await one(flow, gpus=1, array="0-1")).id

    await until(lambda: elements(flow) == [0, 1])
    state = flow.arrays[id]
    assert (len(state.folded), state.leaving) == (0, set())


async def test_an_element_that_failed_is_run_again_and_counted_once(flow: Flow) -> None:
    id = await array(flow, "0-1", retries=1)
    await until_running(flow, TaskKey(id, 0))
    attempt = (await recorded(flow, TaskKey(id, 0))).attempt
    assert attempt is not None
    engine_of(flow).finish(attempt, 1)
    await until_state(flow, TaskKey(id, 0), State.QUEUED)
    await end(flow, TaskKey(id, 1))
    later(flow, 11)
    await end(flow, TaskKey(id, 0))

    task = await until_state(flow, TaskKey(id), State.FINISHED)
    assert task.counts == {"succeeded": 2}


async def test_an_array_after_a_restart(restart: Restart) -> None:
    engine = waiting_engine()
    async with restart(engine) as flow:
        id = await array(flow, "0-9%3")
        await end(flow, TaskKey(id, 0), code=1)
        await until_running(flow, TaskKey(id, 3))
        await cancel(flow, TaskKey(id, 9), "ana")
        await hold(flow, TaskKey(id, 8), "ana")
        before = overview.array_counts(flow, id)
    async with restart(engine) as flow:
        assert overview.array_counts(flow, id) == before
        assert flow.arrays[id].folded.text() == "4-7"
        await end(flow, TaskKey(id, 1))
        await until_running(flow, TaskKey(id, 4))
        await cancel(flow, TaskKey(id), "ana")
    async with restart(engine) as flow:
        task = await until_state(flow, TaskKey(id), State.FINISHED)
        assert task.counts == {"failed": 1, "succeeded": 1, "cancelled": 8}
    assert len(engine.launches) == len(set(engine.launches))


async def test_a_server_that_died_before_the_array_ended_ends_it_now(restart: Restart) -> None:
    engine = waiting_engine()
    async with restart(engine) as flow:
        store = moody(flow)
        id = await array(flow, "0-1")

        async def die(changes: Sequence[Change]) -> None:
            if changes[0].task.key == TaskKey(id):
                await asyncio.Event().wait()

        store.before_record = die
        await end(flow, TaskKey(id, 0))
        await end(flow, TaskKey(id, 1))
        assert (await recorded(flow, TaskKey(id))).state is State.QUEUED
    async with restart(engine) as flow:
        task = await until_state(flow, TaskKey(id), State.FINISHED)
        assert task.counts == {"succeeded": 2}


async def test_a_server_that_died_while_it_cancelled_an_array_goes_on(restart: Restart) -> None:
    engine = waiting_engine()
    async with restart(engine) as flow:
        store = moody(flow)
        id = await array(flow, "0-5")
        await until(lambda: len(flow.live) == 4)

        async def die(changes: Sequence[Change]) -> None:
            if changes[0].task.element >= 0:
                await asyncio.Event().wait()

        store.before_record = die
        await cancel(flow, TaskKey(id), "ana")
    async with restart(engine) as flow:
        task = await until_state(flow, TaskKey(id), State.FINISHED)
        assert task.counts == {"cancelled": 6}
        assert free_cards(flow) == 4


async def test_a_million_elements_cost_nothing_while_they_wait(flow: Flow) -> None:
    await one(flow, gpus=4)
    tracemalloc.start()
    try:
        id = await array(flow, "0-999999")
        await hold(flow, TaskKey(id), "ana")
        await release(flow, TaskKey(id), "ana")
        await settled(flow)
        assert overview.array_counts(flow, id) is not None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 << 20
    task = await overview.task(flow, TaskKey(id, 777_777))
    assert task is not None
    assert (task.version, task.state) == (0, State.QUEUED)
    assert codes(flow, task) == ["gpus_busy"]


async def test_a_lost_element_ends_lost_and_the_array_failed(flow: Flow) -> None:
    id = await array(flow, "4")
    task = await until_running(flow, TaskKey(id, 4))
    assert task.attempt is not None
    say(flow, AttemptLost(attempt=task.attempt, at=NOON, evidence="rebooted"))

    ended = await until_state(flow, TaskKey(id), State.FINISHED)
    assert ended.counts == {"lost": 1}


async def test_a_batch_with_arrays_is_one_transaction(flow: Flow) -> None:
    specs = [a_spec(array="0-1"), a_spec(), a_spec(array="5", hold=True)]
    tasks = await submit(flow, "ana", specs, batch=True)

    assert [task.state for task in tasks] == [State.QUEUED, State.STARTING, State.HELD]
    await until(lambda: len(flow.live) == 3)
