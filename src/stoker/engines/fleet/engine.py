"""The fleet: one link per node, one stream of facts. The same code for this machine and others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from stoker.domain.attempt import Attempt
from stoker.domain.errors import EngineUnreachable
from stoker.domain.lifecycle import State
from stoker.engines.base import (
    Capabilities,
    ExtendOrder,
    Fact,
    LaunchOrder,
    LiveAttempt,
    LogChunk,
    StopOrder,
)

from .link import Expected, Link, Transport


class FleetEngine:
    capabilities = Capabilities(places_itself=False, survives_restart=True, live_logs=True)

    def __init__(self, transports: Mapping[str, Transport]) -> None:
        self._facts: asyncio.Queue[Fact] = asyncio.Queue()
        self.links = {
            name: Link(name, transport, self._facts.put_nowait)
            for name, transport in transports.items()
        }
        self._running: list[asyncio.Task[None]] = []

    async def start(self, epoch: int) -> None:
        for link in self.links.values():
            link.epoch = epoch
            self._running.append(asyncio.create_task(link.run(), name=f"link {link.name}"))

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        for task in self._running:
            with suppress(asyncio.CancelledError):
                await task
        self._running.clear()

    async def facts(self) -> AsyncIterator[Fact]:
        while True:
            yield await self._facts.get()

    def reconcile(self, attempts: Sequence[LiveAttempt]) -> None:
        for live in attempts:
            link = self.links.get(live.attempt.allocation.node)
            if link is None:
                continue  # no longer configured: unconfirmed until it is back
            known = Expected(live.attempt, started=live.state is State.RUNNING)
            known.extend = ExtendOrder(
                attempt=live.attempt,
                time_limit_s=live.spec.time_limit_s,
                serial=live.version,
            )
            if live.state is State.STARTING:
                known.order = LaunchOrder(
                    attempt=live.attempt,
                    spec=live.spec,
                    owner=live.owner,
                    account=live.account,
                    submitted_at=live.submitted_at,
                )
            elif live.state is State.STOPPING:
                known.stop = StopOrder(
                    attempt=live.attempt,
                    cause=live.stop_cause or "cancel",
                    grace_s=live.spec.grace_s,
                )
            link.expected[live.attempt.id] = known

    def recall(self, above: Mapping[str, int]) -> frozenset[str]:
        for name, link in self.links.items():
            link.recall_above = above.get(name, 0)
        return frozenset(self.links)

    def launch(self, orders: Sequence[LaunchOrder]) -> None:
        for order in orders:
            self.links[order.attempt.allocation.node].launch(order)

    def stop(self, orders: Sequence[StopOrder]) -> None:
        for order in orders:
            link = self.links.get(order.attempt.allocation.node)
            if link is not None:
                link.stop(order)

    def extend(self, orders: Sequence[ExtendOrder]) -> None:
        for order in orders:
            link = self.links.get(order.attempt.allocation.node)
            if link is not None:
                link.extend(order)

    def forget(self, node: str, attempts: Sequence[Attempt]) -> None:
        link = self.links.get(node)
        if link is not None:
            for attempt in attempts:
                link.forget(attempt)

    async def read_log(
        self, attempt: Attempt, rank: int, stream: str, offset: int, limit: int
    ) -> LogChunk:
        link = self.links.get(attempt.allocation.node)
        if link is None:
            raise EngineUnreachable(node=attempt.allocation.node)
        return await link.read_log(attempt, rank, stream, offset, limit)

    async def call(
        self, node: str, account: str, verb: str, args: Mapping[str, str]
    ) -> Mapping[str, Any]:
        link = self.links.get(node)
        if link is None:
            raise EngineUnreachable(node=node)
        return await link.call(account, verb, args)
