"""What went wrong in the systems that Stoker replaces, each as a test that it cannot happen here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from stoker.domain.errors import NeverFits
from stoker.domain.lifecycle import State
from stoker.domain.node import Node
from stoker.flow import overview
from stoker.flow.again import resubmit
from stoker.flow.context import Flow
from stoker.flow.queue import edit, move, release
from stoker.flow.remove import delete, successors
from stoker.flow.submit import submit
from stoker.scheduler.policy import Policy
from stoker.scheduler.reserve import Reservation
from tests.helpers.builders import a_node, a_spec
from tests.helpers.flows import (
    codes,
    end,
    free_cards,
    like,
    one,
    recorded,
    run_to_running,
    running_flow,
    settled,
    until,
    until_running,
    until_state,
)

from .conftest import waiting_engine


async def test_gpu_man_no_card_is_idle_behind_a_blocked_head(tmp_path: Path) -> None:
    """One card busy, a task for four waits: a task for one, of anybody, starts at once there
    where nothing is kept, and in time for the big one where cards are."""
    nodes: list[Node] = [a_node(), a_node("node-b", gpus=2)]
    async with running_flow(tmp_path, waiting_engine(*nodes)) as flow:
        await until(lambda: len(flow.view.rooms) == 2)
        await run_to_running(flow, gpus=1, node="node-a", time_limit_s=3600)
        head = await one(flow, gpus=4)

        small = await one(flow, "bob", gpus=2)
        short = await one(flow, "bob", gpus=3, time_limit_s=1800)

        assert (await until_running(flow, small)).node == "node-b"
        assert (await until_running(flow, short)).node == "node-a"
        assert free_cards(flow) == 0
        assert (await recorded(flow, head)).state is State.QUEUED


async def test_gpu_man_an_oversize_task_is_refused_not_dropped(flow: Flow) -> None:
    with pytest.raises(NeverFits) as refused:
        await one(flow, gpus=5)

    assert (refused.value.code, refused.value.field) == ("too_many_gpus", "gpus")
    assert refused.value.values == {"node": "node-a", "need": 5, "have": 4}
    assert await flow.store.waiting() == []


@pytest.mark.parametrize("order", ["fifo", "balance"])
async def test_gpu_man_a_moved_task_is_not_lost(tmp_path: Path, order: str) -> None:
    policy = Policy(order=order)  # type: ignore[arg-type]
    async with running_flow(tmp_path, waiting_engine(), policy) as flow:
        blocker = await one(flow, gpus=4)
        keys = [await one(flow, gpus=4) for _ in range(4)]
        for key, to, other in (
            (keys[3], "first", None), (keys[0], "last", None),
            (keys[1], "after", keys[2]), (keys[2], "before", keys[3]),
        ):  # fmt: skip
            await move(flow, key, to, other, "ana")  # type: ignore[arg-type]

        assert {row.key for row in await flow.store.waiting()} == set(keys)
        assert {entry.key for entry in flow.view.entries()} == set(keys)
        await end(flow, blocker)
        await until(lambda: blocker not in {live.task.key for live in flow.live.values()})
        waiting = set(keys)

        def one_runs() -> bool:
            return any(live.task.key in waiting for live in flow.live.values())

        while waiting:
            await until(one_runs)
            (ran,) = [one.task.key for one in flow.live.values() if one.task.key in waiting]
            await end(flow, ran)
            waiting.remove(ran)


async def test_gpu_tasker_a_big_task_does_not_starve(flow: Flow) -> None:
    """A stream of small tasks that never ends: the big one starts when those before it are done."""
    small = [await one(flow, "bob", gpus=1) for _ in range(4)]
    big = await one(flow, gpus=4)
    stream = [await one(flow, "bob", gpus=1) for _ in range(8)]

    for number, key in enumerate(small):
        await end(flow, key)
        stream.append(await one(flow, "bob", gpus=1))
        await settled(flow)
        if number < 3:
            assert free_cards(flow) == number + 1, "kept for the big one"
            (node,) = overview.nodes(flow)
            assert {card.kept_for for card in node.cards} == {str(big)}
            assert "gpus_kept" in codes(flow, await recorded(flow, stream[-1]))

    await until_state(flow, big, State.RUNNING)
    assert {(await recorded(flow, key)).state for key in stream} == {State.QUEUED}
    await end(flow, big)
    await until(lambda: len(flow.live) == 4)


async def test_pyqt_a_successor_follows_an_edited_predecessor(flow: Flow) -> None:
    waiting, finished = await one(flow, hold=True), await one(flow)
    ended = await end(flow, finished, code=1)
    first = await one(flow, after=(f"{waiting}:ok",))
    second = await one(flow, after=(f"{finished}:ok",))

    await edit(flow, waiting, like(ended.spec, name="edited", hold=False), None, "ana")
    new = await edit(flow, finished, like(ended.spec, name="edited"), None, "ana")
    await release(flow, waiting, "ana")
    await end(flow, waiting)
    await end(flow, new.key)

    await until_state(flow, first, State.RUNNING)
    await until_state(flow, second, State.RUNNING)


async def test_pyqt_a_successor_follows_a_resubmitted_predecessor(flow: Flow) -> None:
    key = await one(flow)
    follower = await one(flow, after=(f"{key}:ok",))
    await end(flow, key, code=1)

    new = await resubmit(flow, key, "ana")
    assert (await recorded(flow, follower)).state is State.QUEUED
    await end(flow, new.key)

    await until_state(flow, follower, State.RUNNING)


async def test_pyqt_a_successor_of_a_deleted_task_is_not_stuck_in_silence(flow: Flow) -> None:
    key = await one(flow)
    any_end = await one(flow, gpus=1, after=(str(key),))
    good_end = await one(flow, after=(f"{key}:ok",))
    await end(flow, key, code=1)
    await until_running(flow, any_end)
    assert [task.key for task in await successors(flow, key)] == [good_end]

    await delete(flow, key, "ana")
    await settled(flow)

    told = overview.explain(flow, await recorded(flow, good_end))
    assert [reason.code for reason in told.reasons] == ["after_deleted"]
    assert [one_.code for one_ in told.suggestions] == ["try_anyway"]


async def test_pyqt_two_hundred_tasks_start_in_one_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It started one task in two seconds, for the whole cluster."""
    nodes = [a_node(f"node-{number:02}", gpus=8) for number in range(25)]
    async with running_flow(tmp_path, waiting_engine(*nodes)) as flow:
        await until(lambda: len(flow.view.rooms) == 25 and not flow.unplanned)
        for name in flow.view.rooms:
            flow.view.drain(name, "not yet")
        await submit(flow, "ana", [a_spec(gpus=1) for _ in range(200)], batch=True)
        await settled(flow)
        assert flow.live == {}
        reserve, plans = flow.view.reserve, list[object]()

        def counted(made: Mapping[str, Reservation]) -> None:
            plans.append(made)
            reserve(made)

        monkeypatch.setattr(flow.view, "reserve", counted)

        for name in flow.view.rooms:
            flow.view.drain(name, "")
        flow.replan()

        await until(lambda: len(flow.live) == 200)
        assert len(plans) == 1
