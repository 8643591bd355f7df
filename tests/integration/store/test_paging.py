"""Lists: any filter, any order, any page size, also while tasks come and move."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.event import Ended, Submitted
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import LIVE, WAITING, State, Task, apply, begin
from stoker.domain.outcome import End
from stoker.store.base import Change
from stoker.store.paging import FEW, NEVER, Query, Sort, cursor_after
from stoker.store.recorder import SqlStore, open_store
from stoker.store.statements import LISTED
from tests.conftest import DATABASES
from tests.helpers.builders import NOON, a_spec, at, element, new, placed, started
from tests.helpers.postgres import Postgres

from .conftest import Where, sqlite_only

SORTS: tuple[Sort, ...] = ("id", "submitted", "finished", "position")
NAMES = ["", "Train", "train-2", "训练", "100%_x", "É", "é"]


@st.composite
def changes(draw: st.DrawFn, id: int) -> Change:
    """A task at some point of its life; times and positions collide often."""
    spec = a_spec(name=draw(st.sampled_from(NAMES)), hold=draw(st.booleans()))
    first = Submitted(
        at=at(draw(st.integers(0, 3))),
        owner=draw(st.sampled_from(["ana", "bob"])),
        spec=spec,
        position=draw(st.integers(1, 4)),
    )
    task = begin(TaskKey(id), first)
    events: list[Any] = [first]
    life = draw(st.integers(0, 3))
    if life and task.state is State.QUEUED:
        events.append(placed(f"a{id}", number=id))
    if life > 1 and len(events) > 1:
        events.append(started(f"a{id}"))
    if life > 2 or (life > 1 and len(events) == 1):
        outcome, reason = draw(st.sampled_from([("succeeded", "exit_zero"), ("lost", "rebooted")]))
        attempt = f"a{id}" if len(events) > 1 else None
        end = End(outcome=outcome, reason=reason)  # type: ignore[arg-type]
        events.append(Ended(at=at(draw(st.integers(4, 6))), attempt=attempt, end=end))
    for event in events[1:]:
        task = apply(task, event)
    return Change(task, tuple(events))


ARRAY = new(30, a_spec(name="train", array="0-9"))


@st.composite
def elements(draw: st.DrawFn) -> list[Change]:
    """An array among the others, with elements in any state."""
    rows: list[Change] = []
    for number in sorted(draw(st.sets(st.integers(0, 9)))):
        attempt = f"e{number}"
        life: list[Any] = [
            placed(attempt, number=100 + number),
            started(attempt),
            Ended(at=at(4), attempt=attempt, end=End(outcome="lost", reason="rebooted")),
        ]
        rows.append(element(ARRAY.task, number, *life[: draw(st.integers(1, 3))]))
    return [ARRAY, *rows]


HISTORIES = st.integers(0, 25).flatmap(
    lambda count: st.tuples(
        st.tuples(*(changes(id) for id in range(1, count + 1))), elements() | st.just([])
    ).map(lambda both: [*both[0], *both[1]])
)
QUERIES = st.builds(
    Query,
    states=st.sampled_from([frozenset(), WAITING, LIVE, {State.FINISHED}, {State.QUEUED}]).map(
        frozenset
    ),
    owner=st.sampled_from(["", "", "ana"]),
    name=st.sampled_from(["", "", "TRAIN", "训", "%", "_", "É"]),
    outcome=st.sampled_from(["", "", "lost"]),
    elements=st.booleans(),
    array=st.sampled_from([None, None, 30, 31]),
    sort=st.sampled_from(SORTS),
    descending=st.booleans(),
    limit=st.integers(1, 7),
)


NewPlace = Callable[[], AbstractContextManager[Where]]


@pytest.fixture(scope="module", params=DATABASES)
def new_place(request: pytest.FixtureRequest) -> NewPlace:
    """Makes a place for new records, as often as there are examples."""

    @contextmanager
    def in_a_folder() -> Iterator[Where]:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / "stoker.db"

    @contextmanager
    def on_the_server() -> Iterator[Where]:
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.fresh()
        yield url
        postgres.give_back(url)

    return in_a_folder if request.param == "sqlite" else on_the_server


@given(history=HISTORIES, query=QUERIES)
@settings(max_examples=40)
def test_pages_put_together_are_the_whole_list(
    new_place: NewPlace, history: list[Change], query: Query
) -> None:
    with recorded(new_place, history) as (store, _):
        expected = [change.task for change in history if matches(change.task, query)]
        backwards = query.descending and query.array is None
        expected.sort(key=order_of(query), reverse=backwards)

        assert walk(store, query) == [str(task.key) for task in expected]


@given(history=HISTORIES, query=QUERIES)
@settings(max_examples=30)
def test_no_row_comes_twice_and_none_is_left_out_while_tasks_arrive(
    new_place: NewPlace, history: list[Change], query: Query
) -> None:
    arriving = iter([new(id, a_spec(name="train")) for id in range(1000, 1005)])
    with recorded(new_place, history) as (store, record):
        seen = walk(store, query, between=lambda: record(list(islice(arriving, 1))))
        asked = [str(c.task.key) for c in history if matches(c.task, query)]

    assert len(seen) == len(set(seen))
    assert set(asked) <= set(seen)
    assert all(id.startswith("100") for id in set(seen) - set(asked))


@contextmanager
def recorded(
    new_place: NewPlace, history: list[Change]
) -> Iterator[tuple[SqlStore, Callable[[list[Change]], None]]]:
    """Records with this history, and a way to go on recording."""
    with new_place() as where, asyncio.Runner() as runner:
        store = open_store(where)

        def record(changes: list[Change]) -> None:
            runner.run(store.record(changes))

        try:
            record(history)
            yield store, record
        finally:
            store.close()


def walk(store: SqlStore, query: Query, between: Callable[[], None] = lambda: None) -> list[str]:
    """Every id, page after page."""
    ids: list[str] = []
    for _ in range(200):
        rows, cursor = store.readers.page(query)
        page = [str(msgspec.json.decode(shown)["id"]) for shown, *_ in rows]
        assert len(page) <= query.limit
        ids += page
        if cursor is None:
            return ids
        assert len(page) == query.limit
        query = structs.replace(query, cursor=cursor)
        between()
    raise AssertionError("the list has no end")


def matches(task: Task, query: Query) -> bool:
    return (
        (not query.states or task.state in query.states)
        and query.owner in ("", task.owner)
        and ascii_lower(query.name) in ascii_lower(task.spec.name)
        and query.outcome in ("", task.end.outcome if task.end else None)
        and belongs(task, query)
    )


def belongs(task: Task, query: Query) -> bool:
    if query.array is not None:
        return task.element != PLAIN and task.id == query.array
    return query.elements or task.element == PLAIN


def ascii_lower(text: str) -> str:
    return "".join(c.lower() if c.isascii() else c for c in text)


def order_of(query: Query) -> Callable[[Task], tuple[Any, ...]]:
    never = (1, NOON)
    keys: dict[str, Callable[[Task], tuple[Any, ...]]] = {
        "id": lambda task: (task.key,),
        "submitted": lambda task: (task.key,),
        "finished": lambda task: ((0, task.finished_at) if task.finished_at else never, task.key),
        "position": lambda task: (task.position, task.key),
    }
    return keys["id" if query.array is not None else query.sort]


# ---- how they are found


BY_KEY = "PRIMARY KEY (is_whole=?"


@pytest.mark.parametrize(
    ("query", "few", "found"),
    [
        (Query(), True, BY_KEY),
        (Query(states=frozenset({State.FINISHED})), True, BY_KEY),
        (Query(states=LIVE), True, "INDEX tasks_unfinished (state=?"),
        (Query(states=LIVE), False, BY_KEY),
        (Query(elements=True), True, BY_KEY),
        (Query(elements=True, states=LIVE), True, "INDEX tasks_unfinished (state=?"),
        (Query(array=17), True, f"{BY_KEY} AND id=? AND element>?"),
        (Query(array=17, states=LIVE), True, "INDEX tasks_unfinished (state=?"),
        (
            Query(states=frozenset({State.FINISHED}), sort="finished"),
            True,
            "INDEX tasks_finished (",
        ),
        (Query(outcome="lost", sort="finished"), True, "INDEX tasks_finished ("),
        (
            Query(states=frozenset({State.QUEUED}), sort="position"),
            True,
            "INDEX tasks_unfinished (state=?",
        ),
        (
            Query(elements=True, states=frozenset({State.QUEUED}), sort="position"),
            True,
            "INDEX tasks_unfinished (state=?",
        ),
    ],
)
@pytest.mark.parametrize("follows", [False, True])
@sqlite_only
async def test_a_page_is_found_by_an_index_and_costs_the_same_at_any_depth(
    store: SqlStore, query: Query, few: bool, found: str, follows: bool
) -> None:
    lives = [new(id, None, *([] if id % 2 else [ended_early(id)])) for id in range(1, 41)]
    await store.record(lives)
    if follows:
        row = (1, -1, *(None,) * (len(LISTED) - 2), *([] if query.sort == "id" else [NEVER - 1]))
        query = structs.replace(query, cursor=cursor_after(query, row))
    sql, parameters = store.readers._paging.statement(query, few=few)

    plan = [row[3] for row in store._pool.fetch(f"EXPLAIN QUERY PLAN {sql}", parameters)]

    assert not any(step.startswith("SCAN tasks") for step in plan), plan
    first = next(step for step in plan if step.startswith("SEARCH tasks"))
    assert found in first, plan
    if follows and few and query.array is None and not query.states & LIVE:
        assert "<" in first, plan
    must_sort = query.sort == "id" and "tasks_unfinished" in found
    assert any("ORDER BY" in step for step in plan) == must_sort, plan


@sqlite_only
async def test_what_is_looked_up_by_its_key_is_planned_once(store: SqlStore) -> None:
    """An index for one value of a key's column would make SQLite plan again for every value."""
    await store.record([new(id) for id in range(1, 9)])
    planned = 0

    def count(*_: object) -> int:
        nonlocal planned
        planned += 1
        return sqlite3.SQLITE_OK

    with store._pool.snapshot() as cursor:
        connection: Any = cursor.connection  # type: ignore[attr-defined]
        connection.set_authorizer(count)
        try:
            for sql in (store._reads.task.sql, store._reads.listed_task.sql):
                cursor.execute(sql, (1, -1)).fetchall()
                planned = 0
                for id in range(2, 9):
                    assert len(cursor.execute(sql, (id, -1)).fetchall()) == 1
                    cursor.execute(sql, (id, 0)).fetchall()
                assert planned == 0
        finally:
            connection.set_authorizer(None)


