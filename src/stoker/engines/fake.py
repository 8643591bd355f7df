"""An engine without processes, for tests of everything above it. Scriptable, and honest.

Each launch asks `behave` what the attempt does: how long it runs, how it ends, what it prints.
Launching an attempt twice runs it once; a lost node keeps its attempts and says nothing about them
until it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from stoker.domain.attempt import Attempt
from stoker.domain.errors import EngineRefused, EngineUnreachable, UnknownLog
from stoker.domain.lifecycle import State
from stoker.domain.node import Incarnation, Node
from stoker.domain.outcome import End, end_from_exit

from .base import (
    AttemptEnded,
    AttemptLost,
    AttemptNeverRan,
    AttemptStarted,
    Capabilities,
    ExtendOrder,
    Fact,
    LaunchOrder,
    LiveAttempt,
    LogChunk,
    NodeDown,
    NodeRecalled,
    NodeUp,
    PastAttempt,
    StopOrder,
)


class Behaviour(Struct, frozen=True, kw_only=True):
    """What an attempt does."""

    run_for_s: float | None = 0.0
    """None: until it is stopped or `finish` is called."""
    code: int = 0
    reason: str = ""
    """What was found in its output when it failed, and the words there."""
    detail: str = ""
    output: bytes = b""
    begins: bool = True
    """False: its command never begins, as on a node where nothing can be launched."""


class _Run(Struct):
    attempt: Attempt
    behaviour: Behaviour
    end: End | None = None
    started_at: datetime | None = None
    requeue: bool = False
    """It was stopped so that it can run again."""
    limit_s: int | None = None
    alarm: asyncio.TimerHandle | None = None
    """Rings at its limit."""


class FakeEngine:
    capabilities = Capabilities(places_itself=False, survives_restart=True, live_logs=True)

    def __init__(
        self,
        nodes: Sequence[Node],
        behave: Callable[[LaunchOrder], Behaviour] = lambda _order: Behaviour(),
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.behave = behave
        self.runs: dict[str, _Run] = {}
        self.launches: list[str] = []
        """Every attempt that really began, in order: one twice here is a bug above."""
        self.lost: set[str] = set()
        self.calls: list[tuple[str, str, str, Mapping[str, str]]] = []
        """Every call that was made, in order."""
        self.verbs: dict[str, Callable[[Mapping[str, str]], Awaitable[dict[str, Any]]]] = {
            "check_environment": _any_environment
        }
        """What a call finds."""
        self.past: list[PastAttempt] = []
        """What nodes remember when they are asked what was launched before."""
        self.unexplained: tuple[int, ...] = ()
        self._to_recall: set[str] = set()
        self._facts: asyncio.Queue[Fact] = asyncio.Queue()
        self._stopped_early: set[str] = set()

    async def start(self, epoch: int) -> None:
        for name in self.nodes:
            self._say_up(name)

    async def close(self) -> None:
        """Attempts go on: they are only timers here."""

    async def facts(self) -> AsyncIterator[Fact]:
        while True:
            yield await self._facts.get()

    def reconcile(self, attempts: Sequence[LiveAttempt]) -> None:
        for live in attempts:
            run = self.runs.get(live.attempt.id)
            if run is not None:
                self._say(run)
            elif live.state is State.STARTING:
                self.launch([LaunchOrder(attempt=live.attempt, spec=live.spec, owner=live.owner)])
            elif live.state is State.RUNNING:
                fact = AttemptLost(attempt=live.attempt.id, at=_now(), evidence="spool_gone")
                self._facts.put_nowait(fact)
            if run is not None and live.state is not State.STOPPING:
                self._limit(run, live.spec.time_limit_s)
            if live.state is State.STOPPING:
                cause = live.stop_cause or "cancel"
                self.stop([StopOrder(attempt=live.attempt, cause=cause, grace_s=0)])

    def recall(self, above: Mapping[str, int]) -> frozenset[str]:
        self._to_recall = set(self.nodes)
        return frozenset(self.nodes)

    def launch(self, orders: Sequence[LaunchOrder]) -> None:
        for order in orders:
            self._launch(order)

    def stop(self, orders: Sequence[StopOrder]) -> None:
        for order in orders:
            run = self.runs.get(order.attempt.id)
            requeue = order.cause == "requeue"
            if run is None:
                self._stopped_early.add(order.attempt.id)
                self._say_ended(order.attempt, _stopped("revoked"), None, requeue)
            elif run.end is None:
                run.requeue = requeue
                self._end(run, _stopped(order.cause))

    def extend(self, orders: Sequence[ExtendOrder]) -> None:
        for order in orders:
            run = self.runs.get(order.attempt.id)
            if run is not None and run.end is None:
                self._limit(run, order.time_limit_s)

    def forget(self, node: str, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self.runs.pop(attempt.id, None)

    async def read_log(
        self, attempt: Attempt, rank: int, stream: str, offset: int, limit: int
    ) -> LogChunk:
        if attempt.allocation.node in self.lost:
            raise EngineUnreachable(node=attempt.allocation.node)
        run = self.runs.get(attempt.id)
        if run is None:
            raise UnknownLog("log_missing")
        output = run.behaviour.output
        return LogChunk(offset, output[offset : offset + limit], len(output))

    async def call(
        self, node: str, account: str, verb: str, args: Mapping[str, str]
    ) -> Mapping[str, Any]:
        if node in self.lost or node not in self.nodes:
            raise EngineUnreachable(node=node)
        if verb not in self.verbs:
            raise EngineRefused(why="unknown_verb")
        self.calls.append((node, account, verb, args))
        return await self.verbs[verb](args)

    # ---- the script

    def finish(self, attempt: str, code: int = 0) -> None:
        """End an attempt that runs until told."""
        run = self.runs[attempt]
        if run.end is None:
            self._end(run, _exited(code))

    def lose(self, node: str) -> None:
        """The node goes out of reach; what it runs goes on."""
        self.lost.add(node)
        self._facts.put_nowait(NodeDown(node=node, at=_now(), why="lost by the script"))

    def find(self, node: str) -> None:
        """The node is back and says what it has seen meanwhile."""
        self.lost.discard(node)
        self._say_up(node)
        for run in list(self.runs.values()):
            if run.attempt.allocation.node == node:
                self._say(run)

    # ---- inside

    def _launch(self, order: LaunchOrder) -> None:
        id = order.attempt.id
        if id in self.runs or id in self._stopped_early:
            return
        behaviour = self.behave(order)
        if not behaviour.begins:
            self._facts.put_nowait(AttemptNeverRan(attempt=id))
            return
        run = _Run(order.attempt, behaviour, started_at=_now())
        self.runs[id] = run
        self.launches.append(id)
        self._say(run)
        if run.behaviour.run_for_s is not None:
            asyncio.get_running_loop().call_later(run.behaviour.run_for_s, self._time_over, id)
        self._limit(run, order.spec.time_limit_s)

    def _limit(self, run: _Run, limit_s: int | None) -> None:
        """Its limit, counted from its start."""
        if run.alarm is not None:
            run.alarm.cancel()
        run.limit_s, run.alarm = limit_s, None
        if limit_s is not None and run.end is None and run.started_at is not None:
            left = limit_s - (_now() - run.started_at).total_seconds()
            run.alarm = asyncio.get_running_loop().call_later(left, self._at_limit, run)

    def _at_limit(self, run: _Run) -> None:
        if run.end is None:
            self._end(run, _stopped("limit"))

    def _time_over(self, id: str) -> None:
        run = self.runs.get(id)
        if run is not None and run.end is None:
            does = run.behaviour
            self._end(run, _exited(does.code, does.reason, does.detail))

    def _end(self, run: _Run, end: End) -> None:
        run.end = end
        if run.alarm is not None:
            run.alarm.cancel()
        self._say(run)

    def _say(self, run: _Run) -> None:
        if run.attempt.allocation.node in self.lost:
            return
        if run.end is not None:
            self._say_ended(run.attempt, run.end, run.started_at, run.requeue)
        elif run.started_at is not None:
            self._facts.put_nowait(AttemptStarted(attempt=run.attempt.id, at=run.started_at))

    def _say_ended(
        self, attempt: Attempt, end: End, started_at: datetime | None, requeue: bool
    ) -> None:
        fact = AttemptEnded(
            attempt=attempt.id, at=_now(), end=end, started_at=started_at, requeue=requeue
        )
        self._facts.put_nowait(fact)

    def _say_up(self, name: str) -> None:
        incarnation = Incarnation("fake-boot", "fake-spool")
        self._facts.put_nowait(NodeUp(node=self.nodes[name], incarnation=incarnation, highest=0))
        if name in self._to_recall:
            self._to_recall.discard(name)
            recalled = NodeRecalled(
                node=name,
                incarnation=incarnation,
                parts=tuple(self.past),
                unexplained=self.unexplained,
            )
            self._facts.put_nowait(recalled)


async def _any_environment(args: Mapping[str, str]) -> dict[str, Any]:
    return {"code": "", "prefix": args["environment"], "kind": "conda", "python": "3.12.0"}


def _now() -> datetime:
    return datetime.now(UTC)


def _exited(code: int, reason: str = "", detail: str = "") -> End:
    return end_from_exit(cause="exit", code=code, signal=None, reason=reason, detail=detail)


def _stopped(cause: str) -> End:
    return end_from_exit(cause=cause, code=None, signal=None, reason="", detail="")
