"""Deleting tasks: all of them or none, and nobody is left waiting for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from stoker.domain.errors import Conflict, StoreDown, UnknownTask
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.engines.base import AttemptUnknown
from stoker.engines.fake import FakeEngine
from stoker.flow.context import Flow
from stoker.flow.queue import hold, release
from stoker.flow.remove import delete, successors
from stoker.flow.stop import cancel
from stoker.store.base import Change
from tests.helpers.flows import (
    codes,
    end,
    engine_of,
    free_cards,
    one,
    recorded,
    run_to_running,
    say,
    settled,
    until,
    until_running,
    until_state,
)

from .conftest import waiting_engine
from .test_faults import moody, times

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]


async def test_waiting_and_finished_ones_go_with_history_and_output(flow: Flow) -> None:
    finished, attempt = await run_to_running(flow)
    await end(flow, finished)
    await until(lambda: attempt not in engine_of(flow).runs)
    assert flow.logs.has(attempt, 0, "stdout")
    running, _ = await run_to_running(flow, gpus=4)
    waiting, held = await one(flow, gpus=1), await one(flow, hold=True)

    for key in (finished, waiting, held):
        assert await delete(flow, key, "ana") == [key]
        assert await flow.store.task(key) is None
        with pytest.raises(UnknownTask):
            await delete(flow, key, "ana")
    with pytest.raises(Conflict, match="still_running"):
        await delete(flow, running, "ana")

    await until(lambda: not flow.logs.has(attempt, 0, "stdout"))
    assert len(flow.view) == 0
    assert (await one(flow)).id > held.id


async def test_those_who_wait_go_with_it_when_that_is_asked_for(flow: Flow) -> None:
    first = await one(flow, gpus=4)
    child, other = await one(flow, after=(f"{first}:ok",)), await one(flow, gpus=1)
    grandchild = await one(flow, after=(f"{child}",), hold=True)
    both = await one(flow, array="0-9", after=(f"{grandchild}", f"{child}:notok"))
    await cancel(flow, first, "ana")
    await until_state(flow, first, State.FINISHED)

    assert [task.key for task in await successors(flow, first)] == [child, grandchild, both]
    gone = await delete(flow, first, "ana", with_successors=True)

    assert gone == [first, child, grandchild, both]
    assert await flow.store.tasks(gone) == []
    assert (flow.successors, flow.arrays) == ({}, {})
    await until_state(flow, other, State.RUNNING)


async def test_live_and_finished_successors_stay(flow: Flow) -> None:
    first = await one(flow)
    live = await one(flow, after=(f"{first}",))
    array = await one(flow, array="0-3%1", after=(f"{first}",))
    await end(flow, first)
    await until_running(flow, live)
    await until_running(flow, TaskKey(array.id, 0))

    assert await successors(flow, first) == []
    assert await delete(flow, first, "ana", with_successors=True) == [first]

    await end(flow, TaskKey(array.id, 0))
    await until_running(flow, TaskKey(array.id, 1))
    assert (await recorded(flow, live)).state is State.RUNNING


async def test_a_deleted_predecessor_satisfies_any_and_leaves_the_rest_to_a_person(
    flow: Flow,
) -> None:
    first = await one(flow, hold=True)
    ok, notok = [await one(flow, after=(f"{first}:{when}",)) for when in ("ok", "notok")]
    any_end = await one(flow, after=(f"{first}",))
    held = await one(flow, after=(f"{first}:ok",), hold=True)

    await delete(flow, first, "ana")

    await until_state(flow, any_end, State.RUNNING)
    for key in (ok, notok):
        assert codes(flow, await recorded(flow, key)) == ["after_deleted"]
        await release(flow, key, "ana", anyway=True)
        await until_state(flow, key, State.RUNNING)
    await release(flow, held, "ana")
    await settled(flow)
    assert codes(flow, await recorded(flow, held)) == ["after_deleted"]


async def test_what_came_true_stays_true(restart: Restart) -> None:
    """A finished predecessor is deleted while its successor waits for cards; then a restart."""
    engine = waiting_engine()
    async with restart(engine) as flow:
        first = await one(flow)
        await end(flow, first)
        blocker, pending = await one(flow, gpus=4), await one(flow, hold=True)
        key = await one(flow, gpus=1, after=(f"{first}:ok", f"{pending}"))
        await delete(flow, first, "bob")
        assert (await recorded(flow, key)).spec.after == (str(pending),)
        await delete(flow, pending, "bob")
    async with restart(engine) as flow:
        assert codes(flow, await recorded(flow, key)) == ["gpus_busy"]
        await end(flow, blocker)
        await until_state(flow, key, State.RUNNING)


async def test_an_array_goes_as_a_whole(flow: Flow) -> None:
    array = await one(flow, gpus=1, array="0-9")
    await until(lambda: len(flow.live) == 4)
    for key in (array, TaskKey(array.id, 5)):
        with pytest.raises(Conflict):
            await delete(flow, key, "ana")
    await hold(flow, array, "ana")
    for element in range(4):
        await end(flow, TaskKey(array.id, element))
    follower = await one(flow, after=(f"{array}_7",))

    assert await delete(flow, array, "ana") == [array]

    assert await flow.store.tasks([TaskKey(array.id, n) for n in range(4)]) == []
    assert flow.arrays == {}
    await until_state(flow, follower, State.RUNNING)


async def test_a_refused_delete_changes_nothing(flow: Flow) -> None:
    blocker = await one(flow, gpus=4)
    key = await one(flow, gpus=4)
    moody(flow).before_erase = times(1)
    with pytest.raises(StoreDown):
        await delete(flow, key, "ana")

    await end(flow, blocker)
    await until_state(flow, key, State.RUNNING)


async def test_a_start_that_overtakes_a_delete_is_not_deleted(flow: Flow) -> None:
    blocker = await one(flow, gpus=4)
    plain = await one(flow, gpus=2)
    array = await one(flow, gpus=2, array="0-9%1")
    await settled(flow)
    store = moody(flow)
    slow = asyncio.Event()
    store.before_erase = slow.wait
    deleting = asyncio.create_task(delete(flow, plain, "ana", with_successors=True))
    await end(flow, blocker)
    await until_running(flow, TaskKey(array.id, 0))
    await until_running(flow, plain)
    slow.set()
    with pytest.raises(Conflict, match="still_running"):
        await deleting
    with pytest.raises(Conflict, match="still_running"):
        await delete(flow, array, "ana")


async def test_a_delete_that_overtakes_a_start_keeps_it_from_starting(flow: Flow) -> None:
    blocker = await one(flow, gpus=4)
    key = await one(flow, gpus=4)
    await settled(flow)
    store = moody(flow)
    done: list[TaskKey] = []

    async def overtake(changes: Sequence[Change]) -> None:
        if changes[0].task.key == key and not done:
            done.extend(await delete(flow, key, "ana"))

    store.before_record = overtake
    await end(flow, blocker)
    await until(lambda: bool(done) and not flow.live and free_cards(flow) == 4)

    assert await flow.store.task(key) is None
    assert len(engine_of(flow).launches) == 1


async def test_an_array_of_which_something_is_about_to_start_is_not_deleted(flow: Flow) -> None:
    store = moody(flow)
    refused: list[str] = []

    async def overtake(changes: Sequence[Change]) -> None:
        if changes[0].task.element >= 0 and not refused:
            with pytest.raises(Conflict) as error:
                await delete(flow, TaskKey(changes[0].task.id), "ana")
            refused.append(error.value.code)

    store.before_record = overtake
    array = await one(flow, gpus=4, array="0-1")

    await until_running(flow, TaskKey(array.id, 0))
    assert refused == ["still_running"]


async def test_output_that_is_still_being_copied_is_deleted_too(flow: Flow) -> None:
    key, attempt = await run_to_running(flow)
    slow, read_log = asyncio.Event(), engine_of(flow).read_log

    async def read_slowly(*question: object) -> object:
        await slow.wait()
        return await read_log(*question)  # type: ignore[arg-type]

    engine_of(flow).read_log = read_slowly  # type: ignore[assignment, method-assign]
    await end(flow, key)
    await until(lambda: attempt in flow.collecting)
    await delete(flow, key, "ana")
    slow.set()
    await flow.drain()

    assert not flow.logs.has(attempt, 0, "stdout")
    assert attempt not in engine_of(flow).runs


async def test_a_node_that_was_away_is_told_to_forget_what_was_deleted(flow: Flow) -> None:
    key, attempt = await run_to_running(flow)
    task = await recorded(flow, key)
    assert task.attempt == attempt
    lost = engine_of(flow).lost

    async def unreachable(*_: object) -> object:
        raise OSError("away")

    read_log = engine_of(flow).read_log
    engine_of(flow).read_log = unreachable  # type: ignore[assignment, method-assign]
    await end(flow, key)
    await flow.drain()
    assert lost == set()
    await delete(flow, key, "ana")
    engine_of(flow).read_log = read_log  # type: ignore[method-assign]
    assert attempt in engine_of(flow).runs

    say(flow, AttemptUnknown(attempt=attempt, node="node-a", ended=True))

    await until(lambda: attempt not in engine_of(flow).runs)
    assert flow.uncollected == {}
