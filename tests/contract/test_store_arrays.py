"""One suite for every database: arrays, their elements, and deleting."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from stoker.domain.errors import StaleWrite
from stoker.domain.event import (
    Deleted,
    Edited,
    Ended,
    Event,
    Held,
    Moved,
    Released,
    Requeued,
    StopRequested,
)
from stoker.domain.indices import Indices
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.outcome import End
from stoker.store.base import Change
from stoker.store.recorder import SqlStore
from tests.helpers.builders import a_spec, at, element, ended, move, new, placed, started

from .conftest import Open

# ---- arrays


async def test_an_element_becomes_a_row_with_its_array_s_spec(store: SqlStore) -> None:
    array = new(17, a_spec(name="sweep", array="0-9%4"))
    await store.record([array])
    change = element(array.task, 3, placed("a1"), started("a1"))

    await store.record([change])

    assert await store.task(TaskKey(17, 3)) == change.task
    assert await store.history(TaskKey(17, 3)) == list(change.events)
    assert await store.task(TaskKey(17)) == array.task
    ((task, attempt),) = await store.live()
    assert (task, attempt.task) == (change.task, TaskKey(17, 3))


async def test_an_element_keeps_the_spec_it_began_with(store: SqlStore) -> None:
    array = new(17, a_spec(name="old", array="0-9"))
    first = element(array.task, 0, placed("a1"))
    await store.record([array])
    await store.record([first])
    edited = move(array.task, Edited(at=at(2), by="ana", spec=a_spec(name="new", array="0-9")))
    await store.record([edited])
    second = element(edited.task, 1, placed("a2", number=2))
    await store.record([second])

    found = await store.tasks([TaskKey(17, 0), TaskKey(17, 1), TaskKey(17)])

    assert found == [first.task, second.task, edited.task]
    assert [task.spec.name for task in found] == ["old", "new", "new"]
    assert await store.history(TaskKey(17, 0)) == list(first.events)


async def test_an_element_may_be_edited_by_itself(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9"))
    await store.record([array])
    own = a_spec(name="own", array="0-9")
    change = element(array.task, 2, Edited(at=at(2), by="ana", spec=own), Held(at=at(2), by="ana"))
    await store.record([change])
    again = move(change.task, Edited(at=at(3), by="ana", spec=a_spec(name="twice", array="0-9")))
    await store.record([again])

    assert await store.task(TaskKey(17, 2)) == again.task
    assert await store.history(TaskKey(17, 2)) == [*change.events, *again.events]


async def test_many_elements_begin_in_one_transaction(store: SqlStore) -> None:
    arrays = [new(id, a_spec(name=f"n{id}", array="0-99")) for id in (1, 2)]
    await store.record(arrays)
    changes = [
        element(array.task, n, ended(None, "cancelled", "cancelled"))
        for array in arrays
        for n in range(100)
    ]

    await store.record(changes)

    assert await store.tasks([change.task.key for change in changes]) == [c.task for c in changes]


@pytest.mark.parametrize(
    "event",
    [
        Held(at=at(1), by="ana"),
        StopRequested(at=at(1), by="ana"),
        Edited(at=at(1), by="ana", spec=a_spec(array="0-3")),
        Moved(at=at(1), by="ana", position=5),
        Ended(
            at=at(1),
            end=End(outcome="cancelled", reason="cancelled"),
            counts={"cancelled": 10},
        ),
    ],
    ids=lambda event: type(event).__name__,
)
async def test_nothing_begins_after_something_was_said_to_the_array(
    store: SqlStore, event: Event
) -> None:
    array = new(17, a_spec(array="0-9"))
    await store.record([array])
    await store.record([move(array.task, event)])

    with pytest.raises(StaleWrite):
        await store.record([element(array.task, 3, placed("a1"))])

    assert await store.task(TaskKey(17, 3)) is None
    assert await store.attempt("a1") is None


async def test_an_element_without_its_array_is_refused(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9"))

    with pytest.raises(StaleWrite):
        await store.record([element(array.task, 3, placed("a1"))])


async def test_an_element_begins_once(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9"))
    await store.record([array])
    first = element(array.task, 3, placed("a1"))
    await store.record([first])

    with pytest.raises(StaleWrite):
        await store.record([element(array.task, 3, placed("a2", number=2))])

    assert await store.task(TaskKey(17, 3)) == first.task


async def test_a_row_that_waits_can_be_tied_to_its_array_too(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9"))
    waits = element(array.task, 3, placed("a1"), Requeued(at=at(2), attempt="a1"))
    await store.record([array])
    await store.record([waits])
    await store.record([move(array.task, Held(at=at(2), by="ana"))])
    again = move(waits.task, placed("a2", number=2))

    with pytest.raises(StaleWrite):
        await store.record([Change(again.task, again.events, array.task.version)])

    await store.record([Change(again.task, again.events, array.task.version + 1)])
    assert await store.task(TaskKey(17, 3)) == again.task


async def test_calls_for_an_array_and_its_element_keep_their_order(store: SqlStore) -> None:
    arrays = [new(id, a_spec(array="0-9")) for id in (1, 2)]
    await store.record(arrays)
    holds = [move(array.task, Held(at=at(1), by="ana")) for array in arrays]
    begins = [element(a.task, 0, placed(f"a{a.task.id}", number=a.task.id)) for a in arrays]

    told_first, began_late, began_first, told_late = await asyncio.gather(
        store.record([holds[0]]),
        store.record([begins[0]]),
        store.record([begins[1]]),
        store.record([holds[1]]),
        return_exceptions=True,
    )

    assert isinstance(began_late, StaleWrite)
    assert [isinstance(o, int) for o in (told_first, began_first, told_late)] == [True] * 3
    assert [task.key for task, _ in await store.live()] == [TaskKey(2, 0)]


async def test_an_array_and_its_element_in_one_call(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9"))
    held = move(array.task, Held(at=at(1), by="ana"))

    await store.record([array, element(array.task, 3, placed("a1")), held])
    with pytest.raises(StaleWrite):
        await store.record(
            [
                move(held.task, Released(at=at(2), by="ana")),
                element(held.task, 4, Released(at=at(2), by="ana")),
            ]
        )

    assert await store.task(TaskKey(17)) == held.task
    assert await store.task(TaskKey(17, 4)) is None


async def test_arrays_tell_what_became_of_their_elements(store: SqlStore) -> None:
    array, ending = new(17, a_spec(array="0-99")), new(18, a_spec(array="0-1", hold=True))
    over = Ended(
        at=at(3), end=End(outcome="cancelled", reason="cancelled"), counts={"cancelled": 3}
    )
    await store.record([new(1), array, ending, new(19, a_spec(array="0-2"), over)])
    lost = ("lost", "rebooted")
    await store.record(
        [
            *(element(array.task, n, ended(None, "cancelled", "cancelled")) for n in range(5)),
            element(array.task, 5, placed("a5", number=5)),
            element(array.task, 6, placed("a6", number=6), started("a6")),
            element(array.task, 7, placed("a7", number=7), started("a7"), ended("a7")),
            element(array.task, 50, placed("b1", number=8), started("b1"), ended("b1", *lost)),  # type: ignore[arg-type]
            element(array.task, 51, placed("b2", number=9), Requeued(at=at(2), attempt="b2")),
            element(array.task, 99, Held(at=at(2), by="ana")),
        ]
    )
    await store.record([move(ending.task, StopRequested(at=at(3), by="ana"))])

    first, second = await store.arrays()

    assert (first.id, second.id) == (17, 18)
    assert first.unfolded == Indices(((0, 7), (50, 51), (99, 99)))
    assert first.states == {
        State.FINISHED: 7,
        State.STARTING: 1,
        State.RUNNING: 1,
        State.QUEUED: 1,
        State.HELD: 1,
    }
    assert first.outcomes == {"cancelled": 5, "succeeded": 1, "lost": 1}
    assert (second.unfolded, second.states, second.outcomes) == (Indices(), {}, {})
    assert [row.key for row in await store.waiting()] == [
        TaskKey(1), TaskKey(17), TaskKey(17, 51), TaskKey(17, 99),
    ]  # fmt: skip


async def test_a_stopping_array_is_no_attempt(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9"), StopRequested(at=at(1), by="ana"))
    await store.record([array])

    assert await store.live() == []
    assert await store.waiting() == []
    assert [row.id for row in await store.arrays()] == [17]
    counts = {"cancelled": 10}
    end = End(outcome="cancelled", reason="cancelled")
    done = move(array.task, Ended(at=at(2), end=end, counts=counts))
    await store.record([done])
    assert await store.task(TaskKey(17)) == done.task
    assert await store.arrays() == []


async def test_elements_that_ended_so(store: SqlStore) -> None:
    array, other = new(17, a_spec(array="0-9")), new(18, a_spec(array="0-9"))
    await store.record([array, other])
    fail = ("failed", "exit_code")
    await store.record(
        [
            element(array.task, 3, placed("a3", number=1), started("a3"), ended("a3", *fail)),  # type: ignore[arg-type]
            element(array.task, 4, placed("a4", number=2), started("a4"), ended("a4", *fail)),  # type: ignore[arg-type]
            element(array.task, 5, placed("a5", number=3), started("a5"), ended("a5")),
            element(array.task, 6, ended(None, "cancelled", "cancelled")),
            element(array.task, 7, placed("a7", number=4), started("a7")),
            element(other.task, 1, placed("b1", number=5), started("b1"), ended("b1", *fail)),  # type: ignore[arg-type]
        ]
    )

    assert await store.ended(17, ("failed", "lost")) == Indices.only(3, 4)
    assert await store.ended(17, ("cancelled",)) == Indices.only(6)
    assert await store.ended(17, ("lost",)) == await store.ended(99, ("failed",)) == Indices()


async def test_a_sweep_is_kept_in_its_order(store: SqlStore) -> None:
    sweep = {"b": ("1", "2"), "a": ("x", "y")}
    array = new(17, a_spec(command=("x", "{a}", "{b}"), sweep=sweep, array="%1"))
    await store.record([array])
    await store.record([element(array.task, 2, placed("a1"), started("a1"), ended("a1"))])

    found = await store.task(TaskKey(17, 2))

    assert found is not None
    assert list(found.spec.sweep.items()) == list(sweep.items())
    assert [row.id for row in await store.arrays()] == [17]


async def test_outcomes_are_of_what_has_ended(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9"))
    await store.record([new(1), new(2, None, placed("a1"), started(), ended()), array])
    await store.record([element(array.task, 3, ended(None, "cancelled", "cancelled"))])
    keys = [TaskKey(1), TaskKey(2), TaskKey(3), TaskKey(17), TaskKey(17, 3), TaskKey(17, 4)]

    assert await store.outcomes(keys) == {
        TaskKey(1): None,
        TaskKey(2): "succeeded",
        TaskKey(17): None,
        TaskKey(17, 3): "cancelled",
    }
    assert await store.outcomes([]) == {}


async def test_attempts_of_an_array_are_those_of_its_elements(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9"))
    again = (placed("a1"), Requeued(at=at(2), attempt="a1"), placed("a2", number=2))
    await store.record([new(1, None, *again), array, new(3)])
    await store.record([element(array.task, n, placed(f"e{n}", number=n)) for n in (3, 4)])

    assert await store.attempts_of([TaskKey(1)]) == ["a1", "a2"]
    assert await store.attempts_of([TaskKey(17)]) == ["e3", "e4"]
    assert await store.attempts_of([TaskKey(17, 4)]) == ["e4"]
    assert await store.attempts_of([TaskKey(3), TaskKey(99)]) == []


# ---- deleting


async def test_an_erased_task_leaves_one_event_and_its_id_is_not_given_again(
    store_open: Open,
) -> None:
    store = store_open()
    done = new(1, a_spec(gpus=1), placed("a1", 0), started(), ended())
    waits = new(2)
    await store.record([done, waits])
    gone = Deleted(at=at(9), by="ana")

    seq = await store.erase([done.task, waits.task], gone)

    assert seq == store.readers.last_seq() == 7
    assert await store.tasks([TaskKey(1), TaskKey(2)]) == []
    assert await store.attempt("a1") is None
    assert await store.history(TaskKey(1)) == [structs.replace(gone, owner=done.task.owner)]
    assert [(e.task, e.event) for e in store.readers.events_after(0, 10)] == [
        ("1", "Deleted"),
        ("2", "Deleted"),
    ]
    assert store.check() == []
    store = store_open()
    assert list(store.next_ids(1)) == [3]
    assert await store.record([new(3)]) == 8


async def test_events_say_whose_they_are_also_when_only_one_is_left(store: SqlStore) -> None:
    array, other = new(17, a_spec(array="0-9"), owner="ana"), new(18, owner="bo")
    await store.record([array, other])
    await store.record([element(array.task, 1, Held(at=at(2), by="root"))])
    await store.erase([other.task], Deleted(at=at(9), by="root"))

    told = store.readers.owned_events_after(0, 10)

    assert [(event.task, event.event, event.owner) for event in told] == [
        ("17", "Submitted", "ana"),
        ("17_1", "Unfolded", "ana"),
        ("17_1", "Held", "ana"),
        ("18", "Deleted", "bo"),
    ]
    plain = store.readers.events_after(0, 10)
    assert [event._replace(owner="") for event in told] == plain


async def test_an_array_is_erased_with_its_elements(store: SqlStore) -> None:
    array, other = new(17, a_spec(array="0-9")), new(18)
    await store.record([array, other])
    await store.record(
        [
            element(array.task, 1, placed("a1"), started(), ended()),
            element(array.task, 2, Held(at=at(2), by="ana")),
        ]
    )

    await store.erase([array.task], Deleted(at=at(9), by="ana"))

    keys = [TaskKey(17), TaskKey(17, 1), TaskKey(17, 2), TaskKey(18)]
    assert await store.tasks(keys) == [other.task]
    assert await store.attempts_of([TaskKey(17)]) == []
    assert await store.history(TaskKey(17, 1)) == []
    with pytest.raises(StaleWrite):
        await store.record([element(array.task, 3, placed("a3", number=3))])


async def test_an_element_of_an_erased_array_does_not_move(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9"))
    waits = element(array.task, 1, Held(at=at(2), by="ana"))
    await store.record([array])
    await store.record([waits])
    await store.erase([array.task], Deleted(at=at(9), by="ana"))

    with pytest.raises(StaleWrite):
        await store.record([move(waits.task, Released(at=at(10), by="ana"))])

    assert await store.waiting() == []


async def test_what_has_changed_is_not_erased(store: SqlStore) -> None:
    first, second = new(1), new(2)
    await store.record([first, second])
    held = move(second.task, Held(at=at(1), by="ana"))
    await store.record([held])

    with pytest.raises(StaleWrite):
        await store.erase([first.task, second.task], Deleted(at=at(9), by="ana"))

    assert await store.tasks([TaskKey(1), TaskKey(2)]) == [first.task, held.task]
    await store.erase([first.task], Deleted(at=at(9), by="ana"))
    with pytest.raises(StaleWrite):  # a second time
        await store.erase([first.task], Deleted(at=at(9), by="ana"))


async def test_what_lives_is_not_erased(store: SqlStore) -> None:
    runs, array = new(1, a_spec(gpus=1), placed("a1", 0)), new(17, a_spec(array="0-9"))
    await store.record([runs, array])
    await store.record([element(array.task, 1, placed("a2", number=2))])

    for task in (runs.task, array.task):
        with pytest.raises(StaleWrite):
            await store.erase([task], Deleted(at=at(9), by="ana"))

    assert len(await store.live()) == 2


async def test_a_stale_erase_harms_no_call_beside_it(store: SqlStore) -> None:
    tasks = [new(id) for id in range(1, 20)]
    await store.record(tasks)
    await store.erase([tasks[3].task], Deleted(at=at(8), by="ana"))
    calls = [store.erase([change.task], Deleted(at=at(9), by="ana")) for change in tasks[:10]]
    others = [store.record([move(c.task, Held(at=at(9), by="ana"))]) for c in tasks[10:]]

    outcomes = await asyncio.gather(*calls, *others, return_exceptions=True)

    assert [i for i, o in enumerate(outcomes) if isinstance(o, BaseException)] == [3]
    assert [row.key.id for row in await store.waiting()] == list(range(11, 20))
