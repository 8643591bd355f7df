"""Limits that come near, and tasks that wait long: told once, also over a restart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest
from msgspec import structs

from stoker.domain.errors import StoreDown
from stoker.domain.rules import Rules
from stoker.engines.fake import Behaviour, FakeEngine
from stoker.flow.context import Flow
from stoker.flow.extend import Wish, extend
from stoker.flow.remind import remind
from stoker.flow.tell import Told
from tests.helpers.builders import a_node
from tests.helpers.flows import (
    clock_of,
    end,
    engine_of,
    one,
    recorded,
    run_to_running,
    settled,
    until,
    until_running,
)

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]
HOUR, DAY = 3600, 86400


async def heard(flow: Flow, *seconds: float) -> list[Told]:
    """What is said of limits and waits when so much time has passed, each time."""
    said: list[Told] = []
    flow.listeners.append(said.append)
    for step in seconds:
        clock_of(flow).step(step)
        await remind(flow)
    flow.listeners.remove(said.append)
    return [told for told in said if told.kind in ("limit_near", "waiting_long")]


async def test_a_day_and_an_hour_before_the_limit(flow: Flow) -> None:
    await run_to_running(flow, time_limit_s=3 * DAY)

    said = await heard(flow, 2 * DAY - 60, 120, 22 * HOUR, HOUR, HOUR)

    assert [told.kind for told in said] == ["limit_near"] * 2
    left = [told.values["left_s"] for told in said]
    assert left[0] == pytest.approx(DAY - 60, abs=30)
    assert left[1] == pytest.approx(HOUR - 60, abs=30)
    task = said[0].task
    assert task.started_at is not None
    assert said[0].values["ends_at"] == task.started_at + timedelta(days=3)
    assert said[0].values["limit_s"] == 3 * DAY


@pytest.mark.parametrize(
    ("limit_s", "times"), [(2 * DAY, 2), (2 * DAY - 1, 1), (2 * HOUR, 1), (2 * HOUR - 1, 0)]
)
async def test_only_where_the_limit_is_twice_as_long(flow: Flow, limit_s: int, times: int) -> None:
    await run_to_running(flow, time_limit_s=limit_s)

    said = await heard(flow, *[limit_s / 100] * 99)

    assert len(said) == times


async def test_what_has_ended_or_has_more_time_is_not_told(flow: Flow) -> None:
    ended, _ = await run_to_running(flow, time_limit_s=4 * HOUR)
    extended, _ = await run_to_running(flow, time_limit_s=4 * HOUR)
    await end(flow, ended)
    await extend(flow, extended, Wish(limit_s=10 * HOUR, by="ana"))

    assert await heard(flow, 3.5 * HOUR) == []
    (told,) = await heard(flow, 6 * HOUR)
    assert told.task.key == extended


async def test_a_limit_is_told_of_once_over_restarts(restart: Restart) -> None:
    engine = FakeEngine([a_node()], lambda _: Behaviour(run_for_s=None))
    async with restart(engine) as flow:
        await run_to_running(flow, time_limit_s=3 * DAY)
        assert len(await heard(flow, 2 * DAY + 60)) == 1
    async with restart(engine) as flow:
        assert await heard(flow, 2 * DAY + 120) == []
    async with restart(engine) as flow:  # nobody served when it was due
        (told,) = await heard(flow, 3 * DAY - 60)
        assert told.values["left_s"] == pytest.approx(60, abs=30)


async def test_what_cannot_be_recorded_is_said_later(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_to_running(flow, time_limit_s=4 * HOUR)

    async def full(_name: str, _text: str) -> None:
        raise StoreDown(why="full")

    with monkeypatch.context() as patched:
        patched.setattr(flow.store, "remember", full)
        with pytest.raises(StoreDown):
            await heard(flow, 3.5 * HOUR)
    flow.listeners.clear()
    assert len(await heard(flow, 1)) == 1
    assert await heard(flow, 1) == []


async def test_who_waits_long_is_told_once(flow: Flow) -> None:
    await run_to_running(flow, gpus=4)
    key = await one(flow, gpus=1)
    await settled(flow)
    await remind(flow)

    said = await heard(flow, DAY - HOUR, 2 * HOUR, DAY, DAY)

    assert [(told.kind, told.task.key) for told in said] == [("waiting_long", key)]
    assert said[0].values["waited_s"] == pytest.approx(DAY + HOUR, abs=30)


async def test_only_of_tasks_that_nothing_but_room_keeps_from_starting(flow: Flow) -> None:
    running, _ = await run_to_running(flow, gpus=4)
    await one(flow, gpus=1, hold=True)
    await one(flow, gpus=1, after=(str(running),))
    later = (clock_of(flow).now() + timedelta(days=9)).isoformat()
    await one(flow, gpus=1, start_after=later)
    await settled(flow)

    assert await heard(flow, DAY + HOUR) == []


async def test_a_task_that_has_run_before_has_not_waited_all_the_time(flow: Flow) -> None:
    key, attempt = await run_to_running(flow, gpus=4, retries=3)
    await one(flow, gpus=4, owner="bo")
    assert [told.task.owner for told in await heard(flow, DAY + HOUR)] == ["bo"]
    engine_of(flow).finish(attempt, 1)
    bo = next(entry.key for entry in flow.view.entries() if entry.sign.owner == "bo")
    await until_running(flow, bo)
    assert (await recorded(flow, key)).attempts == 1

    assert await heard(flow, DAY) == []


async def test_nobody_is_told_where_the_lab_says_so(flow: Flow) -> None:
    flow.book.rules = structs.replace(Rules(), waiting_long_s=0)
    await run_to_running(flow, gpus=4)
    await one(flow, gpus=1)
    await settled(flow)

    assert await heard(flow, 10 * DAY) == []
    flow.book.rules = structs.replace(Rules(), waiting_long_s=HOUR)
    await one(flow, gpus=1)
    assert len(await heard(flow, 2 * HOUR)) == 2


async def test_the_timer_rings_by_itself(flow: Flow) -> None:
    """Whatever the loop was waiting for when the limit became near."""
    said: list[Told] = []
    flow.listeners.append(said.append)
    key, _ = await run_to_running(flow)
    clock_of(flow).step(3 * HOUR)

    await extend(flow, key, Wish(limit_s=4 * HOUR + 2, by="ana"))

    await until(lambda: [told.kind for told in said].count("limit_near") == 1)