def ended_early(id: int) -> Ended:
    return Ended(at=at(id), end=End(outcome="cancelled", reason="cancelled"))


async def test_few_are_sorted_and_many_are_walked(store: SqlStore) -> None:
    query = Query(states=WAITING)
    probe = store.readers._paging.probe(query)
    assert probe is not None

    await store.record([new(id) for id in range(1, FEW + 1)])
    assert store._pool.fetch(probe) == [(FEW,)]
    await store.record([new(id) for id in range(FEW + 1, FEW + 100)])
    assert store._pool.fetch(probe) == [(FEW + 1,)]

    assert walk(store, structs.replace(query, limit=100)) == [
        str(id) for id in range(FEW + 99, 0, -1)
    ]


@sqlite_only
async def test_elements_stand_in_the_way_of_no_list(store: SqlStore) -> None:
    """Steps of the database's machine are counted: a list of tasks does not walk elements."""
    await store.record(
        [new(id, None, *([] if id % 2 else [ended_early(id)])) for id in range(1, 9)]
    )
    queries = [
        Query(),
        Query(descending=False),
        Query(states=WAITING),
        Query(states=LIVE),
        Query(states=frozenset({State.FINISHED})),
        Query(states=frozenset({State.FINISHED}), sort="finished"),
        Query(states=frozenset({State.QUEUED}), sort="position"),
        Query(sort="finished"),
        Query(owner="ana", name="x"),
        Query(array=17, states=LIVE),
    ]
    array = new(17, a_spec(array="0-9999"))
    await store.record([array])
    before = [steps(store, query) for query in queries]
    await store.record([element(array.task, n, ended_early(n)) for n in range(5000)])

    after = [steps(store, query) for query in queries]

    assert all(late <= early + 2 for early, late in zip(before, after, strict=True)), (
        before,
        after,
    )
    assert steps(store, Query(elements=True, owner="bob")) > 100  # this is how a walk looks


@sqlite_only
async def test_deep_in_an_array_a_page_costs_the_same(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9999"))
    await store.record([array])
    await store.record([element(array.task, n, ended_early(n)) for n in range(5000)])
    query = Query(array=17, limit=10)
    deep = cursor_after(query, (17, 4900, *(None,) * (len(LISTED) - 2)))

    assert steps(store, structs.replace(query, cursor=deep)) <= steps(store, query) + 2
    rows, _ = store.readers.page(structs.replace(query, cursor=deep))
    assert msgspec.json.decode(rows[0][0])["id"] == "17_4901"


def steps(store: SqlStore, query: Query) -> int:
    """Hundreds of steps that SQLite's machine takes for one page."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    with store._pool.snapshot() as cursor:
        connection: Any = cursor.connection  # type: ignore[attr-defined]
        connection.set_progress_handler(count, 100)
        try:
            cursor.execute(*store.readers._paging.statement(query)).fetchall()
        finally:
            connection.set_progress_handler(None, 100)
    return counted
