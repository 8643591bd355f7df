"""One life of the server, from its start to the moment it is killed.

The real store, flow, scheduler and fleet engine, as `bootstrap` puts them together, without HTTP.
`die` takes effect at once, wherever it is called from: from then on nothing that is left of this
server reaches the records or a node; its tasks are cancelled a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import sqlalchemy as sa
from msgspec import structs
from typing_extensions import override

from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import Task
from stoker.domain.node import Node
from stoker.engines.base import Fact, NodeUp
from stoker.engines.fleet.engine import FleetEngine
from stoker.engines.fleet.link import Transport
from stoker.flow import loop as flow_loop
from stoker.flow.context import Clock, Flow
from stoker.flow.recover import recover
from stoker.scheduler.policy import Policy
from stoker.store.base import LogShelf
from stoker.store.recorder import SqlStore, _task, open_store

from .inline import AtCommit, Committed, InlineWriter


class Killed(BaseException):
    """The process is gone. Nothing that catches Exception may outlive it."""


class ShakyEngine(FleetEngine):
    """The fleet engine; what it has seen may come late, twice and out of order.

    What it says of nodes keeps its order: a node that is up after it was down is up.
    """

    def __init__(
        self,
        transports: Mapping[str, Transport],
        nodes: Mapping[str, Node],
        rng: Random,
        shaky: float,
    ) -> None:
        super().__init__(transports)
        self._nodes, self._rng, self._shaky = nodes, rng, shaky

    @override
    async def facts(self) -> AsyncIterator[Fact]:
        loop = asyncio.get_running_loop()
        held: list[Fact] = []
        async for fact in super().facts():
            if isinstance(fact, NodeUp):  # a runner does not know about slots
                node = structs.replace(fact.node, gpus=self._nodes[fact.node.name].gpus)
                yield structs.replace(fact, node=node)
                continue
            if hasattr(fact, "attempt") and fact not in held and self._rng.random() < self._shaky:
                held.append(fact)
                delay = self._rng.choice((0.01, 0.5, 5.0))
                loop.call_later(delay, self._facts.put_nowait, fact)
                if self._rng.random() < 0.5:
                    continue
            yield fact


class Server:
    def __init__(
        self,
        *,
        path: Path,
        clock: Clock,
        logs: LogShelf,
        transports: Callable[[Callable[[], bool]], Mapping[str, Transport]],
        nodes: Mapping[str, Node],
        rng: Random,
        disk: tuple[float, ...],
        shaky: float,
        committed: Committed,
        asked: Callable[[str, Any], None],
        at_commit: AtCommit,
        policy: Policy,
    ) -> None:
        self.is_alive = True
        self.is_ready = False
        """It takes requests."""
        self._path, self._rng, self._disk = path, rng, disk
        self._committed, self._asked, self._at_commit = committed, asked, at_commit
        self._policy = policy
        self._disk_is_full = False
        self._clock, self._logs = clock, logs
        self.engine = ShakyEngine(transports(lambda: self.is_alive), nodes, rng, shaky)
        self.writer: InlineWriter | None = None
        self.store: SqlStore | None = None
        self.flow: Flow | None = None

    @property
    def disk_is_full(self) -> bool:
        return self._disk_is_full

    @disk_is_full.setter
    def disk_is_full(self, full: bool) -> None:
        self._disk_is_full = full
        if self.writer is not None:
            self.writer.refusing = full

    async def start(self) -> None:
        """Open the records and know everything again. Raises StoreDown on a full disk."""
        if not self.is_alive:
            raise Killed
        self.store = open_store(self._path, self._make_writer)
        self.flow = Flow(
            store=self.store,
            engine=self.engine,
            logs=self._logs,
            clock=self._clock,
            new_attempt=lambda: f"{self._rng.getrandbits(128):032x}",
            policy=self._policy,
        )
        await self.flow.book.load()
        await recover(self.flow)
        await self.engine.start(self.flow.epoch)

    async def turn(self) -> None:
        """Serve until killed."""
        assert self.flow is not None
        self.is_ready = True
        await flow_loop.run(self.flow)

    def stored_tasks(self) -> dict[TaskKey, Task]:
        """Every row of the database."""
        assert self.store is not None
        keys = self.store._pool.fetch("SELECT id, element FROM tasks")
        with self.store._pool.snapshot() as cursor:
            sql = self.store._reads.task.sql
            rows = [row for key in keys for row in cursor.execute(sql, key).fetchall()]
        return {task.key: task for task in map(_task, rows)}

    def die(self) -> None:
        """At once. What is in the records stays; what was sent may still arrive."""
        if not self.is_alive:
            return
        self.is_alive = self.is_ready = False
        if self.writer is not None:
            self.writer.kill()
        for link in self.engine.links.values():
            if link._writer is not None:
                link._writer.close()
        if self.store is not None:
            self.store._pool.close()
            self.store._when_closed()

    def _make_writer(self, engine: sa.Engine) -> InlineWriter:
        self.writer = InlineWriter(
            engine,
            rng=self._rng,
            disk=self._disk,
            committed=self._committed,
            asked=self._asked,
            at_commit=self._at_commit,
        )
        self.writer.refusing = self._disk_is_full
        return self.writer
