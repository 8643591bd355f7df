"""What a deleted array leaves: seen by nobody, taken away in steps, also after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing

import pytest
from msgspec import structs

from stoker.domain.errors import StaleWrite, StoreDown
from stoker.domain.event import Deleted, Edited, Held, Released, Requeued
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.store import sweeping
from stoker.store.paging import Query
from stoker.store.recorder import SqlStore, open_store
from tests.helpers.builders import a_spec, at, element, ended, move, new, placed, started

from .conftest import Records, Where
from .inline import InlineWriter, nothing

ARRAY = new(17, a_spec(array="0-99"))
OTHER = new(18, a_spec(array="0-99"))
GONE = Deleted(at=at(9), by="ana")
SWEEPING = "_sweep_asked"


class Killed(Exception):
    pass


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two elements or so at a time."""
    monkeypatch.setattr(sweeping, "ROWS", 8)


@pytest.fixture
def open_with(where: Where) -> Iterator[Callable[..., SqlStore]]:
    opened: list[SqlStore] = []

    def open_inline(ahead: Callable[[str], Awaitable[None]] = nothing) -> SqlStore:
        opened.append(open_store(where, lambda engine: InlineWriter(engine, ahead)))
        return opened[-1]

    yield open_inline
    for store in opened:
        store.close()


async def fill(store: SqlStore) -> None:
    """Two arrays whose elements have finished, wait, are held, and were edited."""
    await store.record([new(1), ARRAY, OTHER])
    for array, letter in ((ARRAY, "a"), (OTHER, "b")):
        edit = Edited(at=at(2), by="ana", spec=a_spec(name="own", array="0-99"))
        number = iter(range(array.task.id * 100, array.task.id * 100 + 99))
        life = [
            (placed(f"{letter}{n}", number=next(number)), started(f"{letter}{n}"),
             ended(f"{letter}{n}"))
            for n in range(20)
        ]  # fmt: skip
        again = (
            placed(f"{letter}20", number=next(number)),
            Requeued(at=at(2), attempt=f"{letter}20"),
        )
        await store.record(
            [
                *(element(array.task, n, *events) for n, events in enumerate(life)),
                element(array.task, 20, *again),
                element(array.task, 21, Held(at=at(2), by="ana")),
                element(array.task, 22, edit),
            ]
        )


def left(where: Where, id: int = 17) -> tuple[int, int, int]:
    """Rows of this array's elements: tasks, events, attempts."""
    with closing(Records(where)) as database:
        count = "SELECT count(*) FROM {} WHERE {} = ? AND element >= 0"
        tasks, events, attempts = (
            database.execute(count.format(table, column), (id,)).fetchone()[0]
            for table, column in (("tasks", "id"), ("events", "task_id"), ("attempts", "task_id"))
        )
    return tasks, events, attempts


def noted(store: SqlStore) -> bool:
    return bool(store._pool.fetch("SELECT 1 FROM meta WHERE key = 'sweep'"))


async def swept(store: SqlStore) -> None:
    async with asyncio.timeout(20):
        while noted(store):
            await asyncio.sleep(0.001)


ALL = (23, 20 * 4 + 3 + 2 + 2, 21)
"""What an array has to leave."""


def dies_after(steps: int) -> Callable[[str], Awaitable[None]]:
    seen = 0

    async def ahead(name: str) -> None:
        nonlocal seen
        if name == SWEEPING:
            if seen == steps:
                raise Killed
            seen += 1

    return ahead


async def delete_and_die(open_with: Callable[..., SqlStore], steps: int) -> SqlStore:
    """The records of a server that was killed after so many steps; open, and nothing goes on."""
    store = open_with(dies_after(steps))
    await fill(store)
    with pytest.raises(Killed):
        await store.erase([ARRAY.task], GONE)
    return store


# ---- what is left


async def test_what_is_left_is_seen_by_nobody(
    open_with: Callable[..., SqlStore], where: Where
) -> None:
    store = await delete_and_die(open_with, 0)
    assert left(where) == ALL

    keys = [TaskKey(17, n) for n in range(23)]
    assert await store.tasks([TaskKey(17), *keys]) == []
    assert await store.outcomes(keys) == {}
    assert await store.attempts_of([TaskKey(17), *keys]) == []
    assert await store.live() == []
    assert {row.key.id for row in await store.waiting()} == {1, 18}
    assert [row.id for row in await store.arrays()] == [18]
    for n in (0, 20, 22):
        assert await store.task(TaskKey(17, n)) is None
        assert await store.attempt(f"a{n}") is None
        assert await store.history(TaskKey(17, n)) == []
        assert store.readers.detail(TaskKey(17, n)) is None
        assert store.readers.events_of(TaskKey(17, n)) == []
        assert store.readers.attempts_of(TaskKey(17, n)) == []
    assert await store.attempt("b0") is not None
    assert store.readers.counts()[State.QUEUED] == 2


