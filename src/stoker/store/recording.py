"""Changes as rows: what one transaction writes for the calls that met in it.

A task's row is inserted, or moved from the version it must have; its events are appended; attempts
and the cards they hold follow from the events. Everything goes by `executemany`, one statement per
table, so that ten thousand tasks cost little more than their bytes. What is said to an array and
what happens to one of its elements keep the order of their calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from stoker.domain.errors import StaleWrite
from stoker.domain.event import (
    Edited,
    Ended,
    Event,
    LimitExtended,
    Placed,
    Requeued,
    Started,
    Submitted,
    Unfolded,
)
from stoker.domain.key import PLAIN
from stoker.domain.lifecycle import Task
from stoker.domain.sweep import is_array

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
    size_of,
    to_us,
)
from .statements import Cursor, Statement, Writes


class Rows:
    """The rows of changes that may be written in any order. `add` says no to one that may not."""

    def __init__(self, last_seq: int) -> None:
        self.last_seq = last_seq
        self._keys: set[tuple[int, int]] = set()
        self._arrays: set[tuple[int, int | None]] = set()
        self._submitted: list[Row] = []
        self._new: list[Row] = []
        self._unfolded: list[_Unfolded] = []
        self._moved: list[Row] = []
        self._edited: list[Row] = []
        self._events: list[Row] = []
        self._placed: list[Row] = []
        self._started: list[Row] = []
        self._ended: list[Row] = []
        self._freed: list[Row] = []
        self._taken: dict[str, list[Row]] = {}
        self._at = EPOCH
        self._at_us = 0

    def add(self, change: Change) -> bool:
        """False: what is in here must be written first, since this comes after it."""
        task = change.task
        key = (task.id, task.element)
        if key in self._keys:
            return False
        if task.element != PLAIN:
            if change.array_version is not None and (task.id, PLAIN) in self._keys:
                return False
            self._arrays.add((task.id, change.array_version))
        self._keys.add(key)
        if task.version == len(change.events):
            self._add_new(change)
        else:
            self._add_moved(change)
        return True

    def write(self, cursor: Cursor, sql: Writes) -> None:
        """Raises StaleWrite when a row is not where it must be."""
        specs = self._look_at_arrays(cursor, sql)  # before they move: an element came first
        _run(cursor, sql.new_waiting_task, self._submitted)
        _run(cursor, sql.new_task, self._new)
        _run(cursor, sql.new_task, [new.task_row(specs) for new in self._unfolded])
        _run(cursor, sql.move_task, self._moved)
        _run(cursor, sql.edit_task, self._edited)
        _run(cursor, sql.new_attempt, self._placed)
        _run(cursor, sql.start_attempt, self._started)
        _run(cursor, sql.end_attempt, self._ended)
        if self._freed:  # before cards are taken: this transaction may pass one on
            cursor.executemany(sql.free.sql, self._freed)
        if self._taken:
            _run(cursor, sql.new_allocation, [row for rows in self._taken.values() for row in rows])
        _run(cursor, sql.new_event, self._events)
        _run(cursor, sql.new_unfolded_event, [new.event_row(specs) for new in self._unfolded])

    def _look_at_arrays(self, cursor: Cursor, sql: Writes) -> dict[int, int]:
        """Where the specs of these arrays are, each being there, at the version it must have."""
        specs: dict[int, int] = {}
        for id, version in self._arrays:
            cursor.execute(sql.whole.sql, (id,))
            found = cursor.fetchone()
            if found is None or version not in (None, found[0]):
                raise StaleWrite
            specs[id] = found[1]
        return specs

    def _add_new(self, change: Change) -> None:
        task, events = change.task, change.events
        first = events[0]
        if isinstance(first, Unfolded):
            self._add_unfolded(change, first)
            return
        assert isinstance(first, Submitted)
        spec = first.spec
        self.last_seq = seq = self.last_seq + 1
        id, owner, position, origin = task.id, first.owner, first.position, first.origin
        at = self._us(first.at)
        if origin is None:
            body = f'{{"owner":{quoted(owner)},"position":{position}}}'
        else:
            body = body_of(first)
        self._events.append((seq, id, PLAIN, 1, at, "Submitted", body, encode(spec)))
        if len(events) == 1 and origin is None and not is_array(spec):
            shown = shown_at_first(id, owner, task.state, first.at)
            row = (id, PLAIN, owner, task.state.value, 1, position, spec.name, seq, at, shown)
            self._submitted.append(row)
            return
        self._new.append(row_of_task(task, self._add_events(task, 2, events[1:]) or seq))

    def _add_unfolded(self, change: Change, first: Unfolded) -> None:
        task = change.task
        assert change.array_version is not None, "an element follows its array"
        self.last_seq = seq = self.last_seq + 1
        event = (seq, task.id, task.element, 1, self._us(first.at), "Unfolded", body_of(first))
        edited = self._add_events(task, 2, change.events[1:])
        self._unfolded.append(_Unfolded(task, event, edited))

    def _add_moved(self, change: Change) -> None:
        task, before = change.task, change.before
        edited = self._add_events(task, before + 1, change.events)
        head = (str(task.state), task.version, task.position)
        tail = (int(task.element == PLAIN), task.id, task.element, before)
        if edited is None:
            self._moved.append((*head, *changing_part(task), *tail))
        else:
            name = task.spec.name
            row = (*head, name, edited, *changing_part(task), size_of(task), *tail)
            self._edited.append(row)

    def _add_events(self, task: Task, version: int, events: tuple[Event, ...]) -> int | None:
        """The sequence number of the last one that brings a spec."""
        edited: int | None = None
        for number, event in enumerate(events, version):
            self.last_seq = seq = self.last_seq + 1
            spec = None
            if isinstance(event, Edited):
                spec, edited = encode(event.spec), seq
            elif isinstance(event, LimitExtended):  # the last word on its spec in this change
                spec, edited = encode(task.spec), seq
            kind, body = type(event).__name__, body_of(event)
            at = self._us(event.at)
            self._events.append((seq, task.id, task.element, number, at, kind, body, spec))
            self._project(task, event, events)
        return edited

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
                    (event.attempt, gpu.uuid, event.allocation.node, exclusive, gpu.slot)
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


class _Unfolded(NamedTuple):
    """An element that becomes a row. Where its array's spec is, only the records know."""

    task: Task
    event: Row
    edited: int | None
    """Its own spec, when it has been edited at once."""

    def task_row(self, specs: dict[int, int]) -> Row:
        shared = specs[self.task.id]
        return row_of_task(self.task, shared if self.edited is None else self.edited)

    def event_row(self, specs: dict[int, int]) -> Row:
        return (*self.event, specs[self.task.id])


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
