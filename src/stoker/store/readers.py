"""What the API reads. Synchronous and quick: called from the event loop or any thread.

Each answer is of one committed state. Values come ready for the wire: ids as text, instants as
datetimes, specs and event bodies as raw JSON that is passed on without being decoded. Nothing here
can write.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Raw

from stoker.domain.attempt import Attempt
from stoker.domain.event import Deleted
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task

from .codec import Row, attempt_of_row, encode, from_us, shown, why
from .finished import Finished
from .paging import FEW, Paging, Query, cursor_after
from .reading import ReadPool
from .statements import Cursor, Reads

ListedRow = tuple[str, str | None, str]
"""A task for a list, as texts that are passed on as they are: JSON of everything but its spec and
the sentence about its end; JSON of what that sentence is made of; JSON of its spec."""


def listed_row(task: Task) -> ListedRow:
    """The row that a task has, or is about to have."""
    return shown(task), why(task), encode(task.spec)


class EventRow(NamedTuple):
    seq: int
    task: str
    event: str
    at: datetime
    values: Raw
    """The event's own fields, but never the spec."""
    owner: str = ""
    """Whose task it is, where that was asked for; "" when nobody knows any more."""


class Readers:
    def __init__(self, pool: ReadPool) -> None:
        self._pool = pool
        self._sql = Reads.on(pool.dialect)
        self._paging = Paging(pool.dialect)
        self.finished = Finished(pool)
        """Those that have ended, by their end; for exports."""
        self.identity = str(pool.fetch(self._sql.meta.sql, ("database",))[0][0])
        """Which records these are: sequence numbers of others mean nothing here."""

    def page(self, query: Query) -> tuple[list[ListedRow], str | None]:
        """One page and the cursor of the next; None at the end. InvalidSpec for a bad cursor."""
        probe = self._paging.probe(query)
        few = probe is None or self._pool.fetch(probe)[0][0] <= FEW
        rows = self._pool.fetch(*self._paging.statement(query, few=few))
        if len(rows) <= query.limit:
            return [row[2:5] for row in rows], None
        del rows[query.limit :]
        return [row[2:5] for row in rows], cursor_after(query, rows[-1])

    def detail(self, key: TaskKey) -> tuple[ListedRow, list[Attempt], list[EventRow]] | None:
        """A task with its attempts and events, all of one moment."""
        with self._pool.snapshot() as cursor:
            rows = cursor.execute(self._sql.listed_task.sql, tuple(key)).fetchall()
            if not rows:
                return None
            return rows[0][2:5], self._attempts(cursor, key), self._events(cursor, key)

    def attempts_of(self, key: TaskKey) -> list[Attempt]:
        with self._pool.snapshot() as cursor:
            return self._attempts(cursor, key)

    def events_of(self, key: TaskKey) -> list[EventRow]:
        with self._pool.snapshot() as cursor:
            return self._events(cursor, key)

    def events_after(self, seq: int, limit: int) -> list[EventRow]:
        """Events with a higher number, oldest first."""
        return [_event(row) for row in self._pool.fetch(self._sql.events_after.sql, (seq, limit))]

    def owned_events_after(self, seq: int, limit: int) -> list[EventRow]:
        """The same, with whose they are; of a deleted task `Deleted` itself says it."""
        rows = self._pool.fetch(self._sql.owned_after.sql, (seq, limit))
        return [_event(row[:-1])._replace(owner=row[-1] or _last_owner(row)) for row in rows]

    def first_seq(self) -> int:
        """The oldest event there is; 0 = there is none."""
        return self._pool.fetch(self._sql.first_seq.sql)[0][0] or 0

    def last_seq(self) -> int:
        return self._pool.fetch(self._sql.last_seq.sql)[0][0] or 0

    def counts(self) -> dict[State, int]:
        """How many tasks are in each state; an array is one."""
        found: dict[str, int] = dict(self._pool.fetch(self._sql.counts.sql))
        return {state: found.get(str(state), 0) for state in State}

    def _attempts(self, cursor: Cursor, key: TaskKey) -> list[Attempt]:
        rows = cursor.execute(self._sql.attempts_of.sql, tuple(key)).fetchall()
        return [attempt_of_row(row) for row in rows]

    def _events(self, cursor: Cursor, key: TaskKey) -> list[EventRow]:
        rows = cursor.execute(self._sql.told_of.sql, tuple(key)).fetchall()
        return [_event(row) for row in rows]


def _last_owner(row: Row) -> str:
    """Of a task that has no row any more."""
    kind, body = row[5:7]
    return str(msgspec.json.decode(body).get("owner", "")) if kind == Deleted.__name__ else ""


def _event(row: Row) -> EventRow:
    seq, task_id, element, _version, at_us, kind, body = row
    return EventRow(seq, str(TaskKey(task_id, element)), kind, from_us(at_us), Raw(body))
