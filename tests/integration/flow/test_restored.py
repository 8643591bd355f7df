"""Records from a backup: what nodes did since is entered first, and nothing runs twice."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from stoker.domain.errors import StoreDown
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.node import Incarnation
from stoker.domain.outcome import End
from stoker.engines.base import AttemptEnded, AttemptNeverRan, AttemptUnknown, PastAttempt
from stoker.engines.fake import FakeEngine
from stoker.flow import loop, overview, queue
from stoker.flow.context import Flow
from stoker.flow.recover import recover
from stoker.store.base import Restored, RestoredNode
from stoker.store.logs import LogFolder
from stoker.store.recorder import open_store
from tests.helpers.flows import (
    Clock,
    codes,
    engine_of,
    free_cards,
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
from tests.integration.flow.conftest import waiting_engine

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]
LIFE = Incarnation("fake-boot", "fake-spool")
DONE = End(outcome="succeeded", reason="exit_zero", exit_code=0)
FAILED = End(outcome="failed", reason="exit_code", exit_code=3)
CARDS = tuple(f"node-a-gpu-{index}" for index in range(4))


@asynccontextmanager
async def before(folder: Path) -> AsyncIterator[Flow]:
    """The life before the backup: a node that takes nothing, so that everything waits."""
    engine = waiting_engine()
    async with running_flow(folder, engine) as flow:
        flow.view.drain("node-a", "for the test")
        yield flow
        await settled(flow)
        node = RestoredNode("fake-spool", 0)
        mark = Restored(datetime.now(UTC), "then", {"node-a": node})
        await flow.store.remember("restored", msgspec.json.encode(mark).decode())


@pytest.fixture
def restored(tmp_path: Path) -> Restart:
    """The life after the restore."""
    return lambda engine: running_flow(tmp_path, engine)


def past(
    task: Task, number: int, end: End | None = DONE, *, requeue: bool = False, gpus: int = 0
) -> PastAttempt:
    """It ran since the backup; `end` None: it still does."""
    id = f"{number:032x}"
    over = None
    if end is not None:
        now = datetime.now(UTC)
        over = AttemptEnded(attempt=id, at=now, end=end, started_at=now, requeue=requeue)
    return PastAttempt(
        attempt=id,
        number=number,
        incarnation=LIFE,
        epoch=7,
        task=task.key,
        submitted_at=task.submitted_at,
        gpus=CARDS[:gpus],
        over=over,
    )


def runs_there(engine: FakeEngine, *parts: PastAttempt) -> None:
    """What the node answers; those that run are known to it when they are launched again."""
    engine.past = list(parts)


async def test_what_ended_since_does_not_run_again(tmp_path: Path, restored: Restart) -> None:
    async with before(tmp_path) as flow:
        ran, waits = await recorded(flow, await one(flow)), await one(flow)
        failed = await recorded(flow, await one(flow))
    engine = waiting_engine()
    runs_there(engine, past(ran, 1), past(failed, 2, FAILED))
    async with restored(engine) as flow:
        done = await until_state(flow, ran.key, State.FINISHED)
        assert (done.end, done.attempts) == (DONE, 1)
        assert (await until_state(flow, failed.key, State.FINISHED)).end == FAILED
        await until_state(flow, waits, State.RUNNING)
        attempts = set(engine.launches)
        assert len(attempts) == len(engine.launches) == 1, "only the one that never ran"
        assert await flow.store.recall("restored") == ""
    async with restored(waiting_engine()) as flow:
        assert flow.restoring is None


async def test_what_runs_is_known_again_with_its_cards(tmp_path: Path, restored: Restart) -> None:
    async with before(tmp_path) as flow:
        runs = await recorded(flow, await one(flow, gpus=3))
        big = await one(flow, gpus=2)
    engine = waiting_engine()
    runs_there(engine, past(runs, 5, None, gpus=3))
    async with restored(engine) as flow:
        task = await until_state(flow, runs.key, State.RUNNING)
        assert task.gpu_ids == (0, 1, 2)
        await settled(flow)
        assert free_cards(flow) == 1
        assert (await recorded(flow, big)).state is State.QUEUED
        assert flow.nodes["node-a"].launch_number >= 5
        engine.finish(task.attempt or "")
        await until_state(flow, runs.key, State.FINISHED)
        await until_state(flow, big, State.RUNNING)


async def test_several_attempts_since_are_entered_in_order(
    tmp_path: Path, restored: Restart
) -> None:
    """It was requeued by a person, tried again because it failed, and runs."""
    async with before(tmp_path) as flow:
        task = await recorded(flow, await one(flow, gpus=1))
    engine = waiting_engine()
    stopped = End(outcome="cancelled", reason="cancelled")
    runs_there(
        engine,
        past(task, 2, stopped, requeue=True, gpus=1),
        past(task, 4, FAILED, gpus=1),
        past(task, 6, None, gpus=1),
    )
    async with restored(engine) as flow:
        now = await until_state(flow, task.key, State.RUNNING)
        assert now.attempts == 3
        assert now.attempt == f"{6:032x}"


async def test_an_attempt_that_a_later_one_followed_is_over(
    tmp_path: Path, restored: Restart
) -> None:
    """It runs in the records; since then it was requeued, and another attempt has ended."""
    engine = waiting_engine()
    async with running_flow(tmp_path, engine) as flow:
        key, first = await run_to_running(flow, gpus=1)
        task = await recorded(flow, key)
        mark = Restored(datetime.now(UTC), "then", {"node-a": RestoredNode("fake-spool", 0)})
        await flow.store.remember("restored", msgspec.json.encode(mark).decode())
    engine = waiting_engine()
    runs_there(engine, past(task, 9, gpus=1))
    async with restored(engine) as flow:
        done = await until_state(flow, key, State.FINISHED)
        assert (done.attempts, done.end) == (2, DONE)
        over = await flow.store.attempt(first)
        assert over is not None
        assert over.end is not None
        assert over.end.outcome == "lost"
        assert engine.launches == []


async def test_an_element_of_an_array_is_known_again(tmp_path: Path, restored: Restart) -> None:
    async with before(tmp_path) as flow:
        array = await recorded(flow, await one(flow, array="0-3%1"))
    engine = waiting_engine()
    ended, runs = past(array, 1), past(array, 2, None)
    runs_there(
        engine,
        msgspec.structs.replace(ended, task=TaskKey(array.id, 2)),
        msgspec.structs.replace(runs, task=TaskKey(array.id, 3)),
    )
    async with restored(engine) as flow:
        await until_state(flow, TaskKey(array.id, 3), State.RUNNING)
        assert (await recorded(flow, TaskKey(array.id, 2))).end == DONE
        await settled(flow)
        counts = overview.array_counts(flow, array.id)
        assert counts is not None
        assert (counts.waiting, counts.live, counts.succeeded) == (2, 1, 1)


async def test_a_held_task_that_ran_since_has_run(tmp_path: Path, restored: Restart) -> None:
    async with before(tmp_path) as flow:
        held = await recorded(flow, await one(flow, hold=True))
    engine = waiting_engine()
    runs_there(engine, past(held, 1))
    async with restored(engine) as flow:
        await until_state(flow, held.key, State.FINISHED)


@pytest.mark.parametrize("gap", ["unexplained", "another spool", "unknown node", "nameless"])
async def test_what_nobody_can_tell_of_is_held_until_a_person_decides(
    tmp_path: Path, restored: Restart, gap: str
) -> None:
    async with before(tmp_path) as flow:
        waits, array = await one(flow), await one(flow, array="0-3")
        task = await recorded(flow, waits)
    engine = waiting_engine()
    if gap == "unexplained":
        engine.unexplained = (3,)
    elif gap == "nameless":
        runs_there(engine, msgspec.structs.replace(past(task, 1), task=None, submitted_at=None))
    else:
        node = RestoredNode("other" if gap == "another spool" else "fake-spool", 0)
        name = "node-a" if gap == "another spool" else "node-z"
        await _mark(tmp_path, Restored(datetime.now(UTC), "then", {name: node}))
    async with restored(engine) as flow:
        for key in (waits, array):
            held = await until_state(flow, key, State.HELD)
            assert codes(flow, held)[:2] == ["held", "attempt_in_doubt"]
    async with restored(engine) as flow:  # it is known after a restart too
        assert codes(flow, await recorded(flow, waits))[:2] == ["held", "attempt_in_doubt"]
        await queue.release(flow, waits, "ana")
        await until_state(flow, waits, State.RUNNING)
        await queue.release(flow, array, "ana")
        await until_running(flow, TaskKey(array.id, 0))
        assert flow.doubted == set()


async def test_nothing_is_placed_before_the_node_has_told(
    tmp_path: Path, restored: Restart
) -> None:
    async with before(tmp_path) as flow:
        waits = await one(flow)
    engine = waiting_engine()
    engine.lost.add("node-a")
    async with _silent(tmp_path, engine) as flow:
        newcomer = await one(flow)
        await settled(flow)
        for key in (waits, newcomer):
            task = await recorded(flow, key)
            assert task.state is State.QUEUED
            assert codes(flow, task)[0] == "restored"
        assert any("restored" in problem for problem in overview.health(flow).problems)
        engine.find("node-a")
        for key in (waits, newcomer):
            await until_state(flow, key, State.RUNNING)


async def test_another_task_of_the_same_number_is_not_mistaken_for_it(
    tmp_path: Path, restored: Restart
) -> None:
    """Numbers that were given after the backup are given again."""
    async with before(tmp_path) as flow:
        task = await recorded(flow, await one(flow, gpus=1))
    engine = waiting_engine()
    other = msgspec.structs.replace(
        past(task, 1, None, gpus=2), submitted_at=datetime(2020, 1, 1, tzinfo=UTC)
    )
    unknown = msgspec.structs.replace(past(task, 2, None, gpus=3), task=TaskKey(99))
    runs_there(engine, other, unknown)
    async with restored(engine) as flow:
        now = await until_state(flow, task.key, State.RUNNING)
        assert now.gpu_ids == (3,), "strangers have the others"
        assert free_cards(flow) == 0
        say(flow, AttemptUnknown(attempt=unknown.attempt, node="node-a", ended=True))
        await until(lambda: free_cards(flow) == 1)


async def test_one_that_never_began_waits_in_line_again(tmp_path: Path, restored: Restart) -> None:
    async with before(tmp_path) as flow:
        task = await recorded(flow, await one(flow))
    engine = waiting_engine()
    never = past(task, 1)
    never = msgspec.structs.replace(never, over=AttemptNeverRan(attempt=never.attempt))
    runs_there(engine, never)
    async with restored(engine) as flow:
        await until(lambda: flow.restoring is None)
        now = await recorded(flow, task.key)
        assert (now.state, now.attempts, now.never_ran) == (State.QUEUED, 1, 1)


async def test_a_disk_that_refuses_meanwhile_only_delays_it(
    tmp_path: Path, restored: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.flow.restored.PAUSE_S", 0)
    async with before(tmp_path) as flow:
        tasks = [await recorded(flow, await one(flow)) for _ in range(3)]
    engine = waiting_engine()
    engine.lost.add("node-a")
    runs_there(engine, *(past(task, number + 1) for number, task in enumerate(tasks)))
    async with _silent(tmp_path, engine) as flow:
        real, left = flow.store.record, [2]

        async def moody(changes: object) -> int:
            left[0] -= 1
            if left[0] % 2:
                raise StoreDown(why="full")
            return await real(changes)  # type: ignore[arg-type]

        flow.store.record = moody  # type: ignore[method-assign]
        engine.find("node-a")
        for task in tasks:
            done = await until_state(flow, task.key, State.FINISHED)
            assert done.attempts == 1
        assert engine_of(flow).launches == []


async def _mark(folder: Path, mark: Restored) -> None:
    store = open_store(folder / "stoker.db")
    await store.remember("restored", msgspec.json.encode(mark).decode())
    store.close()


@asynccontextmanager
async def _silent(folder: Path, engine: FakeEngine) -> AsyncIterator[Flow]:
    """A server whose node has not introduced itself yet."""
    store = open_store(folder / "stoker.db")
    flow = Flow(
        store=store,
        engine=engine,
        logs=LogFolder(folder / "logs"),
        clock=Clock(),
        new_attempt=lambda: secrets.token_hex(16),
    )
    await recover(flow)
    turning = asyncio.create_task(loop.run(flow))
    try:
        yield flow
    finally:
        turning.cancel()
        with suppress(asyncio.CancelledError):
            await turning
        await flow.drain()
        broken = store.check()
        store.close()
        assert broken == []
