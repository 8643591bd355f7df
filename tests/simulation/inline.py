"""The store's one writer without its thread: the same transactions, at moments the seed draws.

A call waits in the inbox for a short virtual time, meets others there, is committed with them, and
its callers are told a moment later. In between, readers see what callers do not know yet: the gaps
in which a server may die. `refusing` is a disk that is full. `dead` is a server that was killed:
nothing is recorded from then on.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty
from random import Random
from typing import Any

import sqlalchemy as sa
from typing_extensions import override

from stoker.domain.errors import StoreDown
from stoker.store.writer import Writer, _Call, _tell

Committed = Callable[[str, Any], None]
"""Gets the name of the work and its argument, in the order of the commits."""
AtCommit = Callable[[str, Sequence[Any]], bool]
"""Gets `before` or `after`, and what was committed; True: the server is dead."""


class InlineWriter(Writer):
    """Meets the store's `Writer`. `at_commit` is asked to die before and after each commit."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        rng: Random,
        disk: tuple[float, ...],
        committed: Committed,
        asked: Callable[[str, Any], None],
        at_commit: AtCommit,
    ) -> None:
        self._prepare(engine, None, lambda _number: None)  # all of it but the thread
        self.refusing = False
        self.dead = False
        self._rng, self._disk = rng, disk
        self._committed, self._asked = committed, asked
        self._at_commit = at_commit
        self._inbox: Any = _Inbox(self._soon)
        self._waits = False
        self._untold: deque[tuple[list[_Call], list[Any]]] = deque()
        self._told_at = 0.0

    @override
    async def do(self, work: Any, argument: Any) -> Any:
        if self.dead:
            raise StoreDown(why="killed")
        self._asked(work.__name__, argument)
        return await super().do(work, argument)

    def has_been_idle(self, seconds: float) -> bool:
        """Nobody has been waiting for it for so long."""
        waits = self._untold or not self._inbox.is_empty()
        return not waits and asyncio.get_running_loop().time() - self._told_at > seconds

    @override
    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._disconnect(broken=False)

    def kill(self) -> None:
        """What was not committed never is; the callers learn nothing that counts."""
        self.dead = True
        for call in self._inbox.empty_out():
            call.claim()
            call.outcome = StoreDown(why="killed")
            if not call.settled.done():
                call.settled.set_result(None)
        self.close()

    def _soon(self) -> None:
        if not self._waits and not self.dead:
            self._waits = True
            loop = asyncio.get_running_loop()
            loop.call_later(self._rng.choice(self._disk), self._turn)

    def _turn(self) -> None:
        self._waits = False
        if self.dead or self._inbox.is_empty():
            return
        group, _last = self._next_group()
        if self._inbox.is_empty() is False:
            self._soon()
        if not group:
            return
        if self._at_commit("before", ()):
            _drop(group)
            return
        outcomes = self._transact(group)
        done = [call for call, outcome in zip(group, outcomes, strict=True) if _is_good(outcome)]
        for call in done:
            self._committed(call.work.__name__, call.argument)
        if self._at_commit("after", [call.argument for call in done]):
            _drop(group)
            return
        self._untold.append((group, outcomes))
        delay = self._rng.choice((0.0, 0.0002, 0.001, 0.01))
        asyncio.get_running_loop().call_later(delay, self._told)

    def _told(self) -> None:
        group, outcomes = self._untold.popleft()  # in the order of commits, whoever is slow
        self._told_at = asyncio.get_running_loop().time()
        if self.dead:
            _drop(group)
        else:
            _tell(group, outcomes)

    @override
    def _connect(self) -> Any:
        cursor = super()._connect()
        cursor.execute("PRAGMA synchronous = OFF")  # no power cuts here, and much faster
        return cursor

    @override
    def _transact(self, group: list[_Call]) -> list[Any]:
        if self.refusing:
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorname = "SQLITE_FULL"
            return self._give_up(group, full)
        return super()._transact(group)


class _Inbox:
    """What the writer's thread would wait on."""

    def __init__(self, arrived: Callable[[], None]) -> None:
        self._calls: deque[_Call] = deque()
        self._arrived = arrived

    def put(self, call: _Call) -> None:
        self._calls.append(call)
        self._arrived()

    def get(self, timeout: float | None = None) -> _Call:
        return self._calls.popleft()

    def get_nowait(self) -> _Call:
        if not self._calls:
            raise Empty
        return self._calls.popleft()

    def is_empty(self) -> bool:
        return not self._calls

    def empty_out(self) -> list[_Call]:
        calls = list(self._calls)
        self._calls.clear()
        return calls


def _is_good(outcome: Any) -> bool:
    return not isinstance(outcome, BaseException)


def _drop(group: list[_Call]) -> None:
    """Their server is dead: let the callers end, whatever they think."""
    for call in group:
        call.outcome = StoreDown(why="killed")
        if not call.settled.done():
            call.settled.set_result(None)
