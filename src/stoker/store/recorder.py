"""The records as flow uses them: `base.Store` on a database.

Writes go through the one writer; reads use the readers' connections, so they see what is committed
and never wait for a write. Ids and sequence numbers are counted here: the lock on the database
makes this process the only one that gives them out.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import NoReturn, TypeVar

import sqlalchemy as sa

from stoker.domain.attempt import Attempt
from stoker.domain.errors import StaleWrite, StoreDown, StoreOutdated
from stoker.domain.event import Deleted, Event
from stoker.domain.indices import Indices
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.node import Incarnation
from stoker.domain.task import TaskSpec

from . import postgres
from .base import Act, Amendment, ArrayRow, Audited, Chain, Change, Entry, TrailRow, WaitingRow
from .checks import check
from .codec import (
    TASK_WIDTH,
    Row,
    attempt_of_row,
    decode_spec,
    event_of,
    from_us,
    from_us_or_none,
    task_of_row,
    to_us,
)
from .database import ServerLock, as_url, keep_private, open_engine, refuse_network_disk
from .erasing import erase
from .finished import OLDEST, Place
from .lab import LabRecords
from .migrate import migrate
from .readers import Readers
from .reading import ReadPool
from .recording import write_changes
from .statements import Cursor, Reads, Statement, Writes
from .sweeping import SWEEP, sweep
from .writer import Writer, WriterLike

MakeWriter = Callable[[sa.Engine], WriterLike]
_T = TypeVar("_T")


def open_store(
    path_or_url: str | os.PathLike[str],
    writer: MakeWriter | None = None,
    *,
    lock: Path | None = None,
    wait: bool = False,
) -> SqlStore:
    """Lock, migrate and open the records. Raises StoreError when they cannot be served.

    `lock`: a file that one server holds, beside the lock of the database itself; for SQLite that is
    `<database>.lock`, and need not be named. `wait`: until another server lets go, not refusing.
    """
    url = as_url(path_or_url)
    engine = open_engine(url, keep=True)
    path = Path(url.database or "") if engine.dialect.name == "sqlite" else None
    if path is not None:
        refuse_network_disk(path)
        lock = path.with_name(path.name + ".lock")
    with ExitStack() as undo:
        if lock is not None:
            undo.callback(ServerLock(lock, wait=wait).close)
        undo.callback(engine.dispose)
        try:
            if path is not None:
                keep_private(path)
            else:
                postgres.take_lock(engine, wait=wait)
            migrate(engine, copy_beside=None if lock is None else lock.with_suffix(""))
            made = None if writer is None else writer(engine)
            store = SqlStore(engine, open_engine(url, readonly=True), made)
        except (sa.exc.DBAPIError, engine.dialect.loaded_dbapi.Error) as error:
            if path is not None:
                raise StoreDown(why=str(getattr(error, "orig", error))) from error
            raise postgres.refusal(url, error) from None
        store.when_closed(undo.pop_all().close)
    return store


class SqlStore:
    """Meets `base.Store`. With a writer of the caller's own, nothing here uses a thread."""

    def __init__(
        self,
        engine: sa.Engine,
        readonly: sa.Engine,
        writer: WriterLike | None = None,
    ) -> None:
        self._is_open = True
        self._when_closed: Callable[[], None] = lambda: None
        self._when_outdated: Callable[[], None] = lambda: None
        self._epoch: int | None = None
        self._driver = engine.dialect.loaded_dbapi
        self._writes = Writes.on(engine.dialect)
        self._reads = Reads.on(engine.dialect)
        self._pool = ReadPool(readonly)
        self._lab = LabRecords(self._pool)
        self.readers = Readers(self._pool)
        last_ids = (self._one(self._reads.last_id), self._one(self._reads.last_told_id))
        self._next_id = max(last_ids) + 1
        self._last_seq = self._one(self._reads.last_seq)
        self._own: Writer | None = None
        if writer is None:
            step = self._sweep if self._is_to_sweep() else None
            writer = self._own = Writer(engine, step, self._guard)
        self._writer: WriterLike = writer

    @property
    def failing(self) -> str:
        """Why the disk refuses; "" = it does not."""
        return self._writer.failing

    def close(self) -> None:
        """Finish what was asked, then let another server have the records. May be repeated."""
        if self._is_open:
            self._is_open = False
            self._writer.close()
            self._pool.close()
            self._when_closed()

    def when_closed(self, let_go: Callable[[], None]) -> None:
        """What lets another server have the records."""
        self._when_closed = let_go

    def when_outdated(self, tell: Callable[[], None]) -> None:
        """Call this, in the writer's thread, once the records have gone on without us."""
        self._when_outdated = tell

    # ---- writing

    def next_ids(self, count: int) -> range:
        first = self._next_id
        self._next_id += count
        return range(first, self._next_id)

    async def record(self, changes: Sequence[Change]) -> int:
        return int(await self._writer.do(self._record, changes))

    async def erase(self, tasks: Sequence[Task], deleted: Deleted) -> int:
        seq = int(await self._writer.do(self._erase, (tasks, deleted)))
        await self._sweep_here()
        return seq

    async def remember(self, name: str, value: str) -> None:
        await self._writer.do(self._remember, (value, f"kept.{name}"))

    async def renumber(
        self, attempt: str, before: int, after: int, incarnation: Incarnation
    ) -> None:
        row = (incarnation.boot_id, incarnation.spool_id, after, attempt, before)
        await self._writer.do(self._renumber, row)

    async def raise_epoch(self) -> int:
        self._epoch = epoch = int(await self._writer.do(self._raise_epoch, None))
        await self._sweep_here()
        return epoch

    async def amend(self, amendments: Sequence[Amendment], acts: Sequence[Act]) -> None:
        await self._writer.do(self._amend, (amendments, acts))

    # ---- reading

    async def entries(self) -> list[Entry]:
        return self._lab.entries()

    async def secret(self, kind: str, name: str) -> str | None:
        return self._lab.secret(kind, name)

    async def audited(
        self, before: int | None, limit: int, *, who: str = "", act: str = ""
    ) -> list[Audited]:
        return await self._aside(lambda: self._lab.audited(before, limit, who, act))

    async def trail(self, after: int, limit: int) -> list[TrailRow]:
        return await self._aside(lambda: self._lab.trail(after, limit))

    async def verify_audit(self, noted: str = "") -> Chain:
        return await self._aside(lambda: self._lab.verify(noted))

    async def highest_launch_number(self, node: str) -> int:
        return self._one(self._reads.highest_launch, node)

    async def recall(self, name: str) -> str | None:
        rows = self._pool.fetch(self._reads.meta.sql, (f"kept.{name}",))
        return str(rows[0][0]) if rows else None

    async def task(self, key: TaskKey) -> Task | None:
        rows = self._pool.fetch(self._reads.task.sql, tuple(key))
        return _task(rows[0]) if rows else None

    async def tasks(self, keys: Sequence[TaskKey]) -> list[Task]:
        sql = self._reads.task.sql
        with self._pool.snapshot() as cursor:
            rows = [row for key in keys for row in cursor.execute(sql, tuple(key)).fetchall()]
        return [_task(row) for row in rows]

    async def waiting(self) -> list[WaitingRow]:
        return await self._aside(self._waiting)

    async def live(self) -> list[tuple[Task, Attempt]]:
        return await self._aside(self._live)

    async def arrays(self) -> list[ArrayRow]:
        return await self._aside(self._arrays)

    async def ended(self, id: int, outcomes: Collection[str]) -> Indices:
        return await self._aside(lambda: self._ended(id, outcomes))

    async def outcomes(self, keys: Sequence[TaskKey]) -> dict[TaskKey, str | None]:
        return await self._aside(lambda: self._outcomes(keys))

    async def attempt(self, id: str) -> Attempt | None:
        rows = self._pool.fetch(self._reads.attempt.sql, (id,))
        return attempt_of_row(rows[0]) if rows else None

    async def outlived(
        self, before: datetime | None, beyond: int | None, after: Task | None, limit: int
    ) -> list[Task]:
        begin = OLDEST
        if after is not None and after.finished_at is not None:
            begin = Place(to_us(after.finished_at), after.id)
        cut = None if before is None else to_us(before)
        find = self.readers.finished.outlived
        return await self.tasks(await self._aside(lambda: find(cut, beyond, begin, limit)))

    async def absent(self, attempts: Sequence[str]) -> list[str]:
        return await self._aside(lambda: self._absent(attempts))

    async def attempts_of(self, keys: Sequence[TaskKey]) -> list[str]:
        return await self._aside(lambda: self._attempts_of(keys))

    async def history(self, key: TaskKey) -> list[Event]:
        rows = self._pool.fetch(self._reads.events_of.sql, tuple(key))
        return [event_of(kind, at, body, spec) for *_, at, kind, body, spec, _of in rows]

    def check(self) -> list[str]:
        return check(self._pool)

    # ---- in the writer's thread

    def _record(self, cursor: Cursor, calls: list[Sequence[Change]]) -> list[int]:
        try:
            after = write_changes(cursor, self._writes, calls, self._last_seq)
        except self._driver.IntegrityError as error:
            raise StaleWrite(why=str(error)) from error
        self._last_seq = after[-1]  # also when this is rolled back: a gap is harmless
        return after

    def _erase(self, cursor: Cursor, calls: list[tuple[Sequence[Task], Deleted]]) -> list[int]:
        after: list[int] = []
        for tasks, deleted in calls:
            self._last_seq = erase(cursor, self._writes, tasks, deleted, self._last_seq)
            after.append(self._last_seq)
        if self._own is not None:
            self._own.meanwhile(self._sweep)
        return after

    def _sweep(self, cursor: Cursor) -> bool:
        return sweep(cursor, self._writes)

    def _sweep_asked(self, cursor: Cursor, calls: list[None]) -> list[bool]:
        return [self._sweep(cursor) for _ in calls]

    def _remember(self, cursor: Cursor, rows: list[Row]) -> list[None]:
        for value, name in rows:
            cursor.execute(self._writes.set_meta.sql, (value, name))
            if cursor.rowcount == 0:
                cursor.execute(self._writes.new_meta.sql, (name, value))
        return [None] * len(rows)

    def _amend(
        self, cursor: Cursor, calls: list[tuple[Sequence[Amendment], Sequence[Act]]]
    ) -> list[None]:
        for amendments, acts in calls:
            self._lab.write(cursor, amendments, acts)
        return [None] * len(calls)

    def _renumber(self, cursor: Cursor, rows: list[Row]) -> list[None]:
        for row in rows:
            cursor.execute(self._writes.renumber.sql, row)
            if cursor.rowcount != 1:
                raise StaleWrite
        return [None] * len(rows)

    def _raise_epoch(self, cursor: Cursor, calls: list[None]) -> list[int]:
        cursor.execute(self._reads.meta.sql, ("epoch",))
        epoch = int(cursor.fetchone()[0])
        cursor.execute(self._writes.set_meta.sql, (str(epoch + len(calls)), "epoch"))
        return list(range(epoch + 1, epoch + len(calls) + 1))

    def _guard(self, number: str | None) -> None:
        """At each new connection: are these still the records that our memory mirrors?"""
        found = self._pool.fetch(self._reads.meta.sql, ("epoch",))
        if self._epoch is not None and int(found[0][0]) != self._epoch:
            self._end(f"epoch {found[0][0]} of another server follows our {self._epoch}")
        if number is None:
            return
        fate = self._pool.fetch(postgres.FATE, (number,))[0][0]
        if fate == "committed":
            self._end("a commit was not answered, but was recorded: start again")
        if fate == "in progress":
            raise StoreDown("database_down", why="the last commit is still in progress")

    def _end(self, why: str) -> NoReturn:
        self._when_outdated()
        raise StoreOutdated(why=why)

    # ---- in any thread

    def _one(self, statement: Statement, *parameters: object) -> int:
        return self._pool.fetch(statement.sql, parameters)[0][0] or 0

    async def _aside(self, read: Callable[[], _T]) -> _T:
        """What may take long, beside the event loop."""
        return read() if self._own is None else await asyncio.to_thread(read)

    def _is_to_sweep(self) -> bool:
        return bool(self._pool.fetch(self._reads.meta.sql, (SWEEP,)))

    async def _sweep_here(self) -> None:
        """Our own writer sweeps by itself; another one is asked, step by step."""
        if self._own is None and self._is_to_sweep():
            with suppress(StoreDown):  # the next start goes on
                while await self._writer.do(self._sweep_asked, None):
                    pass

    def _waiting(self) -> list[WaitingRow]:
        specs: dict[str, TaskSpec] = {}  # tasks of one batch are much alike
        rows: list[WaitingRow] = []
        for (
            id, element, owner, state, position, version, submitted_us, not_before_us, anyway,
            attempts, never_ran, raw,
        ) in self._pool.fetch(self._reads.waiting.sql):  # fmt: skip
            spec = specs.get(raw)
            if spec is None:
                spec = specs[raw] = decode_spec(raw)
            row = WaitingRow(
                TaskKey(id, element),
                owner,
                State(state),
                position,
                version,
                spec,
                from_us(submitted_us),
                from_us_or_none(not_before_us),
                bool(anyway),
                attempts,
                never_ran,
            )
            rows.append(row)
        return rows

    def _live(self) -> list[tuple[Task, Attempt]]:
        rows = self._pool.fetch(self._reads.live.sql)
        return [(_task(row[:TASK_WIDTH]), attempt_of_row(row[TASK_WIDTH:])) for row in rows]

    def _arrays(self) -> list[ArrayRow]:
        with self._pool.snapshot() as cursor:
            ids = [id for (id,) in cursor.execute(self._reads.arrays.sql).fetchall()]
            return [self._array(cursor, id) for id in ids]

    def _array(self, cursor: Cursor, id: int) -> ArrayRow:
        runs: dict[int, tuple[int, int]] = {}
        states: Counter[State] = Counter()
        outcomes: Counter[str] = Counter()
        for run, state, outcome, first, last, count in cursor.execute(
            self._reads.element_runs.sql, (id,)
        ).fetchall():
            low, high = runs.get(run, (first, last))
            runs[run] = (min(low, first), max(high, last))
            states[State(state)] += count
            if outcome is not None:
                outcomes[outcome] += count
        return ArrayRow(id, Indices.of_ranges(runs.values()), dict(states), dict(outcomes))

    def _ended(self, id: int, outcomes: Collection[str]) -> Indices:
        with self._pool.snapshot() as cursor:
            if not cursor.execute(self._reads.outcome.sql, (id, PLAIN)).fetchone():
                return Indices()
            rows = cursor.execute(self._reads.ended_elements.sql, (id,)).fetchall()
        return Indices.only(*(element for element, outcome in rows if outcome in outcomes))

    def _outcomes(self, keys: Sequence[TaskKey]) -> dict[TaskKey, str | None]:
        found: dict[TaskKey, str | None] = {}
        with self._pool.snapshot() as cursor:
            for key in keys:
                row = cursor.execute(self._reads.outcome.sql, tuple(key)).fetchone()
                if row is not None:
                    found[key] = row[0]
        return found

    def _absent(self, attempts: Sequence[str]) -> list[str]:
        sql = self._reads.attempt.sql
        with self._pool.snapshot() as cursor:
            return [id for id in attempts if not cursor.execute(sql, (id,)).fetchone()]

    def _attempts_of(self, keys: Sequence[TaskKey]) -> list[str]:
        ids: list[str] = []
        with self._pool.snapshot() as cursor:
            for key in keys:
                if not cursor.execute(self._reads.outcome.sql, tuple(key)).fetchone():
                    continue
                if key.element == PLAIN:
                    rows = cursor.execute(self._reads.attempt_ids.sql, (key.id,)).fetchall()
                else:
                    rows = cursor.execute(self._reads.attempts_of.sql, tuple(key)).fetchall()
                ids += [row[0] for row in rows]
        return ids


def _task(row: Row) -> Task:
    return task_of_row(row[:-1], decode_spec(row[-1]))
