"""Sweeps: each element runs with its own values, whoever sends it; what failed is run again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from stoker.domain.errors import Conflict, InvalidSpec
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.node import Incarnation
from stoker.engines.base import AttemptLost, AttemptUnnumbered, LaunchOrder
from stoker.engines.fake import Behaviour, FakeEngine
from stoker.flow import overview
from stoker.flow.again import resubmit
from stoker.flow.context import Flow
from stoker.flow.queue import edit, hold, release
from stoker.flow.stop import cancel
from tests.helpers.builders import NOON, a_node
from tests.helpers.flows import (
    attempt_of,
    end,
    engine_of,
    like,
    one,
    recorded,
    running_flow,
    say,
    settled,
    until,
    until_running,
    until_state,
)

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]
SWEEP = {"lr": ("1e-3", "1e-4"), "seed": ("0", "1", "2")}
ARGV = ("train", "--lr={lr}", "{seed}")


class Hearing(FakeEngine):
    """Tasks run until told; orders are kept."""

    def __init__(self) -> None:
        super().__init__([a_node()], lambda _: Behaviour(run_for_s=None))
        self.heard: list[LaunchOrder] = []

    @override
    def launch(self, orders: Sequence[LaunchOrder]) -> None:
        self.heard += orders
        super().launch(orders)


class Deaf(Hearing):
    """Does nothing about them."""

    @override
    def launch(self, orders: Sequence[LaunchOrder]) -> None:
        self.heard += orders


@pytest.fixture
async def flow(tmp_path: Path) -> AsyncIterator[Flow]:
    async with running_flow(tmp_path, Hearing()) as flow:
        yield flow


async def sweep(flow: Flow, **fields: Any) -> int:
    key = await one(flow, **{"command": ARGV, "sweep": SWEEP, "gpus": 1, **fields})
    await settled(flow)
    return key.id


def commands(flow: Flow, id: int) -> dict[int, object]:
    """What was launched of this array, by index."""
    engine = engine_of(flow)
    assert isinstance(engine, Hearing)
    orders = [order for order in engine.heard if order.attempt.task_id == id]
    return {order.attempt.task_element: order.spec.command for order in orders}


async def test_elements_are_all_combinations(flow: Flow) -> None:
    id = await sweep(flow, array="%3")
    for index in range(6):
        await until_running(flow, TaskKey(id, index))
        assert len(flow.live) <= 3
        task = await end(flow, TaskKey(id, index))
        assert task.spec.command == ARGV, "what is recorded is what was handed over"
    whole = await until_state(flow, TaskKey(id), State.FINISHED)

    assert whole.counts == {"succeeded": 6}
    assert whole.spec.sweep == SWEEP
    assert await overview.task(flow, TaskKey(id, 6)) is None


async def test_an_element_is_launched_with_its_values(restart: Restart) -> None:
    engine = Deaf()
    async with restart(engine) as flow:
        id = await sweep(flow, array="1,5", env={"SEED": "{seed}"})
        await until(lambda: len(engine.heard) == 2)
        first, last = (order.spec for order in engine.heard)
        assert (first.command, last.command) == (
            ("train", "--lr=1e-3", "1"), ("train", "--lr=1e-4", "2"),
        )  # fmt: skip
        assert last.env == {"SEED": "2", "STOKER_SWEEP_lr": "1e-4", "STOKER_SWEEP_seed": "2"}

        other = Incarnation("boot-2", "spool-2")
        attempt = engine.heard[1].attempt.id
        say(flow, AttemptUnnumbered(attempt=attempt, incarnation=other))
        await until(lambda: len(engine.heard) == 3)
        assert engine.heard[2].spec == last
    again = Hearing()
    async with restart(again) as flow:  # the engine knows nothing of them any more
        await until_running(flow, TaskKey(id, 5))
        told = {order.attempt.task_element: order.spec for order in again.heard}
        assert told == {1: first, 5: last}


async def test_one_element_is_held_cancelled_and_edited_by_itself(flow: Flow) -> None:
    id = await sweep(flow, gpus=4)
    await hold(flow, TaskKey(id, 2), "ana")
    await cancel(flow, TaskKey(id, 3), "ana")
    task = await recorded(flow, TaskKey(id, 2))
    await edit(
        flow, TaskKey(id, 2), like(task.spec, command=("other", "{lr}", "{seed}")), None, "ana"
    )
    await release(flow, TaskKey(id, 2), "ana")
    for _ in range(3):
        await until(lambda: len(flow.live) == 1)
        (live,) = flow.live.values()
        await until_running(flow, live.task.key)
        await end(flow, live.task.key)
    await until(lambda: len(commands(flow, id)) == 4)
    assert commands(flow, id) == {
        0: ("train", "--lr=1e-3", "0"), 1: ("train", "--lr=1e-3", "1"), 2: ("other", "1e-3", "2"),
        4: ("train", "--lr=1e-4", "1"),
    }  # fmt: skip


async def test_values_are_fixed_once_something_has_begun(flow: Flow) -> None:
    id = await sweep(flow, gpus=4)
    await until_running(flow, TaskKey(id, 0))
    spec = (await recorded(flow, TaskKey(id))).spec
    turned = dict(reversed(spec.sweep.items()))
    for changed in ({"lr": ("1", "2"), "seed": ("0", "1", "2")}, turned):
        for key in (TaskKey(id), TaskKey(id, 4)):
            with pytest.raises(InvalidSpec, match="array_fixed") as refused:
                await edit(flow, key, like(spec, sweep=changed), None, "ana")
            assert refused.value.field == "sweep"
    await edit(flow, TaskKey(id), like(spec, array="%1", gpus=1), None, "ana")
    await end(flow, TaskKey(id, 0))
    await until_running(flow, TaskKey(id, 1))
    assert len(flow.live) == 1


async def test_values_can_be_changed_while_nothing_has_begun(flow: Flow) -> None:
    id = await sweep(flow, hold=True)
    spec = (await recorded(flow, TaskKey(id))).spec
    await edit(flow, TaskKey(id), like(spec, sweep=SWEEP | {"lr": ("5",)}), None, "ana")
    counts = overview.array_counts(flow, id)
    assert counts is not None
    assert counts.size == 3
    plain = like(spec, sweep={}, command=("x",))
    await edit(flow, TaskKey(id), plain, None, "ana")
    await release(flow, TaskKey(id), "ana")
    assert (await until_running(flow, TaskKey(id))).element == -1


# ---- again


async def three_ways(flow: Flow, **fields: Any) -> int:
    """An array of which 1 failed, 4 was lost, and the rest succeeded."""
    id = await sweep(flow, **fields)
    for index in range(6):
        await until_running(flow, TaskKey(id, index))
        if index == 4:
            attempt = await attempt_of(flow, TaskKey(id, index))
            say(flow, AttemptLost(attempt=attempt, at=NOON, evidence="rebooted"))
        else:
            await end(flow, TaskKey(id, index), code=int(index == 1))
    await until_state(flow, TaskKey(id), State.FINISHED)
    return id


async def test_only_what_failed_is_run_again_with_the_same_values(flow: Flow) -> None:
    id = await three_ways(flow, array="%2")
    waits = await one(flow, after=(f"{id}:ok",))
    vain = await one(flow, after=(f"{id}_5:notok", f"{id}_1:ok"))

    new = await resubmit(flow, TaskKey(id), "ana", failed=True)

    assert (new.spec.array, new.spec.sweep, new.origin) == ("1,4%2", SWEEP, str(id))
    assert (await recorded(flow, waits)).spec.after == (f"{new.id}:ok",)
    assert (await recorded(flow, vain)).spec.after == (f"{id}_5:notok", f"{new.id}_1:ok")
    await until_running(flow, TaskKey(new.id, 1))
    await until_running(flow, TaskKey(new.id, 4))
    assert commands(flow, new.id) == {
        1: ("train", "--lr=1e-3", "1"), 4: ("train", "--lr=1e-4", "1"),
    }  # fmt: skip
    with pytest.raises(Conflict, match="elements_not_over"):
        await resubmit(flow, new.key, "ana", failed=True)
    for index in (1, 4):
        await end(flow, TaskKey(new.id, index))
    await until_running(flow, waits)
    with pytest.raises(Conflict, match="none_failed"):
        await resubmit(flow, new.key, "ana", failed=True)


async def test_one_element_again_keeps_its_values(flow: Flow) -> None:
    id = await three_ways(flow)
    new = await resubmit(flow, TaskKey(id, 5), "ana")
    assert (new.spec.array, new.spec.sweep, new.origin) == ("5", SWEEP, f"{id}_5")
    await until_running(flow, TaskKey(new.id, 5))
    assert commands(flow, new.id) == {5: ("train", "--lr=1e-4", "2")}


async def test_who_needs_all_of_it_does_not_follow_to_a_part(flow: Flow) -> None:
    """Somebody cancelled an element: that one is not run again."""
    id = await sweep(flow, array="0-1")
    waits = await one(flow, after=(f"{id}:ok",))
    await cancel(flow, TaskKey(id, 1), "ana")
    await end(flow, TaskKey(id, 0), code=1)
    await until_state(flow, TaskKey(id), State.FINISHED)

    new = await resubmit(flow, TaskKey(id), "ana", failed=True)

    assert new.spec.array == "0"
    assert (await recorded(flow, waits)).spec.after == (f"{id}:ok",)


async def test_only_an_array_has_failed_elements(flow: Flow) -> None:
    plain = await one(flow)
    await end(flow, plain, code=1)
    with pytest.raises(Conflict, match="no_elements"):
        await resubmit(flow, plain, "ana", failed=True)
    id = await sweep(flow)
    with pytest.raises(Conflict, match="no_elements"):
        await resubmit(flow, TaskKey(id, 0), "ana", failed=True)
