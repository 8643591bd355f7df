"""Whether arrays and their elements agree: part of `checks`.

An element is a row only beside its array, and it began while the array might still begin it, with
the array's own spec of that moment. An array that has ended has no element left that has not, and
counts that say how they ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

import msgspec
import sqlalchemy as sa

from stoker.domain.event import (
    Edited,
    Ended,
    LimitExtended,
    StopRequested,
    Submitted,
    Unfolded,
)
from stoker.domain.indices import Indices
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.sweep import array_of
from stoker.domain.task import TaskSpec

from .codec import Row, decode_spec
from .statements import WHOLE, Cursor
from .tables import events, tasks


def array_sentences(dialect: sa.Dialect, cursor: Cursor, to_sweep: frozenset[int]) -> Iterator[str]:
    """Every broken tie as a sentence; `to_sweep`: arrays that are gone, with elements still left."""
    check = _CheckArrays(dialect, cursor)
    yield from check.elements(to_sweep)
    yield from check.ends()


class _CheckArrays:
    def __init__(self, dialect: sa.Dialect, cursor: Cursor) -> None:
        self._dialect = dialect
        self._cursor = cursor

    def elements(self, to_sweep: frozenset[int]) -> Iterator[str]:
        """Each element row, against its array's events."""
        born = (
            sa.select(tasks.c.id, tasks.c.element, events.c.seq, events.c.kind, events.c.spec_of)
            .join_from(
                tasks,
                events,
                sa.and_(events.c.task_id == tasks.c.id, events.c.element == tasks.c.element),
            )
            .where(~WHOLE, events.c.version == 1)
            .order_by(tasks.c.id, tasks.c.element)
        )
        for id, rows in groupby(self._select(born), key=lambda row: row[0]):
            if id in to_sweep:
                continue
            array = self._array(id)
            for _, element, seq, kind, spec_of in rows:
                key = TaskKey(id, element)
                if array is None:
                    yield f"Task {key} is an element, but there is no array {id}."
                elif kind == Unfolded.__name__:
                    yield from array.agrees(key, seq, spec_of)
        strays = sa.select(events.c.task_id, events.c.element).where(
            events.c.spec_of.is_not(None), events.c.kind != Unfolded.__name__
        )
        for id, element in self._select(strays):
            yield f"Task {TaskKey(id, element)} has an event with the spec of another."

    def ends(self) -> Iterator[str]:
        """Each array, against the rows of its elements."""
        arrays = sa.select(tasks.c.id, tasks.c.state, tasks.c.counts, events.c.spec).join(
            events, events.c.seq == tasks.c.spec_seq
        )
        for id, state, counts, spec in self._select(
            arrays.where(WHOLE, tasks.c.size.is_not(None)).order_by(tasks.c.id)
        ):
            if state == State.FINISHED:
                yield from self._end(id, counts, decode_spec(spec))

    def _end(self, id: int, counts: str | None, spec: TaskSpec) -> Iterator[str]:
        found = self._select(
            sa.select(tasks.c.element, tasks.c.state, tasks.c.outcome).where(
                tasks.c.id == id, ~WHOLE
            )
        )
        for element, state, _ in found:
            if state != State.FINISHED:
                yield f"Array {id} has ended, but its element {TaskKey(id, element)} is {state}."
        if counts is None:
            yield f"Array {id} has ended without counts."
            return
        should = Counter(outcome for *_, outcome in found if outcome is not None)
        array = array_of(spec)
        if array is not None:
            never = array.indices.minus(Indices.only(*(element for element, *_ in found)))
            should["cancelled"] += len(never)
        told = msgspec.json.decode(counts, type=dict[str, int])
        if +Counter(told) != +should:
            yield f"Array {id} counts {dict(+Counter(told))}, but its elements are {dict(+should)}."

    def _array(self, id: int) -> _Array | None:
        """What the events of this array say; None = there is none."""
        there = self._select(sa.select(tasks.c.id).where(tasks.c.id == id, WHOLE))
        if not there:
            return None
        told = self._select(
            sa.select(events.c.seq, events.c.kind, events.c.spec)
            .where(events.c.task_id == id, events.c.element == PLAIN)
            .order_by(events.c.version)
        )
        return _Array(told)

    def _select(self, select: sa.Select[tuple[object, ...]]) -> list[Row]:
        made = select.compile(dialect=self._dialect, compile_kwargs={"literal_binds": True})
        self._cursor.execute(str(made))
        rows: list[Row] = self._cursor.fetchall()
        return rows


class _Array:
    """An array's own history."""

    def __init__(self, told: list[Row]) -> None:
        brings = (Submitted.__name__, Edited.__name__, LimitExtended.__name__)
        self._specs = {seq: spec for seq, kind, spec in told if kind in brings}
        over = (StopRequested.__name__, Ended.__name__)
        self._over = min((seq for seq, kind, _ in told if kind in over), default=None)

    def agrees(self, key: TaskKey, seq: int, spec_of: int | None) -> Iterator[str]:
        """Whether this element began as its array said."""
        if self._over is not None and seq > self._over:
            yield f"Task {key} began after its array was stopped or had ended."
        brought = max((at for at in self._specs if at < seq), default=None)
        if spec_of != brought:
            yield f"Task {key} has the spec of event {spec_of}, but its array's is {brought}."
            return
        array = array_of(decode_spec(self._specs[brought]))
        if array is None or key.element not in array.indices:
            yield f"Task {key} is not among the elements of its array."
