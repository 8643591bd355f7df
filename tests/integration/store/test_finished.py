"""Finished tasks by their end: each once, in order, with what their attempts took."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec import structs

from stoker.domain.event import Deleted, Ended, Requeued
from stoker.domain.key import TaskKey
from stoker.domain.outcome import End, Outcome
from stoker.store.base import Change
from stoker.store.codec import to_us
from stoker.store.finished import NEWEST, FinishedRow, Place, Wanted
from stoker.store.recorder import SqlStore
from tests.helpers.builders import a_spec, at, element, ended, move, new, placed, started


def over(id: int, seconds: float, owner: str = "ana", outcome: Outcome = "succeeded") -> Change:
    """A task that ended then."""
    end = End(outcome=outcome, reason="exit_zero", exit_code=0)
    last = Ended(at=at(seconds), attempt=f"a{id}", end=end)
    return new(id, None, placed(f"a{id}"), started(f"a{id}"), last, owner=owner)


def everything(store: SqlStore, wanted: Wanted, size: int) -> list[FinishedRow]:
    rows: list[FinishedRow] = []
    place = NEWEST
    while page := store.readers.finished.page(wanted, place, size):
        assert len(page) <= size
        rows += page
        place = page[-1].place
    return rows


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_the_newest_end_first_and_each_once(store: SqlStore, size: int) -> None:
    await store.record([over(1, 50), over(2, 90), over(3, 50), over(4, 10), new(5)])

    found = everything(store, Wanted(), size)

    assert [row.key.id for row in found] == [2, 3, 1, 4]


async def test_filters(store: SqlStore) -> None:
    await store.record(
        [over(1, 10, "ana"), over(2, 20, "bob", "failed"), over(3, 30, "bob"), over(4, 40, "ana")]
    )

    def ids(wanted: Wanted, before: Place = NEWEST) -> list[int]:
        return [row.key.id for row in store.readers.finished.page(wanted, before, 10)]

    assert ids(Wanted(owner="bob")) == [3, 2]
    assert ids(Wanted(owner="bob", outcome="failed")) == [2]
    assert ids(Wanted(since_us=to_us(at(20)))) == [4, 3, 2]
    assert ids(Wanted(since_us=to_us(at(20))), Place(to_us(at(40)), 0)) == [3, 2]
    assert ids(Wanted(owner="nobody")) == []


async def test_what_all_attempts_took_and_held(store: SqlStore) -> None:
    # `uuid` as a node's name must not count as a card
    first = placed("a1", 0, 1, 2)
    first = structs.replace(first, allocation=structs.replace(first.allocation, node="uuid"))
    again = Requeued(at=at(7), attempt="a1", end=End(outcome="failed", reason="exit_code"))
    second = structs.replace(placed("a2", 3), at=at(8), launch_number=2)
    began = structs.replace(started("a2"), at=at(9))
    done = structs.replace(ended("a2"), at=at(11))
    await store.record([new(1, a_spec(gpus=3), first, started("a1"), again, second, began, done)])

    row = store.readers.finished.one(TaskKey(1))

    assert row is not None
    assert row.ran_us == 7_000_000  # from 2 to 7, from 9 to 11
    assert row.held_us == 17_000_000  # three cards, then one


async def test_an_array_has_what_its_elements_took(store: SqlStore) -> None:
    array = new(1, a_spec(array="0-9", gpus=1))
    await store.record([array])
    one = element(array.task, 3, placed("a1", 0), started("a1"), ended("a1"))
    two = element(array.task, 5, placed("b2", 1), started("b2"), ended("b2"))
    await store.record([one, two])
    end = End(outcome="cancelled", reason="cancelled")
    counts = {"succeeded": 2, "cancelled": 8}
    whole = move(array.task, Ended(at=at(60), end=end, counts=counts))
    await store.record([whole, over(2, 5)])

    finished = store.readers.finished

    assert [row.key for row in everything(store, Wanted(), 1)] == [TaskKey(1), TaskKey(2)]
    assert finished.page(Wanted(), NEWEST, 1)[0].held_us == 2_000_000
    assert [row.key.element for row in finished.elements(1, -1, 10)] == [3, 5]
    assert [row.key.element for row in finished.elements(1, 3, 10)] == [5]
    assert finished.elements(1, -1, 10)[0].ran_us == 1_000_000
    assert finished.one(TaskKey(1, 4)) is None
    assert [row.key.id for row in everything(store, Wanted(outcome="succeeded"), 10)] == [2]
    arrays_too = Wanted(outcome="succeeded", also_arrays=True)
    assert [row.key.id for row in everything(store, arrays_too, 10)] == [1, 2]

    await store.erase([whole.task], Deleted(at=at(70), by="ana"))
    assert finished.elements(1, -1, 10) == []
    assert finished.one(TaskKey(1, 3)) is None


async def test_what_ends_or_goes_meanwhile_disturbs_no_walk(store: SqlStore) -> None:
    await store.record([over(id, id) for id in range(1, 7)])
    first = store.readers.finished.page(Wanted(), NEWEST, 2)
    await store.record([over(9, 100)])
    task = await store.task(TaskKey(4))
    assert task is not None
    await store.erase([task], Deleted(at=at(200) + timedelta(days=1), by="retention"))

    rest = store.readers.finished.page(Wanted(), first[-1].place, 10)

    assert [row.key.id for row in first + rest] == [6, 5, 3, 2, 1]
