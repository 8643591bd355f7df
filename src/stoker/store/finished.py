"""Finished tasks by their end, page by page: for exports, and for what has been kept long enough.

A page begins after the last row of the one before, so nothing comes twice, whatever ends or is
deleted meanwhile, and a page costs the same however deep it is. Tasks and arrays are walked by the
index of ends; the elements of an array by their own part of the table. Nothing here can write.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec import Struct

from stoker.domain.key import PLAIN, TaskKey

from .codec import Row
from .reading import ReadPool
from .statements import ALSO_WHOLE, ELEMENTS, ONE, ZERO, Cursor, Statement, compiled, has_array
from .tables import attempts, events, tasks

FOREVER = 2**62
"""Later than every end."""
_ENDED = sa.text("finished_us IS NOT NULL")
"""Literally as in the partial index."""
_UUID = '"uuid":'
"""In the text of an allocation once for each card, and nowhere else: quotes in a value are escaped."""


class Place(NamedTuple):
    """Where a task stands in the order of ends."""

    ended_us: int
    id: int


NEWEST = Place(FOREVER, 0)
OLDEST = Place(-FOREVER, 0)


class Wanted(Struct, frozen=True, kw_only=True):
    """Which finished tasks. Empty filters let everything through."""

    since_us: int = -FOREVER
    """Ended then or later."""
    owner: str = ""
    outcome: str = ""
    also_arrays: bool = False
    """Arrays of any outcome too: their elements are looked at one by one."""


class FinishedRow(NamedTuple):
    """A task as it was stored, and what its attempts took, those of an array all together."""

    key: TaskKey
    ended_us: int
    shown: str
    why: str | None
    end: str | None
    spec: str
    ran_us: int
    held_us: int
    """The same times the cards that were held."""

    @property
    def place(self) -> Place:
        return Place(self.ended_us, self.key.id)


_COLUMNS = (
    tasks.c.id, tasks.c.element, tasks.c.finished_us, tasks.c.shown, tasks.c.why, tasks.c.end,
    events.c.spec,
)  # fmt: skip


class Finished:
    """Reads finished tasks. May be slow: call it in a thread."""

    def __init__(self, pool: ReadPool) -> None:
        self._pool = pool
        self._statement = lru_cache(maxsize=16)(self._build)

    def page(self, wanted: Wanted, before: Place, limit: int) -> list[FinishedRow]:
        """Tasks and arrays that ended before `before`, the newest first; [] at the end."""
        made = self._statement(bool(wanted.owner), bool(wanted.outcome), wanted.also_arrays)
        values = {
            "since": wanted.since_us,
            "owner": wanted.owner,
            "outcome": wanted.outcome,
            "until": before.ended_us,
            "before": before.id,
            "most": limit,
        }
        return self._read(made, values)

    def elements(self, id: int, beyond: int, limit: int) -> list[FinishedRow]:
        """Elements of a finished array that are rows, by index, those after `beyond`."""
        return self._read(self._elements, {"id_": id, "beyond": beyond, "most": limit})

    def one(self, key: TaskKey) -> FinishedRow | None:
        """This task, if it has finished and is a row."""
        found = self._read(self._one, {"id_": key.id, "element_": key.element})
        return found[0] if found else None

    def outlived(
        self, before_us: int | None, beyond: int | None, after: Place, limit: int
    ) -> list[TaskKey]:
        """Tasks and arrays after that place, the oldest end first: those that ended before
        `before_us`, and those that `beyond` others or more have ended after."""
        # Both are the beginning of one order: the longer one counts.
        upto = OLDEST if before_us is None else Place(before_us, 0)
        with self._pool.snapshot() as cursor:
            if beyond is not None:
                row = cursor.execute(self._rank.sql, _in_order(self._rank, {"rank": beyond}))
                upto = max([upto, *(Place(ended, id + 1) for ended, id in row.fetchall())])
            values = {"begin": after.ended_us, "after": after.id, "most": limit}
            values |= {"end": upto.ended_us, "before": upto.id}
            made = self._oldest
            rows = cursor.execute(made.sql, _in_order(made, values)).fetchall()
            return [TaskKey(id) for (id,) in rows]

    def _read(self, made: Statement, values: dict[str, Any]) -> list[FinishedRow]:
        with self._pool.snapshot() as cursor:
            rows = cursor.execute(made.sql, _in_order(made, values)).fetchall()
            return [self._with_use(cursor, row) for row in rows]

    def _with_use(self, cursor: Cursor, row: Row) -> FinishedRow:
        key = TaskKey(row[0], row[1])
        made = self._used if key.element == PLAIN else self._used_by_element
        values = {"id_": key.id, "element_": key.element}
        ran, held = cursor.execute(made.sql, _in_order(made, values)).fetchone()
        used = (max(0, int(ran or 0)), max(0, int(held or 0)) // len(_UUID))
        _id, _element, ended_us, shown, why, end, spec = row
        return FinishedRow(key, ended_us, shown, why, end, spec, *used)

    @cached_property
    def _one(self) -> Statement:
        return compiled(self._pool.dialect, _with_spec().where(*_is_finished()))

    @cached_property
    def _elements(self) -> Statement:
        found = _with_spec().where(
            ELEMENTS,
            _ENDED,
            tasks.c.id == sa.bindparam("id_"),
            tasks.c.element > sa.bindparam("beyond"),
            has_array(sa.bindparam("id_")),
        )
        page = found.order_by(tasks.c.element).limit(sa.bindparam("most")).offset(ZERO)
        return compiled(self._pool.dialect, page)

    @cached_property
    def _rank(self) -> Statement:
        """The newest that so many others have ended after."""
        found = sa.select(tasks.c.finished_us, tasks.c.id).where(ALSO_WHOLE, _ENDED)
        order = (tasks.c.finished_us.desc(), tasks.c.id.desc())
        one = found.order_by(*order).limit(ONE).offset(sa.bindparam("rank"))
        return compiled(self._pool.dialect, one)

    @cached_property
    def _oldest(self) -> Statement:
        place = sa.tuple_(tasks.c.finished_us, tasks.c.id)
        found = sa.select(tasks.c.id).where(
            ALSO_WHOLE,
            _ENDED,
            place > sa.tuple_(sa.bindparam("begin"), sa.bindparam("after")),
            place < sa.tuple_(sa.bindparam("end"), sa.bindparam("before")),
        )
        order = (tasks.c.finished_us, tasks.c.id)
        page = found.order_by(*order).limit(sa.bindparam("most")).offset(ZERO)
        return compiled(self._pool.dialect, page)

    @cached_property
    def _used(self) -> Statement:
        return compiled(self._pool.dialect, _used())

    @cached_property
    def _used_by_element(self) -> Statement:
        one = _used().where(attempts.c.element == sa.bindparam("element_"))
        return compiled(self._pool.dialect, one)

    def _build(self, owner: bool, outcome: bool, also_arrays: bool) -> Statement:
        found = _with_spec().where(
            ALSO_WHOLE,
            _ENDED,
            tasks.c.finished_us >= sa.bindparam("since"),
            sa.tuple_(tasks.c.finished_us, tasks.c.id)
            < sa.tuple_(sa.bindparam("until"), sa.bindparam("before")),
        )
        if owner:
            found = found.where(tasks.c.owner == sa.bindparam("owner"))
        if outcome:
            so = tasks.c.outcome == sa.bindparam("outcome")
            found = found.where(sa.or_(so, tasks.c.size.is_not(None)) if also_arrays else so)
        order = (tasks.c.finished_us.desc(), tasks.c.id.desc())
        page = found.order_by(*order).limit(sa.bindparam("most")).offset(ZERO)
        return compiled(self._pool.dialect, page)


def _with_spec() -> sa.Select[Any]:
    return sa.select(*_COLUMNS).join(events, events.c.seq == tasks.c.spec_seq)


def _is_finished() -> tuple[Any, ...]:
    return (
        tasks.c.is_whole.in_([ZERO, ONE]),  # so that the key is used
        tasks.c.id == sa.bindparam("id_"),
        tasks.c.element == sa.bindparam("element_"),
        has_array(sa.bindparam("id_")),
        _ENDED,
    )


def _used() -> sa.Select[Any]:
    """What the attempts of a task took, of an array those of all elements; and the same times the
    characters by which its cards make the allocation longer."""
    ran = attempts.c.ended_us - attempts.c.started_us
    text = attempts.c.allocation
    without = sa.func.replace(text, sa.literal_column(f"'{_UUID}'"), sa.literal_column("''"))
    less = sa.func.length(text) - sa.func.length(without)
    return sa.select(sa.func.sum(ran), sa.func.sum(ran * less)).where(
        attempts.c.task_id == sa.bindparam("id_"),
        attempts.c.started_us.is_not(None),
        attempts.c.ended_us.is_not(None),
    )


def _in_order(made: Statement, values: dict[str, Any]) -> Row:
    return tuple(values[name] for name in made.parameters)
