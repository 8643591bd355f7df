"""Retention: what is kept is exactly what the rule says, and nobody who waits loses anything."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain.errors import StoreDown
from stoker.domain.event import Ended, Event
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.outcome import End
from stoker.engines.fake import FakeEngine
from stoker.flow import retain
from stoker.flow.context import Flow, Retention
from stoker.flow.recover import recover
from stoker.flow.stop import cancel
from stoker.store.base import Change
from stoker.store.logs import LogFolder
from stoker.store.recorder import SqlStore, open_store
from tests.helpers.builders import a_spec, at, element, move, new, placed, started
from tests.helpers.flows import (
    clock_of,
    codes,
    end,
    one,
    recorded,
    run_to_running,
    running_flow,
    settled,
    until,
    until_state,
)

from .conftest import waiting_engine
from .test_faults import moody, times

DAY = 86400


async def there(flow: Flow, *keys: TaskKey) -> list[TaskKey]:
    return [task.key for task in await flow.store.tasks(keys)]


async def test_the_newest_are_kept_with_their_output(flow: Flow) -> None:
    keys, attempts = [], []
    for _ in range(5):
        key, attempt = await run_to_running(flow)
        await end(flow, key)
        keys.append(key)
        attempts.append(attempt)
    await until(lambda: all(flow.logs.has(a, 0, "stdout") for a in attempts))
    flow.retention = Retention(tasks=2)

    assert await retain.retain(flow) == 3
    assert await retain.retain(flow) == 0

    assert await there(flow, *keys) == keys[3:]
    await until(lambda: not any(flow.logs.has(a, 0, "stdout") for a in attempts[:3]))
    assert all(flow.logs.has(a, 0, "stdout") for a in attempts[3:])
    (deleted,) = await flow.store.history(keys[0])
    assert (type(deleted).__name__, deleted.by) == ("Deleted", "retention")  # type: ignore[union-attr]


async def test_by_age(flow: Flow) -> None:
    old = await one(flow)
    await end(flow, old)
    clock_of(flow).step(2 * DAY)
    young = await one(flow)
    await end(flow, young)
    flow.retention = Retention(days=1)

    assert await retain.retain(flow) == 1

    assert await there(flow, old, young) == [young]


async def test_without_a_rule_everything_stays(flow: Flow) -> None:
    key = await one(flow)
    await end(flow, key)
    clock_of(flow).step(10_000 * DAY)

    assert await retain.retain(flow) == 0
    assert await there(flow, key) == [key]


async def test_what_somebody_waits_for_stays_until_nobody_does(flow: Flow) -> None:
    wanted, array = await one(flow), await one(flow, array="0-1")
    await end(flow, wanted)
    for index in range(2):
        await end(flow, TaskKey(array.id, index))
    await until_state(flow, array, State.FINISHED)
    held = await one(flow, hold=True, after=(f"{wanted}:ok", f"{array}_1:ok"))
    # it runs, and would wait again if it were put back in line
    running, _ = await run_to_running(flow, after=(f"{wanted}:ok",))
    flow.retention = Retention(tasks=1)
    last = await one(flow)
    await end(flow, last)

    assert await retain.retain(flow) == 0
    assert await there(flow, wanted, array, held) == [wanted, array, held]

    await cancel(flow, held, "ana")
    assert await retain.retain(flow) >= 1
    assert await there(flow, wanted, array) == [wanted]
    await end(flow, running)
    await retain.retain(flow)
    assert await there(flow, wanted) == []


async def test_an_array_goes_whole_and_not_before_it_is_over(flow: Flow) -> None:
    array = await one(flow, array="0-2%1")
    await end(flow, TaskKey(array.id, 0))
    flow.retention = Retention(tasks=1)
    later = [await one(flow) for _ in range(2)]
    for key in later:
        await end(flow, key)

    await retain.retain(flow)
    assert await there(flow, array, TaskKey(array.id, 0)) == [array, TaskKey(array.id, 0)]

    await cancel(flow, array, "ana")
    await until_state(flow, array, State.FINISHED)
    newest = await one(flow)
    await end(flow, newest)
    await retain.retain(flow)
    assert await there(flow, array, TaskKey(array.id, 0), newest) == [newest]


async def test_nobody_begins_to_wait_for_what_goes(flow: Flow) -> None:
    """A submit that names a task while retention looks at it: one of the two comes first."""
    for _ in range(20):
        old = await one(flow)
        await end(flow, old)
        flow.retention = Retention(days=1)
        clock_of(flow).step(2 * DAY)
        waits = one(flow, hold=True, after=(f"{old}:ok",))
        done = await asyncio.gather(retain.retain(flow), waits, return_exceptions=True)
        if isinstance(done[1], TaskKey):
            assert await there(flow, old) == [old]
            assert "after_deleted" not in codes(flow, await recorded(flow, done[1]))
            await cancel(flow, done[1], "ana")
        else:
            assert getattr(done[1], "code", "") == "dependency_unknown"


async def test_the_loop_does_it_at_the_start(tmp_path: Path) -> None:
    async with running_flow(tmp_path, waiting_engine()) as flow:
        keys = [await one(flow) for _ in range(3)]
        for key in keys:
            await end(flow, key)
        await settled(flow)
    async with running_flow(tmp_path, waiting_engine(), retention=Retention(tasks=1)) as flow:
        await until_there(flow, keys, keys[2:])


async def test_and_every_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retain, "EVERY_S", 0.01)
    monkeypatch.setattr(retain, "STRAYS_AFTER_S", 0.01)
    async with running_flow(tmp_path, waiting_engine(), retention=Retention(tasks=1)) as flow:
        keys = [await one(flow) for _ in range(3)]
        for key in keys:
            await end(flow, key)
        await until_there(flow, keys, keys[2:])


async def until_there(flow: Flow, keys: list[TaskKey], left: list[TaskKey]) -> None:
    """Until of these only those are left."""
    async with asyncio.timeout(10):
        while await there(flow, *keys) != left:
            await asyncio.sleep(0.005)


async def test_a_store_that_fails_is_tried_again(flow: Flow) -> None:
    key, other = await one(flow), await one(flow)
    for each in (key, other):
        await end(flow, each)
    flow.retention = Retention(tasks=1)
    moody(flow).before_erase = times(1)

    with pytest.raises(StoreDown):
        await retain.retain(flow)

    assert await there(flow, key) == [key]
    assert not flow.editing.locked()
    assert await retain.retain(flow) == 1


async def test_output_that_nobody_knows_goes_when_it_is_old(flow: Flow) -> None:
    key, known = await run_to_running(flow)
    await end(flow, key)
    await until(lambda: flow.logs.has(known, 0, "stdout"))
    assert isinstance(flow.logs, LogFolder)
    old, young = secrets.token_hex(16), secrets.token_hex(16)
    for attempt in (old, young):
        for stream in ("stdout", "stderr"):
            copy = flow.logs.copy(attempt, 0, stream)
            copy.write(0, b"x")
            copy.keep(1)
    weeks_ago = (datetime.now(UTC) - timedelta(days=15)).timestamp()
    for path in flow.logs.folder.glob("*/*"):
        if young not in path.name:
            os.utime(path, (weeks_ago, weeks_ago))

    assert await retain.remove_strays(flow) == 1

    assert not flow.logs.has(old, 0, "stdout")
    assert not flow.logs.has(old, 0, "stderr")
    assert flow.logs.has(young, 0, "stdout")
    assert flow.logs.has(known, 0, "stdout")
    assert await retain.remove_strays(flow) == 0


# ---- exactly what the rule says


TASKS = st.lists(
    st.tuples(
        st.sampled_from(["plain", "array", "open array", "waiting"]),
        st.integers(0, 6),  # how many days ago it ended
        st.one_of(st.none(), st.integers(1, 12)),  # whom it waits for, if it waits
    ),
    max_size=12,
)


@settings(max_examples=25)
@given(tasks=TASKS, days=st.integers(0, 5), most=st.integers(0, 6), batch=st.integers(1, 4))
def test_what_is_kept_is_what_the_rule_says(
    tasks: list[tuple[str, int, int | None]], days: int, most: int, batch: int
) -> None:
    asyncio.run(_kept(tasks, days, most, batch))


async def _kept(tasks: list[tuple[str, int, int | None]], days: int, most: int, batch: int) -> None:
    now = at(8 * DAY)

    class Clock:
        def now(self) -> datetime:
            return now

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(retain, "BATCH", batch)
        patch.setattr(retain, "PAUSE_S", 0)
        store = open_store(Path(folder) / "stoker.db")
        try:
            for id, (kind, ago, _) in enumerate(tasks, start=1):
                await _record(store, id, kind, now - timedelta(days=ago, seconds=1))
            waits: set[int] = set()
            for id, (kind, _, whom) in enumerate(tasks, start=1):
                if kind == "waiting" and whom is not None and whom <= len(tasks) and whom != id:
                    await store.record([new(100 + id, a_spec(after=(f"{whom}:ok",)))])
                    waits.add(whom)
            flow = Flow(
                store=store,
                engine=FakeEngine([]),
                logs=LogFolder(Path(folder) / "logs"),
                clock=Clock(),
                new_attempt=lambda: secrets.token_hex(16),
                retention=Retention(days, most),
            )
            await recover(flow)

            count = await retain.retain(flow)

            await flow.drain()
            ids = range(1, len(tasks) + 1)
            left = {task.id for task in await store.tasks([TaskKey(id) for id in ids])}
            over = [id for id in ids if tasks[id - 1][0] in ("plain", "array")]
            newest = sorted(over, key=lambda id: (-tasks[id - 1][1], id), reverse=True)
            kept = {id for id in ids if id not in over} | waits
            kept |= {
                id
                for rank, id in enumerate(newest)
                if (not most or rank < most) and (not days or tasks[id - 1][1] < days)
            }
            assert left == kept
            assert count == len(tasks) - len(kept)
            assert store.check() == []
        finally:
            store.close()


async def _record(store: SqlStore, id: int, kind: str, ended: datetime) -> None:
    if kind == "waiting":
        await store.record([new(id)])
        return
    done = Ended(at=ended, attempt=f"a{id}", end=End(outcome="succeeded", reason="exit_zero"))
    ran: tuple[Event, ...] = (placed(f"a{id}", number=id), started(f"a{id}"), done)
    if kind == "plain":
        await store.record([new(id, None, *ran)])
        return
    array = new(id, a_spec(array="0-1" if kind == "array" else "0-2"))
    await store.record([array])
    elements: list[Change] = [element(array.task, 0, *ran)]
    await store.record(elements)
    if kind == "array":
        end_of_all = End(outcome="cancelled", reason="cancelled")
        counts = {"succeeded": 1, "cancelled": 1}
        await store.record([move(array.task, Ended(at=ended, end=end_of_all, counts=counts))])
