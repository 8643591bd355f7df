"""Which tasks a list shows, in which order, and where its next page begins.

A page begins after the last row of the one before (keyset), so no row comes twice and none is left
out, whatever is inserted meanwhile; the cost of a page does not grow with its depth. Submission
order is the order of ids: a clock that jumps changes no list. Tasks that have not finished count
as finishing last. An array is one row among the others, however many elements it has; its elements
are a list of their own.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from stoker.domain.errors import InvalidSpec
from stoker.domain.key import PLAIN
from stoker.domain.lifecycle import State

from .codec import Row
from .statements import (
    ALSO_WHOLE,
    ELEMENTS,
    LISTED,
    UNFINISHED,
    WHOLE,
    ZERO,
    Statement,
    compiled,
    has_array,
    in_states,
    is_there,
)
from .tables import events, tasks

Sort = Literal["id", "submitted", "finished", "position"]
NEVER = 2**63 - 1
_BY_ID: tuple[Sort, ...] = ("id", "submitted")
SHORT = 300
"""A longer query is not remembered: what strangers send must not fill the memory."""
FEW = 300
"""Up to so many are found and sorted faster than the ids are walked."""


class Query(Struct, frozen=True, kw_only=True):
    """What a list asks for. Empty filters let everything through."""

    states: frozenset[State] = frozenset()
    owner: str = ""
    name: str = ""
    """Part of the name; ASCII letters match in either case."""
    outcome: str = ""
    elements: bool = False
    """Also the elements of arrays that are tasks of their own."""
    array: int | None = None
    """Only the elements of this one, in the order of their indices, whatever `sort` says."""
    sort: Sort = "id"
    descending: bool = True
    cursor: str = ""
    limit: int = 50


class _Shape(Struct, frozen=True):
    """All of a query that its text depends on."""

    states: frozenset[State]
    owner: bool
    name: bool
    outcome: bool
    whole: bool
    array: bool
    sort: Sort
    descending: bool
    follows: bool
    by_state: bool


class _Place(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a cursor says: the key of the last row, for one way of sorting."""

    sort: Sort
    descending: bool
    key: tuple[int, ...]


