"""The life of a task through the real flow and the real store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from stoker.domain.errors import Conflict, InvalidSpec, NeverFits, UnknownLog, UnknownTask
from stoker.domain.event import Placed, Submitted
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.engines.base import (
    AttemptEnded,
    AttemptLost,
    AttemptNeverRan,
    AttemptStarted,
    AttemptStuck,
    AttemptUnnumbered,
    CardUse,
    EngineOutdated,
    NodeSampled,
)
from stoker.engines.fake import Behaviour, FakeEngine
from stoker.flow import logs, overview
from stoker.flow.context import Flow
from stoker.flow.queue import hold, release
from stoker.flow.stop import cancel
from stoker.flow.submit import submit
from tests.helpers.builders import LIFE, NOON, a_node, a_spec
from tests.helpers.flows import (
    codes,
    engine_of,
    later,
    one,
    run_to_running,
    say,
    settled,
    until,
    until_state,
)

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]


async def test_a_task_that_fits_is_submitted_and_placed_in_one_transaction(flow: Flow) -> None:
    key = await one(flow, gpus=2)

    history = await flow.store.history(key)
    assert [type(event) for event in history][:2] == [Submitted, Placed]
    task = await until_state(flow, key, State.RUNNING)
    assert task.gpu_ids == (0, 1)


async def test_the_end_frees_the_cards_and_starts_the_next(flow: Flow) -> None:
    _, attempt = await run_to_running(flow, gpus=4)
    waiting = await one(flow, gpus=4)
    task = await flow.store.task(waiting)
    assert task is not None
    assert task.state is State.QUEUED
    assert codes(flow, task) == ["gpus_busy"]

    engine_of(flow).finish(attempt, 0)

    await until_state(flow, waiting, State.RUNNING)


async def test_a_batch_is_all_or_nothing_and_names_the_task(flow: Flow) -> None:
    with pytest.raises(InvalidSpec) as caught:
        await submit(flow, "ana", [a_spec(), a_spec(workdir="x")], batch=True)
    assert caught.value.field == "tasks[1].workdir"
    assert await flow.store.task(TaskKey(1)) is None

    with pytest.raises(NeverFits) as never:
        await submit(flow, "ana", [a_spec(), a_spec(gpus=5)], batch=True)
    assert (never.value.code, never.value.field) == ("too_many_gpus", "tasks[1].gpus")

    tasks = await submit(flow, "ana", [a_spec(gpus=1) for _ in range(50)], batch=True)
    assert [task.state for task in tasks].count(State.STARTING) == 4


async def test_no_card_is_given_twice_to_many_at_once(flow: Flow) -> None:
    keys = await asyncio.gather(*(one(flow, gpus=1) for _ in range(30)))
    await until(lambda: len(flow.live) == 4)
    held = [gpu.uuid for live in flow.live.values() for gpu in live.attempt.allocation.gpus]

    assert len(held) == len(set(held)) == 4
    assert len(flow.view) == len(keys) - 4


async def test_cancel_a_waiting_task(flow: Flow) -> None:
    await run_to_running(flow, gpus=4)
    key = await one(flow, gpus=1)

    task = await cancel(flow, key, "ana")

    assert task.state is State.FINISHED
    assert task.end is not None
    assert (task.end.outcome, task.stopped_by) == ("cancelled", "ana")
    assert flow.view.waiting(key) is None
    with pytest.raises(Conflict):
        await cancel(flow, key, "ana")
    with pytest.raises(UnknownTask):
        await cancel(flow, TaskKey(99), "ana")


async def test_cancel_a_running_task_twice_stops_it_once(flow: Flow) -> None:
    key, _ = await run_to_running(flow, gpus=1)

    first, second = await asyncio.gather(cancel(flow, key, "ana"), cancel(flow, key, "ana"))

    assert {first.state, second.state} == {State.STOPPING}
    task = await until_state(flow, key, State.FINISHED)
    assert task.end is not None
    assert task.end.outcome == "cancelled"


async def test_hold_and_release(flow: Flow) -> None:
    key = await one(flow, hold=True)
    task = await flow.store.task(key)
    assert task is not None
    assert task.state is State.HELD
    assert codes(flow, task) == ["held"]

    await release(flow, key, "ana")
    await until_state(flow, key, State.RUNNING)

    with pytest.raises(Conflict):
        await hold(flow, key, "ana")
    with pytest.raises(Conflict):
        await release(flow, key, "ana")


async def test_a_held_task_keeps_its_place(flow: Flow) -> None:
    _, attempt = await run_to_running(flow, gpus=4)
    next_one, first, second = [await one(flow, gpus=4) for _ in range(3)]
    await hold(flow, first, "ana")
    await release(flow, first, "ana")

    engine_of(flow).finish(attempt)
    running = await until_state(flow, next_one, State.RUNNING)
    assert running.attempt is not None
    engine_of(flow).finish(running.attempt)

    await until_state(flow, first, State.RUNNING)
    task = await flow.store.task(second)
    assert task is not None
    assert task.state is State.QUEUED


async def test_a_lost_attempt_ends_the_task_unless_it_said_otherwise(flow: Flow) -> None:
    key, attempt = await run_to_running(flow)
    again, attempt_again = await run_to_running(flow, requeue_on_loss=True)
    for id in (attempt, attempt_again):
        say(flow, AttemptLost(attempt=id, at=NOON, evidence="rebooted"))

    task = await until_state(flow, key, State.FINISHED)
    assert task.end is not None
    assert (task.end.outcome, task.end.reason) == ("lost", "rebooted")
    await until(lambda: any(live.task.key == again for live in flow.live.values()))
    task = await until_state(flow, again, State.RUNNING)
    assert task.attempts == 2


async def test_what_never_ran_always_runs_again(flow: Flow) -> None:
    key, attempt = await run_to_running(flow)
    say(flow, AttemptNeverRan(attempt=attempt))
    waiting = await until_state(flow, key, State.QUEUED)
    assert codes(flow, waiting) == ["backing_off"]
    later(flow, 1.0)

    task = await until_state(flow, key, State.RUNNING)
    assert (task.attempts, task.attempt != attempt) == (2, True)


async def test_old_news_changes_nothing(flow: Flow) -> None:
    key, attempt = await run_to_running(flow)
    engine_of(flow).finish(attempt, 3)
    task = await until_state(flow, key, State.FINISHED)
    assert task.end is not None
    for fact in (
        AttemptStarted(attempt=attempt, at=NOON),
        AttemptLost(attempt=attempt, at=NOON, evidence="rebooted"),
        AttemptEnded(attempt=attempt, at=NOON, end=task.end),
        AttemptNeverRan(attempt=attempt),
    ):
        say(flow, fact)

    await run_to_running(flow)
    assert await flow.store.task(key) == task


async def test_a_used_up_number_is_replaced_before_it_is_sent_again(flow: Flow) -> None:
    engine_of(flow).lose("node-a")
    await until(lambda: not flow.view.rooms["node-a"].up)
    engine_of(flow).find("node-a")
    await until(lambda: flow.view.rooms["node-a"].up and not flow.unplanned)
    key = await one(flow)
    task = await flow.store.task(key)
    assert task is not None
    assert task.attempt is not None
    before = flow.live[task.attempt].attempt.launch_number
    say(flow, AttemptUnnumbered(attempt=task.attempt, incarnation=LIFE))

    await until_state(flow, key, State.RUNNING)
    recorded = await flow.store.attempt(task.attempt)
    assert recorded is not None
    assert recorded.launch_number in (before, before + 1)


async def test_what_cannot_be_killed_keeps_its_cards_and_drains_the_node(flow: Flow) -> None:
    key, attempt = await run_to_running(flow, gpus=1)
    say(flow, AttemptStuck(attempt=attempt, why="pid 7 ignores KILL"))
    await until(lambda: bool(flow.view.rooms["node-a"].drained))

    waiting = await one(flow, gpus=1)
    task = await flow.store.task(waiting)
    assert task is not None
    assert codes(flow, task) == ["node_drained"]
    assert key in {live.task.key for live in flow.live.values()}


async def test_a_foreign_process_keeps_a_card_from_tasks(flow: Flow) -> None:
    say(
        flow,
        NodeSampled(
            node="node-a", at=NOON, load1=1.0, memory_available_mib=1, disk_free_mib=1,
            cards=(CardUse(uuid="node-a-gpu-0", memory_used_mib=9, utilisation=5,
                           foreign=("eve:1:python",)),),
        ),
    )  # fmt: skip
    await until(lambda: len(flow.view.rooms["node-a"].free_gpus()) == 3)

    key = await one(flow, gpus=1)

    task = await flow.store.task(key)
    assert task is not None
    assert task.gpu_ids == (1,)
    (node,) = overview.nodes(flow)
    assert node.cards[0].foreign == ("eve:1:python",)
    assert node.cards[1].task == str(key)


async def test_an_unreachable_node_leaves_everything_unconfirmed(flow: Flow) -> None:
    key, attempt = await run_to_running(flow, gpus=4)
    engine_of(flow).lose("node-a")
    await until(lambda: not flow.view.rooms["node-a"].up)
    engine_of(flow).finish(attempt, 0)
    waiting = await one(flow, gpus=1)

    task = await flow.store.task(key)
    assert task is not None
    assert task.state is State.RUNNING
    assert overview.unconfirmed(flow, task)
    assert overview.health(flow).status == "degraded"

    engine_of(flow).find("node-a")

    await until_state(flow, key, State.FINISHED)
    await until_state(flow, waiting, State.RUNNING)


async def test_logs_are_read_from_the_node_and_then_from_our_copy(flow: Flow) -> None:
    key, attempt = await run_to_running(flow)
    live = await logs.read(flow, key)
    assert (live.data, live.ended) == (b"hello\n", False)

    engine_of(flow).finish(attempt)
    await until(lambda: attempt not in engine_of(flow).runs)

    copy = await logs.read(flow, key, offset=2)
    assert (copy.offset, copy.data, copy.size, copy.ended) == (2, b"llo\n", 6, True)
    assert (await logs.read(flow, key, offset=-2)).data == b"o\n"
    with pytest.raises(UnknownLog) as merged:
        await logs.read(flow, key, stream="stderr")
    assert merged.value.code == "log_merged"


async def test_recovery_continues_where_the_records_are(restart: Restart) -> None:
    engine = FakeEngine([a_node()], lambda _: Behaviour(run_for_s=None))
    async with restart(engine) as flow:
        running, attempt = await run_to_running(flow, gpus=4)
        waiting = await one(flow, gpus=2)
        stopping, _ = await run_to_running(flow)
        await cancel(flow, stopping, "ana")
        epoch = flow.epoch
    async with restart(engine) as flow:
        assert flow.epoch == epoch + 1
        assert len(flow.view.rooms["node-a"].free_gpus()) == 0
        await until_state(flow, stopping, State.FINISHED)
        engine.finish(attempt)
        await until_state(flow, running, State.FINISHED)
        await until_state(flow, waiting, State.RUNNING)
    assert len(engine.launches) == len(set(engine.launches))


async def test_a_server_that_has_been_replaced_gives_no_more_orders(flow: Flow) -> None:
    say(flow, EngineOutdated(node="node-a", epoch=99))

    await until(lambda: flow.outdated)


async def test_a_caller_that_hangs_up_leaves_nothing_half_done(flow: Flow) -> None:
    """Cancelled at every moment of a submit: it is recorded and runs, or it never was."""
    for delay in range(12):
        asking = asyncio.create_task(submit(flow, "ana", [a_spec(gpus=1)], batch=False))
        for _ in range(delay):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        await settled(flow)
        for live in list(flow.live.values()):
            task = await until_state(flow, live.task.key, State.RUNNING, State.FINISHED)
            assert task.attempt is not None
            engine_of(flow).finish(task.attempt)
            await until_state(flow, task.key, State.FINISHED)
        await settled(flow)
        assert len(flow.view.rooms["node-a"].free_gpus()) == 4
    assert await flow.store.live() == []
