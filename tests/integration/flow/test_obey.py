"""What the lab decides takes effect at once, without a restart."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from stoker.domain.lifecycle import State
from stoker.flow.context import Flow
from stoker.lab import announce, settings
from tests.helpers.flows import end, one, run_to_running, settled, until_state

STAMP: dict[str, Any] = {"at": datetime(2030, 1, 1, tzinfo=UTC), "who": "ana", "origin": ""}


async def change(flow: Flow, name: str, value: Any) -> None:
    await settings.change(flow.book, name, value, **STAMP)


async def test_another_policy_and_back(flow: Flow) -> None:
    orders = [flow.policy.order]
    await change(flow, "policy", "fifo")
    orders.append(flow.policy.order)
    await settings.unset(flow.book, "policy", **STAMP)
    orders.append(flow.policy.order)
    assert orders == ["balance", "fifo", "balance"]


async def test_more_slots_let_more_start_on_the_same_cards_and_fewer_end_nobody(
    flow: Flow,
) -> None:
    first, _ = await run_to_running(flow, gpus=4)
    second = await one(flow, gpus=4)
    third = await one(flow, gpus=4)

    await change(flow, "gpu_slots", 2)
    await until_state(flow, second, State.RUNNING)
    await change(flow, "gpu_slots", 1)
    await end(flow, first)
    await settled(flow)

    assert (await flow.store.tasks([third]))[0].state is State.QUEUED
    await end(flow, second)
    await until_state(flow, third, State.RUNNING)


async def test_retention_acts_when_it_is_changed(flow: Flow) -> None:
    keys = [(await run_to_running(flow))[0] for _ in range(3)]
    for key in keys:
        await end(flow, key)

    await change(flow, "keep_tasks", 1)

    async with asyncio.timeout(10):
        while len(await flow.store.tasks(keys)) > 1:
            await asyncio.sleep(0.002)
    assert [task.key for task in await flow.store.tasks(keys)] == keys[-1:]


async def test_the_diary_tells_everybody(flow: Flow) -> None:
    await announce.announce(flow.book, " hello ", **STAMP)
    await announce.clear(flow.book, **STAMP)
    lines = flow.diary.after(0, 10)
    assert [(line.code, line.values) for line in lines][-1] == (
        "announced",
        {"person": "ana", "text": "hello"},
    )
    assert lines[0].code == "node_up"
    assert flow.diary.after(flow.diary.last, 10) == []