class Paging:
    """Turns queries into statements, and last rows into cursors."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        self._is_sqlite = dialect.name == "sqlite"
        self._statement = lru_cache(maxsize=256)(self._build)
        self._asked_before = lru_cache(maxsize=256)(self._ask)
        self._probe = lru_cache(maxsize=64)(self._build_probe)

    def probe(self, query: Query) -> str | None:
        """SQL that counts, up to FEW + 1, the tasks in the states of this query; None when the
        answer would make no difference to its statement."""
        matters = _order(query)[0] in _BY_ID and _only_unfinished(query.states)
        return self._probe(query.states, _whole(query)) if matters else None

    def statement(self, query: Query, *, few: bool = True) -> tuple[str, Row]:
        """SQL and parameters for one row more than a page. `few`: what `probe` found; then finding
        them all by their states and sorting is quick, else walking in the order of ids is."""
        if len(query.cursor) + len(query.owner) + len(query.name) > SHORT:
            return self._ask(query, few)
        return self._asked_before(query, few)

    def _ask(self, query: Query, few: bool) -> tuple[str, Row]:
        after = _read_cursor(query)
        sort, descending = _order(query)
        shape = _Shape(
            states=query.states,
            owner=bool(query.owner),
            name=bool(query.name),
            outcome=bool(query.outcome),
            whole=_whole(query),
            array=query.array is not None,
            sort=sort,
            descending=descending,
            follows=after is not None and query.array is None,
            by_state=few and _only_unfinished(query.states),
        )
        values: dict[str, object] = {
            "owner": query.owner,
            "name": query.name,
            "outcome": query.outcome,
            "array": query.array,
            "beyond": PLAIN if after is None else max(PLAIN, after.key[-1]),
            "limit": query.limit + 1,
        }
        if after is not None:
            values |= {f"after_{number}": part for number, part in enumerate(after.key)}
        made = self._statement(shape)
        return made.sql, tuple(values[name] for name in made.parameters)

    def _build(self, shape: _Shape) -> Statement:
        found, key = self._found(shape), _key_columns(shape)
        if _is_mixed(shape):
            shown = _with_spec(found.with_only_columns(*LISTED))
            both = sa.union_all(*(shown.where(part) for part in (WHOLE, ELEMENTS)))
            order = _directed(shape, [sa.literal_column("1"), sa.literal_column("2")])
            return compiled(self._dialect, _page(both.order_by(*order)))
        order = _directed(shape, _ordering(shape))
        found = _page(found.order_by(*order))
        if not _must_sort(shape):
            return compiled(self._dialect, _with_spec(found.with_only_columns(*LISTED, *key)))
        # Sort keys, not rows: what is shown of a page is looked up afterwards.
        parts: list[Any] = [tasks.c.id] if shape.whole else list(tasks.primary_key)
        keys = found.with_only_columns(*parts).subquery()
        same = [column == keys.c[column.name] for column in parts]
        shown = sa.select(*LISTED, *key).join(keys, sa.and_(*same)).order_by(*order)
        if shape.whole:
            shown = shown.where(WHOLE)
        return compiled(self._dialect, _with_spec(shown))

    def _found(self, shape: _Shape) -> sa.Select[Any]:
        """The rows of this list from its cursor on, in no order."""
        found = sa.select(tasks).where(*self._conditions(shape))
        if not shape.follows:
            return found
        columns = _ordering(shape)
        binds: list[Any] = [sa.bindparam(f"after_{number}") for number in range(len(columns))]
        here, there = sa.tuple_(*columns), sa.tuple_(*binds)
        return found.where(here < there if shape.descending else here > there)

    def _build_probe(self, states: frozenset[State], whole: bool) -> str:
        some = (
            sa.select(sa.literal_column("1"))
            .select_from(tasks)
            .where(in_states(states), UNFINISHED, *([ALSO_WHOLE] if whole else []))
            .limit(sa.literal_column(str(FEW + 1)))
            .offset(ZERO)
            .subquery()
        )
        return compiled(self._dialect, sa.select(sa.func.count()).select_from(some)).sql

    def _conditions(self, shape: _Shape) -> list[Any]:
        found: list[Any] = []
        if shape.whole:
            found.append(ALSO_WHOLE if shape.by_state or _only_finished(shape) else WHOLE)
        if shape.array:
            # A sum has no index: by their states they are found without a walk through the array.
            id = tasks.c.id + ZERO if shape.by_state else tasks.c.id
            found += [
                *([] if shape.by_state else [ELEMENTS]),
                id == sa.bindparam("array"),
                tasks.c.element > sa.bindparam("beyond"),
                has_array(sa.bindparam("array")),
            ]
        if not (shape.whole or shape.array):
            found.append(is_there(tasks.c.id, tasks.c.element))
        if shape.states:
            found.append(in_states(shape.states))
        if shape.by_state:
            found.append(UNFINISHED)
        if _only_finished(shape):
            found.append(sa.text("finished_us IS NOT NULL"))
        if shape.owner:
            found.append(tasks.c.owner == sa.bindparam("owner"))
        if shape.name:
            found.append(self._contains(tasks.c.name, sa.bindparam("name", type_=sa.Text)) > ZERO)
        if shape.outcome:
            found.append(tasks.c.outcome == sa.bindparam("outcome"))
        return found

    def _contains(self, text: Any, part: Any) -> sa.ColumnElement[int]:
        """Where `part` begins in `text`, for ASCII letters in either case; 0 = nowhere."""
        if self._is_sqlite:
            return sa.func.instr(sa.func.lower(text), sa.func.lower(part))
        return sa.func.strpos(sa.func.lower(text), sa.func.lower(sa.collate(part, "C")))


def cursor_after(query: Query, row: Row) -> str:
    """Where the page after `row` begins."""
    place = _Place(*_order(query), (*row[len(LISTED) :], row[0], row[1]))
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _read_cursor(query: Query) -> _Place | None:
    if not query.cursor:
        return None
    try:
        padded = query.cursor + "=" * (-len(query.cursor) % 4)
        raw = base64.b64decode(padded, altchars="-_", validate=True)
        place = msgspec.json.decode(raw, type=_Place)
    except (binascii.Error, msgspec.DecodeError, ValueError) as error:
        raise InvalidSpec("bad_cursor", field="cursor") from error
    same = (place.sort, place.descending) == _order(query)
    width = 2 if place.sort in _BY_ID else 3
    fits = len(place.key) == width and all(abs(number) <= NEVER for number in place.key)
    if not (same and fits):
        raise InvalidSpec("bad_cursor", field="cursor")
    return place


def _order(query: Query) -> tuple[Sort, bool]:
    return ("id", False) if query.array is not None else (query.sort, query.descending)


def _whole(query: Query) -> bool:
    return not query.elements and query.array is None


def _only_unfinished(states: frozenset[State]) -> bool:
    return bool(states) and State.FINISHED not in states


def _only_finished(shape: _Shape) -> bool:
    return shape.sort == "finished" and (shape.outcome or shape.states == {State.FINISHED})


def _by_end(shape: _Shape) -> bool:
    """Whether the index of ends has exactly these."""
    return shape.whole and _only_finished(shape)


def _must_sort(shape: _Shape) -> bool:
    """Whether no index has the rows in this order already."""
    if shape.sort in _BY_ID:
        return shape.by_state
    if shape.sort == "position":
        return not (shape.by_state and len(shape.states) == 1)
    return not _by_end(shape)


def _page(rows: Any) -> Any:
    return rows.limit(sa.bindparam("limit")).offset(ZERO)


def _directed(shape: _Shape, columns: Sequence[Any]) -> list[Any]:
    return [column.desc() if shape.descending else column.asc() for column in columns]


def _with_spec(rows: sa.Select[Any]) -> sa.Select[Any]:
    return rows.join(events, events.c.seq == tasks.c.spec_seq)


def _is_mixed(shape: _Shape) -> bool:
    """Whether elements are listed among the others by id: both are walked, and merged."""
    return not (shape.whole or shape.array or shape.by_state) and shape.sort in _BY_ID


def _ordering(shape: _Shape) -> list[Any]:
    """The columns of the order; the beginning of a cursor's key."""
    if shape.array:
        return [tasks.c.element]
    last = [tasks.c.id] if shape.whole else [tasks.c.id, tasks.c.element]
    return [*_key_columns(shape), *last]


def _key_columns(shape: _Shape) -> list[Any]:
    """What comes before the id in the order."""
    if shape.sort in _BY_ID:
        return []
    if shape.sort == "position":
        return [tasks.c.position]
    if _only_finished(shape):
        return [tasks.c.finished_us]
    return [sa.func.coalesce(tasks.c.finished_us, sa.literal_column(str(NEVER)))]
