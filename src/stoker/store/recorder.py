"""The records as flow uses them: `base.Store` on a database.

Writes go through the one writer; reads use the readers' connections, so they see what is committed
and never wait for a write. Ids and sequence numbers are counted here: the lock on the database
makes this process the only one that gives them out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa

from stoker.domain.attempt import Attempt
from stoker.domain.errors import StaleWrite, StoreDown
from stoker.domain.event import Event
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.node import Incarnation
from stoker.domain.task import TaskSpec

from .base import Change, WaitingRow
from .checks import check
from .codec import TASK_WIDTH, Row, attempt_of_row, decode_spec, event_of, task_of_row
from .database import ServerLock, as_url, keep_private, open_engine, refuse_network_disk
from .migrate import migrate
from .readers import Readers
from .reading import ReadPool
from .recording import write_changes
from .statements import Cursor, Reads, Statement, Writes
from .writer import Writer


def open_store(path_or_url: str | os.PathLike[str]) -> SqlStore:
    """Lock, migrate and open the records. Raises StoreError when they cannot be served."""
    url = as_url(path_or_url)
    engine = open_engine(url)
    path = Path(url.database or "")
    refuse_network_disk(path)
    lock = ServerLock(path.with_name(path.name + ".lock"))
    try:
        keep_private(path)
        migrate(engine)
        return SqlStore(engine, open_engine(url, readonly=True), lock)
    except BaseException as error:
        lock.release()
        if isinstance(error, sa.exc.DBAPIError):
            raise StoreDown(why=str(error.orig)) from error
        raise


class SqlStore:
    """Meets `base.Store`."""

    def __init__(self, engine: sa.Engine, readonly: sa.Engine, lock: ServerLock) -> None:
        self._lock = lock
        self._driver = engine.dialect.loaded_dbapi
        self._writes = Writes.on(engine.dialect)
        self._reads = Reads.on(engine.dialect)
        self._pool = ReadPool(readonly)
        self.readers = Readers(self._pool)
        self._next_id = self._one(self._reads.last_id) + 1
        self._last_seq = self._one(self._reads.last_seq)
        self._writer = Writer(engine)

    @property
    def failing(self) -> str:
        """Why the disk refuses; "" = it does not."""
        return self._writer.failing

    def close(self) -> None:
        """Finish what was asked, then let another server have the records. May be repeated."""
        if self._lock.held:
            self._writer.close()
            self._pool.close()
            self._lock.release()

    # ---- writing

    def next_ids(self, count: int) -> range:
        first = self._next_id
        self._next_id += count
        return range(first, self._next_id)

    async def record(self, changes: Sequence[Change]) -> int:
        return int(await self._writer.do(self._record, changes))

    async def renumber(
        self, attempt: str, before: int, after: int, incarnation: Incarnation
    ) -> None:
        row = (incarnation.boot_id, incarnation.spool_id, after, attempt, before)
        await self._writer.do(self._renumber, row)

    async def raise_epoch(self) -> int:
        return int(await self._writer.do(self._raise_epoch, None))

    # ---- reading

    async def highest_launch_number(self, node: str) -> int:
        return self._one(self._reads.highest_launch, node)

    async def task(self, key: TaskKey) -> Task | None:
        rows = self._pool.fetch(self._reads.task.sql, tuple(key))
        return _task(rows[0]) if rows else None

    async def tasks(self, keys: Sequence[TaskKey]) -> list[Task]:
        sql = self._reads.task.sql
        with self._pool.snapshot() as cursor:
            rows = [row for key in keys for row in cursor.execute(sql, tuple(key)).fetchall()]
        return [_task(row) for row in rows]

    async def waiting(self) -> list[WaitingRow]:
        return await asyncio.to_thread(self._waiting)

    async def live(self) -> list[tuple[Task, Attempt]]:
        return await asyncio.to_thread(self._live)

    async def attempt(self, id: str) -> Attempt | None:
        rows = self._pool.fetch(self._reads.attempt.sql, (id,))
        return attempt_of_row(rows[0]) if rows else None

    async def history(self, key: TaskKey) -> list[Event]:
        rows = self._pool.fetch(self._reads.events_of.sql, tuple(key))
        return [event_of(kind, at, body, spec) for *_, at, kind, body, spec in rows]

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

    # ---- in any thread

    def _one(self, statement: Statement, *parameters: object) -> int:
        return self._pool.fetch(statement.sql, parameters)[0][0] or 0

    def _waiting(self) -> list[WaitingRow]:
        specs: dict[str, TaskSpec] = {}  # tasks of one batch are much alike
        rows: list[WaitingRow] = []
        for id, element, owner, state, position, version, raw in self._pool.fetch(
            self._reads.waiting.sql
        ):
            spec = specs.get(raw)
            if spec is None:
                spec = specs[raw] = decode_spec(raw)
            key = TaskKey(id, element)
            rows.append(WaitingRow(key, owner, State(state), position, version, spec))
        return rows

    def _live(self) -> list[tuple[Task, Attempt]]:
        rows = self._pool.fetch(self._reads.live.sql)
        return [(_task(row[:TASK_WIDTH]), attempt_of_row(row[TASK_WIDTH:])) for row in rows]


def _task(row: Row) -> Task:
    return task_of_row(row[:-1], decode_spec(row[-1]))
