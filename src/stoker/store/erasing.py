"""Deleting tasks: every row goes but one event, which says so.

That event is how those who follow the records learn of it, and why an id is never given again. The
elements of an array are swept afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from stoker.domain.errors import StaleWrite
from stoker.domain.event import Deleted
from stoker.domain.key import PLAIN
from stoker.domain.lifecycle import Task

from .codec import body_of, to_us
from .statements import Cursor, Writes
from .sweeping import leave, take


def erase(
    cursor: Cursor, sql: Writes, tasks: Sequence[Task], deleted: Deleted, last_seq: int
) -> int:
    """The sequence number of the last event. StaleWrite when one has changed, or lives."""
    seq, at = last_seq, to_us(deleted.at)
    for task in tasks:
        assert task.element == PLAIN, "an element goes with its array"
        _guard(cursor, sql, task)
        take(cursor, sql, task.id, PLAIN, PLAIN)
        leave(cursor, sql, task.id)
        seq += 1
        body = body_of(structs.replace(deleted, owner=task.owner))
        event = (seq, task.id, PLAIN, task.version + 1, at, type(deleted).__name__, body, None)
        cursor.execute(sql.new_event.sql, event)
    return seq


def _guard(cursor: Cursor, sql: Writes, task: Task) -> None:
    cursor.execute(sql.whole.sql, (task.id,))
    found = cursor.fetchone()
    if found is None or found[0] != task.version:
        raise StaleWrite
    cursor.execute(sql.live_row.sql, (task.id,))
    if cursor.fetchone():
        raise StaleWrite
