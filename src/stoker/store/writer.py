"""One thread writes. Calls that meet are one transaction: a group commit.

A call resolves after the commit that contains it. A guard that fails (or any other error of a
call's own) harms no neighbour: one try as a group, then one by one; so `work` may run again and
must depend on nothing but its arguments. A disk that refuses fails the whole group, closes the
connection and is never retried behind the caller's back; the next call opens a new one. A database
elsewhere may have committed and lost only its answer: the next connection asks what became of it,
and whether the records are still ours; if they went on without us, nothing is written any more.
A cancelled call either records nothing and raises, or has begun and returns as if it had not been
cancelled; the cancellation then strikes at the caller's next await.
Callers are told in the order of their commits: what was recorded later is known later.
What nobody waits for is done `meanwhile`, in steps, each a transaction of its own between the
groups of those who wait.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import sqlalchemy as sa

from stoker.domain.errors import StoreDown, StoreError, StoreOutdated

from . import postgres
from .database import LogFolding, as_down, begin_of, is_down
from .statements import Cursor

log = logging.getLogger("stoker.store")

MOST_IN_GROUP = 256

Work = Callable[[Cursor, list[Any]], Sequence[Any]]
"""Gets the arguments of all calls that met, in order; gives as many results."""

Step = Callable[[Cursor], bool]
"""True: there is more to do."""


Guard = Callable[[str | None], None]
"""Whether we may still write: asked at each new connection, with the number of the transaction whose
commit was not answered, if there is one. Raises StoreOutdated when we may not."""


class WriterLike(Protocol):
    """What the store needs of a writer."""

    failing: str

    async def do(self, work: Work, argument: Any) -> Any: ...

    def close(self) -> None: ...


class Writer:
    """Everything that changes records passes here."""

    def __init__(
        self, engine: sa.Engine, step: Step | None = None, guard: Guard = lambda _number: None
    ) -> None:
        """With something to do `meanwhile` from the start."""
        self._prepare(engine, step, guard)
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def _prepare(self, engine: sa.Engine, step: Step | None, guard: Guard) -> None:
        self.failing = ""
        """Why the last transaction could not be committed; "" once one has gone well."""
        self._engine = engine
        self._driver = engine.dialect.loaded_dbapi
        self._begin = begin_of(engine)
        self._folding = LogFolding(engine)
        self._connection: sa.PoolProxiedConnection | None = None
        self._cursor: Cursor | None = None
        self._inbox: SimpleQueue[_Call | None] = SimpleQueue()
        self._closed = False
        self._step = step
        self._guard = guard
        self._is_remote = engine.dialect.name == "postgresql"
        self._unanswered: str | None = None
        self._outdated: StoreOutdated | None = None

    async def do(self, work: Work, argument: Any) -> Any:
        """The result of `work` for `argument`, once it is durable."""
        if self._closed:
            raise StoreDown(why="closed")
        call = _Call(work, argument, asyncio.get_running_loop())
        self._inbox.put(call)
        try:
            await call.settled
        except asyncio.CancelledError:
            if call.claim():  # the writer has not seen it, and never will
                raise
            await call.outlast_cancellation()
        if isinstance(call.outcome, BaseException):
            raise call.outcome
        return call.outcome

    def meanwhile(self, step: Step) -> None:
        """Take this step again and again while no call waits, until it says that it was the last.

        Only for work, in the writer's own thread. An end before that is no harm to the records: a
        step that did not commit has not been. While the disk refuses, no step is taken.
        """
        self._step = step

    def close(self) -> None:
        """Finish what was asked, then let go of the database. May be called twice."""
        if not self._closed:
            self._closed = True
            self._inbox.put(None)
            self._thread.join()

    # ---- the thread

    def _run(self) -> None:
        last = False
        while not last:
            if self._step is not None and not self.failing and self._inbox.empty():
                self._go_on(self._step)
                continue
            group, last = self._next_group()
            if group:
                _tell(group, self._transact(group))
                self._fold()
            elif self._is_remote and not last:
                self._transact([_Unasked(lambda _cursor: False)])  # is our session still there?
        self._disconnect(broken=False)

    def _go_on(self, step: Step) -> None:
        (more,) = self._transact([_Unasked(step)])
        if isinstance(more, BaseException) and not self.failing:
            log.error("event=step_failed", exc_info=more)
        if more is not True and not self.failing:
            self._step = None
        self._fold()

    def _fold(self) -> None:
        if self._connection is not None:
            self._folding.after_commit(self._connection)

    def _next_group(self) -> tuple[list[_Call], bool]:
        """What waits, without what was cancelled; and whether that was all for ever."""
        group: list[_Call] = []
        try:
            call = self._inbox.get(timeout=self._pulse_s())
        except Empty:
            return group, False
        while call is not None:
            if call.claim():
                group.append(call)
            if len(group) == MOST_IN_GROUP:
                return group, False
            try:
                call = self._inbox.get_nowait()
            except Empty:
                return group, False
        return group, True

    def _pulse_s(self) -> float | None:
        """How long to wait for a call before looking whether our session is still there."""
        if not self._is_remote or self._outdated is not None:
            return None
        return min(1.0, postgres.PULSE_S) if self.failing else postgres.PULSE_S

    def _transact(self, group: list[_Call]) -> list[Any]:
        """One outcome for each call of the group: its result, or its error."""
        if self._outdated is not None:
            return [as_down(self._engine.dialect, self._outdated) for _ in group]
        try:
            cursor = self._cursor or self._connect()
            cursor.execute(self._begin)
            outcomes = _perform(cursor, group)
            number = self._number(cursor)
        except Exception as error:
            if is_down(self._engine.dialect, error) or not self._rolled_back():
                return self._give_up(group, error)
            if len(group) == 1:
                return [error]
            return [self._transact([call])[0] for call in group]
        try:
            cursor.execute("COMMIT")
        except Exception as error:
            self._unanswered = number
            return self._give_up(group, error)
        if self.failing:
            log.warning("event=store_up")
            self.failing = ""
        return outcomes

    def _connect(self) -> Cursor:
        try:
            connection = self._engine.raw_connection()
        except StoreError as error:
            if error.code != "already_served":
                raise
            self._guard(None)  # another server, or what is left of our own last session
            raise StoreDown(
                "database_down", why=f"its lock is held by {error.values['pid']}"
            ) from error
        try:
            self._guard(self._unanswered)
        except BaseException:
            connection.invalidate()
            raise
        self._unanswered = None
        self._connection = connection
        self._cursor = cursor = connection.cursor()
        return cursor

    def _number(self, cursor: Cursor) -> str | None:
        """Of this transaction, by which one can ask later what became of it."""
        if not self._is_remote:
            return None
        cursor.execute(postgres.NUMBER)
        number: str | None = cursor.fetchone()[0]
        return number

    def _disconnect(self, *, broken: bool) -> None:
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is None:
            return
        try:
            if broken:
                connection.invalidate()
            else:
                connection.close()
        except self._driver.Error:
            log.warning("event=close_failed", exc_info=True)

    def _rolled_back(self) -> bool:
        try:
            if self._cursor is not None:
                self._cursor.execute("ROLLBACK")
        except self._driver.Error:
            return False
        return True

    def _give_up(self, group: list[_Call], error: Exception) -> list[Any]:
        """Nothing of this group is recorded. Never try again and pretend."""
        self._disconnect(broken=True)
        down = as_down(self._engine.dialect, error)
        why = str(down.values.get("why", down.code))
        if isinstance(error, StoreOutdated):
            self._outdated = error
            log.critical("event=outdated why=%r", why)
        elif why != self.failing:  # said once: a full disk must not fill the log too
            log.error("event=store_down why=%r", why)
        self.failing = why
        return [as_down(self._engine.dialect, error) for _ in group]


class _Call:
    """One call on its way to the writer and back."""

    __slots__ = ("_token", "argument", "loop", "outcome", "settled", "work")

    def __init__(self, work: Work, argument: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.work, self.argument, self.loop = work, argument, loop
        self.settled: asyncio.Future[None] = loop.create_future()
        self.outcome: Any = _PENDING
        self._token = [True]

    def claim(self) -> bool:
        """True for one of the two threads, once: the writer begins it, or the caller drops it."""
        try:
            return self._token.pop()  # atomic
        except IndexError:
            return False

    async def outlast_cancellation(self) -> None:
        """Wait for the outcome of a call that has begun, then pass the cancellation on."""
        while self.outcome is _PENDING:
            self.settled = self.loop.create_future()
            with suppress(asyncio.CancelledError):  # however often it is asked for
                await self.settled
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()  # asked for as often as before: a timeout counts
            task.cancel()


class _Unasked(_Call):
    """A step on its way: nobody waits for it."""

    __slots__ = ()

    def __init__(self, step: Step) -> None:
        self.work = lambda cursor, _: [step(cursor)]
        self.argument = None


_PENDING = object()


def _perform(cursor: Cursor, group: list[_Call]) -> list[Any]:
    outcomes: list[Any] = []
    for work, calls in groupby(group, key=lambda call: call.work):
        outcomes += work(cursor, [call.argument for call in calls])
    assert len(outcomes) == len(group), "work gives one result for each argument"
    return outcomes


def _tell(group: list[_Call], outcomes: list[Any]) -> None:
    """Wake the callers: one hand-over for all of a group."""
    for loop, pairs in groupby(zip(group, outcomes, strict=True), key=lambda pair: pair[0].loop):
        try:
            loop.call_soon_threadsafe(_settle, list(pairs))
        except RuntimeError:  # that loop is closed: nobody waits
            log.warning("event=nobody_waits")


def _settle(pairs: list[tuple[_Call, Any]]) -> None:
    for call, outcome in pairs:
        call.outcome = outcome
        if not call.settled.done():
            call.settled.set_result(None)
