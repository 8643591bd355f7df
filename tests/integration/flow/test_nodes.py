"""Nodes that are taken out of use, tasks that are tried again, and what outlives a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stoker.domain.errors import StoreDown, UnknownNode
from stoker.domain.event import Requeued
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.outcome import End
from stoker.engines.base import AttemptEnded, AttemptNeverRan, CardUse, NodeSampled
from stoker.engines.fake import Behaviour, FakeEngine
from stoker.flow import keep, overview
from stoker.flow.context import Flow
from stoker.flow.nodes import drain, resume
from stoker.flow.queue import release, requeue
from stoker.flow.stop import cancel
from tests.helpers.builders import NOON, a_node
from tests.helpers.flows import (
    Clock,
    attempt_of,
    codes,
    end,
    engine_of,
    later,
    one,
    recorded,
    run_to_running,
    running_flow,
    say,
    settled,
    until,
    until_running,
    until_state,
)

from .conftest import waiting_engine
from .test_faults import moody, times

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]
NO_START = End(outcome="failed", reason="start_failed")


# ---- drained


async def test_a_drained_node_takes_nothing_new_and_goes_on(flow: Flow) -> None:
    running, _ = await run_to_running(flow, gpus=1)
    await drain(flow, "node-a", "new fan", "ana")

    waiting = await one(flow, gpus=1)
    await settled(flow)

    assert codes(flow, await recorded(flow, waiting)) == ["node_drained"]
    assert (await recorded(flow, running)).state is State.RUNNING
    (node,) = overview.nodes(flow)
    assert (node.drained, node.up) == ("new fan", True)
    await resume(flow, "node-a", "ana")
    await until_state(flow, waiting, State.RUNNING)
    for step in (drain(flow, "nowhere", "", "ana"), resume(flow, "nowhere", "ana")):
        with pytest.raises(UnknownNode):
            await step


async def test_a_drained_node_is_drained_after_a_restart(restart: Restart) -> None:
    engine = waiting_engine()
    async with restart(engine) as flow:
        await drain(flow, "node-a", "", "ana")
    async with restart(engine) as flow:
        assert flow.view.rooms["node-a"].drained == "drained"
        engine.lose("node-a")
        engine.find("node-a")
        await resume(flow, "node-a", "ana")
    async with restart(engine) as flow:
        assert flow.view.rooms["node-a"].drained == ""


async def test_a_refused_drain_changes_nothing(flow: Flow) -> None:
    store = moody(flow)
    store.before_remember = times(1)
    with pytest.raises(StoreDown):
        await drain(flow, "node-a", "x", "ana")
    assert (flow.drained, flow.view.rooms["node-a"].drained) == ({}, "")
    await drain(flow, "node-a", "x", "ana")
    store.before_remember = times(1)
    with pytest.raises(StoreDown):
        await resume(flow, "node-a", "ana")
    assert flow.view.rooms["node-a"].drained == "x"


# ---- launches that fail


async def test_three_failed_launches_in_a_row_drain_the_node(restart: Restart) -> None:
    engine = FakeEngine([a_node()], lambda _: Behaviour(begins=False))
    async with restart(engine) as flow:
        key, others = await one(flow, gpus=1), [await one(flow, gpus=1) for _ in range(2)]
        await until(lambda: flow.drained == {"node-a": "launches_failed"})
        later(flow, 60)
        await settled(flow)
        assert codes(flow, await recorded(flow, others[0])) == ["node_drained"]
        assert overview.health(flow).status == "degraded"
        await flow.drain()
    engine.behave = lambda _: Behaviour(run_for_s=None)
    async with restart(engine) as flow:
        assert flow.view.rooms["node-a"].drained == "launches_failed"
        later(flow, 60)
        await resume(flow, "node-a", "ana")
        await until_running(flow, key)
        await until(lambda: flow.failures == {})


async def test_a_launch_that_works_counts_from_the_beginning(flow: Flow) -> None:
    flow.failures["node-a"] = 2
    await run_to_running(flow)
    await until(lambda: flow.failures == {})
    key, attempt = await run_to_running(flow)
    say(flow, AttemptEnded(attempt=attempt, at=NOON, end=NO_START))
    await until_state(flow, key, State.FINISHED)
    await until(lambda: flow.failures == {"node-a": 1})

    assert flow.drained == {}


async def test_what_we_stopped_ourselves_is_no_failed_launch(flow: Flow) -> None:
    key, attempt = await run_to_running(flow)
    engine_of(flow).lose("node-a")
    await cancel(flow, key, "ana")
    say(flow, AttemptNeverRan(attempt=attempt))

    await until_state(flow, key, State.FINISHED)

    assert flow.failures == {}


# ---- tried again


async def pauses(flow: Flow, key: TaskKey) -> list[timedelta]:
    """How long it was made to wait each time it came back."""
    events = await flow.store.history(key)
    return [e.not_before - e.at for e in events if isinstance(e, Requeued) and e.not_before]


async def test_a_failed_task_is_run_again_as_often_as_it_says(flow: Flow) -> None:
    key = await one(flow, gpus=4, retries=2)
    behind = await one(flow, gpus=4)
    for seconds in (10, 20):
        engine_of(flow).finish(await attempt_of(flow, key), 3)
        await until_state(flow, key, State.QUEUED)
        assert (await pauses(flow, key))[-1] == timedelta(seconds=seconds)
        await end(flow, behind)  # it goes first meanwhile
        behind = await one(flow, gpus=4, hold=True)
        later(flow, seconds + 1)
        await until_running(flow, key)
        behind = await one(flow, gpus=4)
    ended = await end(flow, key, 3)

    assert ended.end is not None
    assert (ended.end.exit_code, ended.attempts, ended.retried) == (3, 3, 2)
    requeued = [e for e in await flow.store.history(key) if isinstance(e, Requeued)]
    assert [(e.retry, e.end is not None and e.end.exit_code) for e in requeued] == [(True, 3)] * 2


async def test_success_and_a_cancel_are_not_run_again(flow: Flow) -> None:
    good, bad = await one(flow, retries=5), await one(flow, retries=5)
    await end(flow, good)
    await until_running(flow, bad)
    await cancel(flow, bad, "ana")

    task = await until_state(flow, bad, State.FINISHED)
    assert (task.attempts, (await recorded(flow, good)).attempts) == (1, 1)


async def test_a_cancel_reaches_a_task_that_waits_for_its_next_try(flow: Flow) -> None:
    key, attempt = await run_to_running(flow, retries=5)
    engine_of(flow).finish(attempt, 1)
    await until_state(flow, key, State.QUEUED)
    await cancel(flow, key, "ana")
    later(flow, 1000)
    await settled(flow)
    assert (await recorded(flow, key)).attempts == 1


async def test_pauses_grow_while_it_never_runs(tmp_path: Path) -> None:
    engine = FakeEngine([a_node()], lambda _: Behaviour(begins=False))
    async with running_flow(tmp_path, engine) as flow:
        key = await one(flow)
        for number, seconds in enumerate((1, 2, 4), 1):
            await until(lambda n=number: flow.failures.get("node-a") == n)  # type: ignore[misc]
            assert (await recorded(flow, key)).never_ran == number
            assert (await pauses(flow, key))[-1] == timedelta(seconds=seconds)
            later(flow, seconds)


async def test_a_requeue_is_not_a_retry(flow: Flow) -> None:
    key, _ = await run_to_running(flow, retries=1)
    await requeue(flow, key, "ana")
    await until(lambda: any(live.task.attempts == 2 for live in flow.live.values()))
    task = await until_running(flow, key)
    assert (task.retried, task.not_before) == (0, None)


# ---- what outlives a restart


async def test_reservations_and_use_are_known_after_a_restart(
    restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep, "PAUSE_S", 0)
    moment = datetime.now(UTC)
    monkeypatch.setattr(Clock, "now", lambda _clock: moment)  # use decays every minute
    engine = waiting_engine()
    async with restart(engine) as flow:
        await run_to_running(flow, gpus=3)
        big = await one(flow, gpus=4)
        await until(lambda: "default" in flow.view.reservations)
        assert flow.view.reservations["default"].key == big
        flow.view.use = {"ana": 77}
        flow.replan()
        await until(
            lambda: flow.kept == {"reservations": flow.view.reservations, "use": {"ana": 77}}
        )
        kept = dict(flow.view.reservations)
        await flow.drain()
    async with restart(engine) as flow:
        assert flow.view.reservations == kept
        assert flow.view.use == {"ana": 77}


async def test_an_older_value_never_overtakes_what_is_kept(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep, "PAUSE_S", 0)
    moment = datetime.now(UTC)
    monkeypatch.setattr(Clock, "now", lambda _clock: moment)  # use decays every minute
    asked, slow = asyncio.Event(), asyncio.Event()

    async def the_first_is_slow() -> None:
        if not asked.is_set():
            asked.set()
            await slow.wait()

    await flow.drain()
    moody(flow).before_remember = the_first_is_slow
    await run_to_running(flow, gpus=3)
    await one(flow, gpus=4)
    await until(asked.is_set)
    flow.view.use = {"ana": 77}
    flow.replan()
    await until(lambda: flow.kept["use"] == {"ana": 77})
    slow.set()
    await flow.drain()

    assert await flow.store.recall("use") == '{"ana":77}'


async def test_a_reservation_that_cannot_be_kept_delays_nothing(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep, "PAUSE_S", 0)
    store = moody(flow)
    store.before_remember = times(1)
    await run_to_running(flow, gpus=3)
    await one(flow, gpus=4)
    await until(lambda: flow.kept["reservations"] is None)
    flow.replan()
    await until(lambda: flow.kept["reservations"] == flow.view.reservations)


async def test_unreadable_leftovers_stop_no_start(restart: Restart) -> None:
    engine = waiting_engine()
    async with restart(engine) as flow:
        await flow.store.remember("reservations", "[broken")
        await flow.store.remember("drained", "7")
    async with restart(engine) as flow:
        await run_to_running(flow)


# ---- what is measured


async def test_a_shared_card_is_measured(tmp_path: Path) -> None:
    async with running_flow(tmp_path, waiting_engine(a_node(gpus=1))) as flow:
        key = await one(flow, gpus=1, mode="shared", gpu_memory_mib=4096)
        attempt = await attempt_of(flow, key)
        use = CardUse(
            uuid="node-a-gpu-0", memory_used_mib=22_000, utilisation=10,
            attempts={attempt: 16_000}, foreign=("eve:1:x",), foreign_mib=4_000,
        )  # fmt: skip
        say(
            flow,
            NodeSampled(
                node="node-a", at=NOON, load1=0, memory_available_mib=1, disk_free_mib=1,
                cards=(use,),
            ),
        )  # fmt: skip
        await until(lambda: flow.view.rooms["node-a"].cards["node-a-gpu-0"].load.foreign_mib > 0)

        small = await one(flow, gpus=1, mode="shared", gpu_memory_mib=1024)
        await until_running(flow, small)
        other = await one(flow, gpus=1, mode="shared", gpu_memory_mib=8192)
        await settled(flow)
        assert codes(flow, await recorded(flow, other)) == ["gpu_memory_busy"]
        (node,) = overview.nodes(flow)
        assert node.cards[0].tasks == (str(key), str(small))


async def test_tasks_that_end_by_themselves_leave_nothing(tmp_path: Path) -> None:
    engine = FakeEngine([a_node()], lambda _: Behaviour(run_for_s=0))
    async with running_flow(tmp_path, engine) as flow:
        keys = [await one(flow, gpus=1, array="0-19%3") for _ in range(3)]
        for key in keys:
            await until_state(flow, key, State.FINISHED)
        await until(lambda: not flow.arrays and not flow.live)
        assert len(flow.view.rooms["node-a"].free_gpus()) == 4
        assert len(flow.view) == 0


async def test_a_node_that_is_drained_under_a_plan_starts_nothing(flow: Flow) -> None:
    """The plan is made, and while its tasks are read somebody drains the node."""
    store = moody(flow)

    async def meanwhile() -> None:
        store.before_tasks = None
        await drain(flow, "node-a", "", "ana")

    key = await one(flow, hold=True)
    store.before_tasks = meanwhile
    await release(flow, key, "ana")
    await settled(flow)

    assert (await recorded(flow, key)).state is State.QUEUED
    await resume(flow, "node-a", "ana")
    await until_running(flow, key)