@pytest.mark.parametrize("sort", ["id", "finished", "position"])
@pytest.mark.parametrize(
    "states",
    [frozenset(), frozenset({State.QUEUED}), frozenset({State.FINISHED}), frozenset({State.HELD})],
    ids=str,
)
async def test_what_is_left_is_in_no_list(
    open_with: Callable[..., SqlStore], sort: str, states: frozenset[State]
) -> None:
    store = await delete_and_die(open_with, 1)

    queries = [
        Query(states=states, sort=sort, limit=100),  # type: ignore[arg-type]
        Query(states=states, sort=sort, elements=True, limit=100),  # type: ignore[arg-type]
        Query(states=states, array=17, limit=100),
    ]

    pages = [store.readers.page(query)[0] for query in queries]
    assert not any('"id":"17' in shown for page in pages for shown, *_ in page)
    assert len(pages[1]) >= len(pages[0])
    assert pages[2] == []
    assert any('"id":"18_' in shown for shown, *_ in pages[1])


async def test_what_is_left_does_not_move(open_with: Callable[..., SqlStore]) -> None:
    store = await delete_and_die(open_with, 0)
    held = element(ARRAY.task, 21, Held(at=at(2), by="ana")).task

    for change in (
        move(held, Released(at=at(10), by="ana")),
        move(held, Edited(at=at(10), by="ana", spec=a_spec(array="0-99"))),
        element(ARRAY.task, 50, Held(at=at(10), by="ana")),
    ):
        with pytest.raises(StaleWrite):
            await store.record([change])

    with pytest.raises(StaleWrite):
        await store.erase([ARRAY.task], GONE)


@pytest.mark.parametrize("steps", [0, 3])
async def test_what_is_left_is_sound_only_while_it_is_to_be_swept(
    open_with: Callable[..., SqlStore], where: Where, steps: int
) -> None:
    store = await delete_and_die(open_with, steps)
    assert store.check() == []

    with closing(Records(where)) as database:
        database.execute("DELETE FROM meta WHERE key = 'sweep'")
        forgotten = store.check()
        database.execute("INSERT INTO meta VALUES ('sweep', '17 18')")
        too_much = store.check()

    assert "Task 17_22 is an element, but there is no array 17." in forgotten
    assert "Task 17_22 was deleted but is there." in forgotten
    assert too_much == ["Array 18 is to be swept away but was not deleted."]


# ---- how it goes


@pytest.mark.parametrize("steps", [0, 1, 5])
async def test_the_next_server_sweeps_what_a_killed_one_left(
    open_with: Callable[..., SqlStore], where: Where, steps: int
) -> None:
    dead = await delete_and_die(open_with, steps)
    tasks, events, _ = left(where)
    assert (0 < events < ALL[1]) if steps else (events == ALL[1])
    assert 0 < tasks <= ALL[0]
    dead.close()

    store = open_store(where)
    try:
        await swept(store)

        assert left(where) == (0, 0, 0)
        assert left(where, 18) == ALL
        assert await store.history(TaskKey(17)) == [structs.replace(GONE, owner="ana")]
        assert store.check() == []
        assert store.next_ids(1)[0] == 19
    finally:
        store.close()


async def test_a_server_without_a_thread_sweeps_when_it_starts(
    open_with: Callable[..., SqlStore], where: Where
) -> None:
    (await delete_and_die(open_with, 2)).close()

    store = open_with()
    await store.raise_epoch()

    assert (left(where), noted(store)) == ((0, 0, 0), False)


async def test_others_write_between_two_steps(
    open_with: Callable[..., SqlStore], where: Where
) -> None:
    seen: list[int] = []

    async def ahead(name: str) -> None:
        if name == SWEEPING:
            tasks, *_ = left(where)
            seen.append(tasks)
            await store.record([new(100 + len(seen))])
            assert store.check() == []

    store = open_with(ahead)
    await fill(store)

    await store.erase([ARRAY.task], GONE)

    assert seen[0] == ALL[0]
    assert len(seen) > 10
    assert seen == sorted(seen, reverse=True)
    assert left(where) == (0, 0, 0)
    assert len(await store.tasks([TaskKey(101 + n) for n in range(len(seen))])) == len(seen)


async def test_several_arrays_at_once_and_one_after_the_other(
    store: SqlStore, where: Where
) -> None:
    await fill(store)
    third = new(19, a_spec(array="0-9"))
    await store.record([third])
    await store.record([element(third.task, n, Held(at=at(2), by="ana")) for n in range(10)])

    await store.erase([ARRAY.task, third.task], GONE)
    await store.erase([OTHER.task], GONE)
    await swept(store)

    assert [left(where, id) for id in (17, 18, 19)] == [(0, 0, 0)] * 3
    assert store.check() == []
    assert [row.key for row in await store.waiting()] == [TaskKey(1)]


async def test_a_disk_that_refuses_a_step_undoes_no_deletion(
    open_with: Callable[..., SqlStore], where: Where
) -> None:
    async def ahead(name: str) -> None:
        if name == SWEEPING:
            raise StoreDown(why="full")

    store = open_with(ahead)
    await fill(store)

    await store.erase([ARRAY.task], GONE)

    assert await store.task(TaskKey(17)) is None
    assert (left(where), noted(store)) == (ALL, True)


async def test_what_left_nothing_is_not_noted(store: SqlStore) -> None:
    await store.record([new(1), ARRAY, new(2, None, placed("a1"), started(), ended())])
    done = await store.task(TaskKey(2))
    assert done is not None

    await store.erase([ARRAY.task, done], GONE)

    assert not noted(store)


def test_opening_writes_nothing_when_there_is_nothing_to_sweep(store: SqlStore) -> None:
    assert store._own is not None
    assert store._own._step is None
