"""Changes as rows: what one transaction writes for the calls that met in it.

A task's row is inserted, or moved from the version it must have; its events are appended; attempts
and the cards they hold follow from the events. Everything goes by `executemany`, one statement per
table, so that ten thousand tasks cost little more than their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from stoker.domain.errors import StaleWrite
from stoker.domain.event import Ended, Event, Placed, Requeued, Started, Submitted
from stoker.domain.lifecycle import Task

from .base import Change
from .codec import (
    EPOCH,
    Row,
    body_of,
    changing_part,
    encode,
    quoted,
    row_of_attempt,
    row_of_task,
    shown_at_first,
    to_us,
)
from .statements import Cursor, Statement, Writes


class Rows:
    """The rows of changes to different tasks. `add` says no to a second change of one task."""

    def __init__(self, last_seq: int) -> None:
        self.last_seq = last_seq
        self._keys: set[tuple[int, int]] = set()
        self._submitted: list[Row] = []
        self._new: list[Row] = []
        self._moved: list[Row] = []
        self._events: list[Row] = []
        self._placed: list[Row] = []
        self._started: list[Row] = []
        self._ended: list[Row] = []
        self._freed: list[Row] = []
        self._taken: dict[str, list[Row]] = {}
        self._at = EPOCH
        self._at_us = 0

    def add(self, change: Change) -> bool:
        """False: that task is in here already, and this must come after it."""
        task, events = change.task, change.events
        key = (task.id, task.element)
        if key in self._keys:
            return False
        self._keys.add(key)
        before = task.version - len(events)
        if before == 0:
            self._add_new(task, events)
        else:
            self._moved.append(
                (str(task.state), task.version, *changing_part(task), task.id, task.element, before)
            )
            for version, event in enumerate(events, before + 1):
                self._add_event(task, version, event, events)
        return True

    def write(self, cursor: Cursor, sql: Writes) -> None:
        """Raises StaleWrite when a row is not where it must be."""
        _run(cursor, sql.new_waiting_task, self._submitted)
        _run(cursor, sql.new_task, self._new)
        _run(cursor, sql.move_task, self._moved)
        _run(cursor, sql.new_attempt, self._placed)
        _run(cursor, sql.start_attempt, self._started)
        _run(cursor, sql.end_attempt, self._ended)
        if self._freed:  # before cards are taken: this transaction may pass one on
            cursor.executemany(sql.free.sql, self._freed)
        if self._taken:
            _run(cursor, sql.new_allocation, [row for rows in self._taken.values() for row in rows])
        _run(cursor, sql.new_event, self._events)

    def _add_new(self, task: Task, events: tuple[Event, ...]) -> None:
        submitted = events[0]
        assert isinstance(submitted, Submitted)
        self.last_seq = seq = self.last_seq + 1
        id, element, position, spec = task.id, task.element, submitted.position, submitted.spec
        at = self._us(submitted.at)
        body = f'{{"owner":{quoted(submitted.owner)},"position":{position}}}'
        self._events.append((seq, id, element, 1, at, "Submitted", body, encode(spec)))
        if len(events) == 1:
            row = (
                id,
                element,
                task.owner,
                task.state.value,
                1,
                position,
                spec.name,
                seq,
                at,
                shown_at_first(id, element, task.owner, task.state, submitted.at),
            )
            self._submitted.append(row)
            return
        self._new.append(row_of_task(task, seq))
        for version, event in enumerate(events[1:], 2):
            self._add_event(task, version, event, events)

    def _add_event(self, task: Task, version: int, event: Event, events: tuple[Event, ...]) -> None:
        self.last_seq = seq = self.last_seq + 1
        at = self._us(event.at)
        kind = type(event).__name__
        self._events.append((seq, task.id, task.element, version, at, kind, body_of(event), None))
        self._project(task, event, events)

    def _us(self, at: datetime) -> int:
        """A batch has one instant."""
        if at is not self._at:
            self._at, self._at_us = at, to_us(at)
        return self._at_us

    def _project(self, task: Task, event: Event, events: tuple[Event, ...]) -> None:
        match event:
            case Placed():
                later = events[events.index(event) + 1 :]
                ordinal = task.attempts - sum(isinstance(e, Placed) for e in later)
                self._placed.append(row_of_attempt(task.key, ordinal, event))
                exclusive = int(task.spec.mode == "exclusive")
                self._taken[event.attempt] = [
                    (event.attempt, gpu.uuid, event.allocation.node, exclusive)
                    for gpu in event.allocation.gpus
                ]
            case Started():
                self._started.append((to_us(event.at), event.attempt))
            case Requeued() | Ended() if event.attempt is not None:
                end = None if event.end is None else encode(event.end)
                self._ended.append((to_us(event.at), end, event.attempt))
                if self._taken.pop(event.attempt, None) is None:
                    self._freed.append((event.attempt,))
            case _:
                pass


def write_changes(
    cursor: Cursor, sql: Writes, calls: Iterable[Sequence[Change]], last_seq: int
) -> list[int]:
    """Write the changes of all calls; the sequence number after each of them."""
    rows = Rows(last_seq)
    after: list[int] = []
    for changes in calls:
        for change in changes:
            if not rows.add(change):
                rows.write(cursor, sql)
                rows = Rows(rows.last_seq)
                rows.add(change)
        after.append(rows.last_seq)
    rows.write(cursor, sql)
    return after


def _run(cursor: Cursor, statement: Statement, rows: list[Row]) -> None:
    if not rows:
        return
    cursor.executemany(statement.sql, rows)
    if cursor.rowcount != len(rows):
        raise StaleWrite
