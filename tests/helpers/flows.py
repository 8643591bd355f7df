"""A flow that runs: real records in a folder, any engine, and a check of the records at its end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.engines.fake import FakeEngine
from stoker.flow import loop
from stoker.flow.context import Flow
from stoker.flow.recover import recover
from stoker.store.logs import LogFolder
from stoker.store.recorder import open_store


class RealClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


@asynccontextmanager
async def running_flow(folder: Path, engine: FakeEngine) -> AsyncIterator[Flow]:
    store = open_store(folder / "stoker.db")
    flow = Flow(
        store=store,
        engine=engine,
        logs=LogFolder(folder / "logs"),
        clock=RealClock(),
        new_attempt=lambda: secrets.token_hex(16),
        owner="ana",
    )
    turning: asyncio.Task[None] | None = None
    try:
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
    async with asyncio.timeout(seconds):
        while True:
            task = await flow.store.task(key)
            assert task is not None
            if task.state in states:
                return task
            await asyncio.sleep(0.002)
