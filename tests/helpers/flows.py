"""A flow that runs: real records in a folder, any engine, and a check of the records at its end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import structs

from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.task import TaskSpec
from stoker.engines.base import Fact
from stoker.engines.fake import FakeEngine
from stoker.flow import loop, overview
from stoker.flow.context import Flow, Retention
from stoker.flow.obey import obey
from stoker.flow.recover import recover
from stoker.flow.submit import submit
from stoker.scheduler.policy import Policy
from stoker.store.logs import LogFolder
from stoker.store.recorder import open_store

from .builders import a_spec


class Clock:
    """The real one, which a test may set forward or back."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def step(self, seconds: float) -> None:
        self._ahead += timedelta(seconds=seconds)


@asynccontextmanager
async def running_flow(
    folder: Path,
    engine: FakeEngine,
    policy: Policy | None = None,
    retention: Retention | None = None,
) -> AsyncIterator[Flow]:
    store = open_store(folder / "stoker.db")
    flow = Flow(
        store=store,
        engine=engine,
        logs=LogFolder(folder / "logs"),
        clock=Clock(),
        new_attempt=lambda: secrets.token_hex(16),
        policy=policy,
        retention=retention,
    )
    turning: asyncio.Task[None] | None = None
    try:
        await flow.book.load()
        obey(flow)
        await recover(flow)
        await engine.start(flow.epoch)
        turning = asyncio.create_task(loop.run(flow))
        await until(lambda: bool(flow.view.rooms) and not flow.unplanned)
        yield flow
    finally:
        if turning is not None:
            turning.cancel()
            with suppress(asyncio.CancelledError):
                await turning
        await flow.drain()
        broken = store.check()
        store.close()
        assert broken == []


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for `condition`, at most so long."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


async def until_state(flow: Flow, key: TaskKey, *states: State, seconds: float = 10) -> Task:
    """Until it is recorded so, and the flow knows: records are read by another thread."""
    async with asyncio.timeout(seconds):
        while True:
            task = await flow.store.task(key)
            assert task is not None
            if task.state in states and _knows(flow, task):
                return task
            await asyncio.sleep(0.002)


def _knows(flow: Flow, task: Task) -> bool:
    """What the flow has of it among what runs is not older than this."""
    mine = [live.task for live in flow.live.values() if live.task.key == task.key]
    return all(known.version >= task.version for known in mine)


def like(spec: TaskSpec, **fields: Any) -> TaskSpec:
    return structs.replace(spec, **fields)


def engine_of(flow: Flow) -> FakeEngine:
    assert isinstance(flow.engine, FakeEngine)
    return flow.engine


def clock_of(flow: Flow) -> Clock:
    assert isinstance(flow.clock, Clock)
    return flow.clock


def say(flow: Flow, fact: Fact) -> None:
    """The engine has seen this."""
    engine_of(flow)._facts.put_nowait(fact)


def later(flow: Flow, seconds: float) -> None:
    """So much time passes, and the alarm rings."""
    clock_of(flow).step(seconds)
    flow.replan()


async def one(flow: Flow, owner: str = "ana", **fields: Any) -> TaskKey:
    """Submit a task."""
    (task,) = await submit(flow, owner, [a_spec(**fields)], batch=False)
    return task.key


async def recorded(flow: Flow, key: TaskKey) -> Task:
    task = await flow.store.task(key)
    assert task is not None, f"there is no task {key}"
    return task


async def run_to_running(flow: Flow, **fields: Any) -> tuple[TaskKey, str]:
    key = await one(flow, **fields)
    return key, await attempt_of(flow, key)


async def attempt_of(flow: Flow, key: TaskKey) -> str:
    """Its attempt, as soon as that runs."""
    task = await until_running(flow, key)
    assert task.attempt is not None
    return task.attempt


async def until_running(flow: Flow, key: TaskKey) -> Task:
    """An element has no row before it starts."""
    found: list[Task] = []
    async with asyncio.timeout(10):
        while not found:
            found = [t for t in await flow.store.tasks([key]) if t.state is State.RUNNING]
            await asyncio.sleep(0.002)
    return found[0]


async def end(flow: Flow, key: TaskKey, code: int = 0) -> Task:
    """Let it run to its end."""
    engine_of(flow).finish(await attempt_of(flow, key), code)
    return await until_state(flow, key, State.FINISHED)


async def settled(flow: Flow) -> None:
    """Until the loop has nothing left to do, and no intent is on its way to the records."""

    await until(lambda: not is_due(flow) and flow.view.taken().keys() == flow.live.keys())


def is_due(flow: Flow) -> bool:
    """The loop has something to do."""
    return bool(flow.unplanned or flow.asked or flow.unsettled or flow.wake.is_set())


def codes(flow: Flow, task: Task) -> list[str]:
    """Why it waits."""
    return [reason.code for reason in overview.explain(flow, task).reasons]


def free_cards(flow: Flow, node: str = "node-a") -> int:
    return len(flow.view.rooms[node].free_gpus())
