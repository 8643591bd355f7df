"""Scheduling is paused: nothing new starts whatever happens, and everything goes on afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from stoker.domain.errors import InvalidSpec, StoreDown
from stoker.domain.lifecycle import State
from stoker.engines.fake import FakeEngine
from stoker.flow import overview
from stoker.flow.context import Flow
from stoker.flow.pause import pause, unpause
from stoker.flow.submit import preview
from stoker.store.base import Act, LabStore
from tests.helpers.builders import a_spec
from tests.helpers.flows import (
    codes,
    end,
    one,
    recorded,
    run_to_running,
    settled,
    until,
    until_state,
)

from .conftest import waiting_engine

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]


async def acts(flow: Flow) -> list[Act]:
    return [one.act for one in await flow.store.audited(None, 10)]


async def test_nothing_new_starts_and_what_runs_goes_on(flow: Flow) -> None:
    running, _ = await run_to_running(flow, gpus=2)
    waited = await one(flow, gpus=4)
    await pause(flow, "  new disks ", who="ana", origin="10.0.0.7")

    newcomer = await one(flow, gpus=1)
    await end(flow, running)
    await settled(flow)

    assert {(await recorded(flow, key)).state for key in (waited, newcomer)} == {State.QUEUED}
    told = overview.explain(flow, await recorded(flow, newcomer))
    assert told.reasons[0].code == "paused"
    assert told.reasons[0].values["because"] == "new disks"
    assert told.reasons[0].values["by"] == "ana"
    assert (told.starts, told.estimate.basis.code, told.suggestions) == (
        None,
        "estimate_paused",
        (),
    )
    assert overview.health(flow).status == "degraded"
    await unpause(flow, who="bo")
    await until_state(flow, waited, State.RUNNING)
    (resumed, paused) = await acts(flow)
    assert (resumed.act, resumed.who) == ("scheduling.resume", "bo")
    assert (paused.act, paused.values, paused.origin) == (
        "scheduling.pause",
        {"why": "new disks"},
        "10.0.0.7",
    )


async def test_a_preview_tells_of_the_pause(flow: Flow) -> None:
    assert (await preview(flow, "ana", a_spec(gpus=1))).starts is not None
    await pause(flow, "", who="ana")
    told = await preview(flow, "ana", a_spec(gpus=1))
    assert (told.starts, [reason.code for reason in told.reasons]) == (None, ["paused"])


async def test_a_pause_outlives_a_restart(restart: Restart) -> None:
    engine = waiting_engine()
    async with restart(engine) as flow:
        await pause(flow, "", who="ana")
        key = await one(flow, gpus=1)
    async with restart(engine) as flow:
        await settled(flow)
        assert codes(flow, await recorded(flow, key)) == ["paused"]
        await unpause(flow, who="ana")
        await until_state(flow, key, State.RUNNING)
    async with restart(engine) as flow:
        assert flow.book.pause is None


async def test_a_pause_may_be_repeated_and_counts_from_its_beginning(flow: Flow) -> None:
    await pause(flow, "one", who="ana")
    first = flow.book.pause
    await pause(flow, "two", who="bo")
    second = flow.book.pause
    assert first is not None
    assert second is not None
    assert (second.at, second.by, second.why) == (first.at, "bo", "two")
    await unpause(flow, who="ana")
    await unpause(flow, who="ana")
    assert len(await acts(flow)) == 3


@pytest.mark.parametrize("why", ["a\nb", "\x1b[31mred", "\u202eback", "x" * 501])
async def test_what_is_no_line_is_refused(flow: Flow, why: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        await pause(flow, why, who="ana")
    assert refused.value.field == "why"
    assert flow.book.pause is None


class Gated:
    """Records, where what the lab decides waits at a gate, or is refused."""

    def __init__(self, store: LabStore, *, refuse: bool = False) -> None:
        self._store, self._refuse = store, refuse
        self.waits, self.gate = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def amend(self, *what: Any) -> None:
        self.waits.set()
        await self.gate.wait()
        if self._refuse:
            raise StoreDown(why="no room")
        await self._store.amend(*what)


@pytest.mark.parametrize("refuse", [False, True])
async def test_from_the_moment_it_is_asked_for_nothing_is_placed(flow: Flow, refuse: bool) -> None:
    """Not only once it is recorded; and if it cannot be, things go on."""
    holder, _ = await run_to_running(flow, gpus=4)
    waited = await one(flow, gpus=2)
    flow.book.store = gated = Gated(flow.book.store, refuse=refuse)
    pausing = asyncio.create_task(pause(flow, "", who="ana"))
    await gated.waits.wait()

    await end(flow, holder)
    newcomer = await one(flow, gpus=1)
    await settled(flow)
    states = {(await recorded(flow, key)).state for key in (waited, newcomer)}
    gated.gate.set()

    assert states == {State.QUEUED}
    if not refuse:
        await pausing
        await settled(flow)
        assert (await recorded(flow, waited)).state is State.QUEUED
        return
    with pytest.raises(StoreDown):
        await pausing
    await until_state(flow, waited, State.RUNNING)
    await until(lambda: flow.book.pause is None)
