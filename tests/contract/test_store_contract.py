"""One suite for every database that keeps the records."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from msgspec import structs

from stoker.domain.errors import StaleWrite
from stoker.domain.event import (
    Edited,
    Ended,
    Event,
    Held,
    Moved,
    Placed,
    Released,
    Requeued,
    StopRequested,
    Submitted,
    Waived,
)
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, begin
from stoker.domain.node import Allocation, HeldGpu, Incarnation
from stoker.domain.outcome import End
from stoker.store.base import Change, Store
from stoker.store.finished import NEWEST, Wanted
from stoker.store.recorder import SqlStore
from tests.helpers.builders import (
    LIFE,
    NOON,
    a_spec,
    at,
    ended,
    move,
    new,
    placed,
    started,
    submitted,
)

from .conftest import Open


def test_it_is_a_store(store: SqlStore) -> None:
    as_flow_sees_it: Store = store
    assert as_flow_sees_it.check() == []


async def test_a_recorded_task_reads_back_as_it_was(store: SqlStore) -> None:
    spec = a_spec(name="训练", command="echo \"$HOME\" 'x'\n", env={"A": "\0\x01\u2028é"}, gpus=2)
    change = new(7, spec)

    seq = await store.record([change])

    assert await store.task(TaskKey(7)) == change.task
    assert await store.history(TaskKey(7)) == list(change.events)
    assert seq == store.readers.last_seq() == 1


async def test_every_step_of_a_life_reads_back(store: SqlStore) -> None:
    whole = new(1, a_spec(gpus=1))
    steps: list[Event] = [
        Held(at=at(1), by="ana"),
        Released(at=at(2), by="ana"),
        placed("a1", 0),
        started("a1"),
        StopRequested(at=at(5), by="bob", cause="requeue"),
        Requeued(at=at(6), attempt="a1", end=End(outcome="cancelled", reason="cancelled")),
        placed("a2", 1, number=2),
        started("a2"),
        Ended(
            at=at(9),
            attempt="a2",
            by="bob",
            end=End(outcome="failed", reason="exit_code", exit_code=3, ran_s=1.5, max_rss_mib=9),
        ),
    ]
    await store.record([whole])
    task = whole.task
    for step in steps:
        change = move(task, step)
        await store.record([change])
        task = change.task
        assert await store.task(task.key) == task
        assert store.check() == []

    assert await store.history(task.key) == [*whole.events, *steps]


async def test_submitted_and_placed_is_one_transaction(store: SqlStore) -> None:
    change = new(1, a_spec(gpus=2), placed("a1", 0, 1))

    assert await store.record([change]) == 2

    ((task, attempt),) = await store.live()
    assert task == change.task
    assert (attempt.id, attempt.ordinal, attempt.task) == ("a1", 1, TaskKey(1))
    assert attempt.allocation == placed("a1", 0, 1).allocation
    assert (attempt.incarnation, attempt.launch_number, attempt.epoch) == (LIFE, 1, 1)


async def test_a_life_in_one_change_leaves_nothing_held(store: SqlStore) -> None:
    end = End(outcome="lost", reason="rebooted")
    requeued = Requeued(at=at(3), attempt="a1", end=end)
    change = new(1, a_spec(gpus=1), placed("a1", 0), started(), requeued, placed("a2", 0, number=2))
    await store.record([change])
    await store.record([move(change.task, ended("a2"))])

    first, second = store.readers.attempts_of(TaskKey(1))
    assert (first.ordinal, first.started_at, first.ended_at, first.end) == (1, at(2), at(3), end)
    assert (second.ordinal, second.started_at, second.ended_at) == (2, None, at(3))


async def test_an_instant_keeps_its_microsecond_and_comes_back_in_utc(store: SqlStore) -> None:
    moment = datetime(2026, 3, 4, 5, 6, 7, 123457, tzinfo=timezone(timedelta(hours=8)))
    first = submitted()
    first = type(first)(at=moment, owner="ana", spec=first.spec, position=1)
    await store.record([Change(begin(TaskKey(1), first), (first,))])

    task = await store.task(TaskKey(1))

    assert task is not None
    assert task.submitted_at == moment
    assert task.submitted_at.tzinfo is UTC


# ---- guards


async def test_a_stale_version_is_refused_and_changes_nothing(store: SqlStore) -> None:
    change = new(1)
    await store.record([change])
    held = move(change.task, Held(at=at(1), by="ana"))
    await store.record([held])

    with pytest.raises(StaleWrite):
        await store.record([move(change.task, Held(at=at(2), by="bob"))])

    assert await store.task(TaskKey(1)) == held.task
    assert len(await store.history(TaskKey(1))) == 2


async def test_a_task_that_exists_is_not_created_again(store: SqlStore) -> None:
    await store.record([new(1)])

    with pytest.raises(StaleWrite):
        await store.record([new(1, a_spec(name="other"))])

    task = await store.task(TaskKey(1))
    assert task is not None
    assert task.spec.name == ""


async def test_a_task_that_does_not_exist_cannot_move(store: SqlStore) -> None:
    with pytest.raises(StaleWrite):
        await store.record([move(new(1).task, Held(at=at(1), by="ana"))])

    assert await store.task(TaskKey(1)) is None


async def test_all_changes_of_a_call_or_none(store: SqlStore) -> None:
    first = new(1)
    await store.record([first])
    stale = move(first.task, Held(at=at(1), by="ana"))
    await store.record([stale])

    with pytest.raises(StaleWrite):
        await store.record([new(2), stale, new(3)])

    assert await store.tasks([TaskKey(2), TaskKey(3)]) == []
    assert store.readers.last_seq() == 2


async def test_two_changes_of_one_task_in_a_call_are_taken_in_order(store: SqlStore) -> None:
    first = new(1, a_spec(gpus=1))
    second = move(first.task, placed("a1", 0))
    third = move(second.task, ended("a1"))

    await store.record([first, second, third])

    assert await store.task(TaskKey(1)) == third.task
    assert await store.live() == []


async def test_a_card_is_never_given_twice(store: SqlStore) -> None:
    await store.record([new(1, a_spec(gpus=2), placed("a1", 0, 1)), new(2, a_spec(gpus=1))])
    waiting = await store.task(TaskKey(2))
    assert waiting is not None

    with pytest.raises(StaleWrite):
        await store.record([move(waiting, placed("a2", 1, number=2))])

    assert await store.task(TaskKey(2)) == waiting
    assert await store.attempt("a2") is None


async def test_a_card_passes_on_within_one_transaction(store: SqlStore) -> None:
    first, second = new(1, a_spec(gpus=1), placed("a1", 0)), new(2, a_spec(gpus=1))
    await store.record([first, second])

    await store.record([move(second.task, placed("a2", 0, number=2)), move(first.task, ended())])

    assert [attempt.id for _, attempt in await store.live()] == ["a2"]


async def test_an_attempt_id_is_used_once(store: SqlStore) -> None:
    await store.record([new(1, None, placed("a1"))])

    with pytest.raises(StaleWrite):
        await store.record([new(2, None, placed("a1", number=2))])

    assert await store.task(TaskKey(2)) is None


async def test_a_stale_call_harms_no_call_beside_it(store: SqlStore) -> None:
    await store.record([new(1)])

    outcomes = await asyncio.gather(
        *(store.record([new(id)]) for id in range(1, 40)), return_exceptions=True
    )

    assert isinstance(outcomes[0], StaleWrite)
    assert [o for o in outcomes[1:] if isinstance(o, BaseException)] == []
    assert len(await store.waiting()) == 39


# ---- what flow asks for


async def test_waiting_is_in_the_order_of_positions(store: SqlStore) -> None:
    for id, position in ((1, 30), (2, 10), (3, 20), (4, 10)):
        first = submitted(a_spec(hold=id == 3, name=f"n{id}"), position=position)
        await store.record([Change(begin(TaskKey(id), first), (first,))])
    await store.record([new(5, None, placed("a5")), new(6, None, ended(None))])

    rows = await store.waiting()

    assert [(row.key.id, row.state, row.position) for row in rows] == [
        (2, State.QUEUED, 10),
        (4, State.QUEUED, 10),
        (3, State.HELD, 20),
        (1, State.QUEUED, 30),
    ]
    assert [row.spec.name for row in rows] == ["n2", "n4", "n3", "n1"]
    assert {(row.owner, row.version) for row in rows} == {("ana", 1)}
    assert {(row.submitted_at, row.not_before, row.anyway) for row in rows} == {(NOON, None, False)}


async def test_waiting_says_what_keeps_a_task_waiting(store: SqlStore) -> None:
    requeued = Requeued(at=at(2), attempt="a1", not_before=at(60))
    await store.record([new(1, None, placed("a1"), requeued, Waived(at=at(3), by="ana"))])

    (row,) = await store.waiting()

    assert (row.not_before, row.anyway, row.attempts, row.never_ran) == (at(60), True, 1, 1)


async def test_live_has_the_current_attempt_only(store: SqlStore) -> None:
    one = new(1, None, placed("a1"), Requeued(at=at(2), attempt="a1"))
    two = new(2, None, placed("b1", number=2), started("b1"), ended("b1"))
    three = new(3, None, placed("c1", number=3), StopRequested(at=at(2), by="ana"))
    await store.record([one, two, three])
    await store.record([move(one.task, placed("a2", number=4), started("a2"))])

    live = await store.live()

    assert [(t.id, t.state, a.id, a.ordinal) for t, a in live] == [
        (1, State.RUNNING, "a2", 2),
        (3, State.STOPPING, "c1", 1),
    ]


async def test_tasks_come_in_the_order_asked_for(store: SqlStore) -> None:
    await store.record([new(id) for id in (1, 2, 3)])

    found = await store.tasks([TaskKey(3), TaskKey(9), TaskKey(1)])

    assert [task.id for task in found] == [3, 1]


async def test_what_is_not_there_is_none(store: SqlStore) -> None:
    assert await store.task(TaskKey(1)) is None
    assert await store.attempt("a1") is None
    assert await store.history(TaskKey(1)) == []
    assert await store.highest_launch_number("node-a") == 0


async def test_an_attempt_that_provably_never_ran_ends_without_an_end(store: SqlStore) -> None:
    await store.record([new(1, None, placed("a1"), Requeued(at=at(5), attempt="a1"))])

    attempt = await store.attempt("a1")

    assert attempt is not None
    assert (attempt.started_at, attempt.ended_at, attempt.end) == (None, at(5), None)


async def test_the_highest_launch_number_is_per_node(store: SqlStore) -> None:
    elsewhere = Placed(
        at=NOON,
        attempt="a2",
        allocation=type(placed().allocation)(node="node-b"),
        incarnation=LIFE,
        launch_number=90,
        epoch=1,
    )
    await store.record([new(1, None, placed("a1", number=7)), new(2, None, elsewhere)])

    assert await store.highest_launch_number("node-a") == 7
    assert await store.highest_launch_number("node-b") == 90


async def test_renumber_moves_a_live_attempt_that_never_began(store: SqlStore) -> None:
    await store.record([new(1, None, placed("a1", number=3))])
    reborn = Incarnation("boot-2", "spool-2")

    await store.renumber("a1", 3, 8, reborn)

    attempt = await store.attempt("a1")
    assert attempt is not None
    assert (attempt.launch_number, attempt.incarnation) == (8, reborn)
    assert await store.highest_launch_number("node-a") == 8
    with pytest.raises(StaleWrite):  # a second time
        await store.renumber("a1", 3, 8, reborn)


@pytest.mark.parametrize("then", [[started("a1")], [Requeued(at=at(2), attempt="a1")]])
async def test_renumber_refuses_what_began_or_is_over(store: SqlStore, then: list[Event]) -> None:
    await store.record([new(1, None, placed("a1", number=3), *then)])

    with pytest.raises(StaleWrite):
        await store.renumber("a1", 3, 8, LIFE)


async def test_ids_and_epochs_go_on_after_a_restart(store_open: Open) -> None:
    store = store_open()
    assert list(store.next_ids(3)) == [1, 2, 3]
    assert [await store.raise_epoch(), await store.raise_epoch()] == [1, 2]
    await store.record([new(2)])

    store = store_open()

    assert list(store.next_ids(1)) == [3]
    assert await store.raise_epoch() == 3
    assert await store.record([new(3)]) == 2


async def test_epochs_asked_for_at_once_differ(store: SqlStore) -> None:
    epochs = await asyncio.gather(*(store.raise_epoch() for _ in range(20)))

    assert sorted(epochs) == list(range(1, 21))


async def test_everything_is_there_after_a_restart(store_open: Open) -> None:
    store = store_open()
    await store.record([new(1), new(2, a_spec(gpus=1), placed("a1", 0), started())])
    before = (await store.waiting(), await store.live(), store.readers.identity)

    store = store_open()

    assert (await store.waiting(), await store.live(), store.readers.identity) == before


# ---- edits and moves


async def test_an_edit_a_move_and_a_waiver_read_back(store: SqlStore) -> None:
    whole = new(1, a_spec(name="old", after=("7:ok",)))
    steps: list[Event] = [
        Edited(at=at(1), by="ana", spec=a_spec(name="new", after=("7:ok",))),
        Moved(at=at(2), by="ana", position=-(2**40)),
        Waived(at=at(3), by="bob"),
        Held(at=at(4), by="ana"),
        Edited(at=at(5), by="ana", spec=a_spec(name="newer")),
    ]
    await store.record([whole])
    task = whole.task
    for step in steps:
        change = move(task, step)
        await store.record([change])
        task = change.task
        assert await store.task(task.key) == task
        assert store.check() == []

    assert await store.history(task.key) == [*whole.events, *steps]
    assert (task.spec.name, task.position, task.anyway) == ("newer", -(2**40), False)


async def test_two_edits_in_one_change(store: SqlStore) -> None:
    edits = [Edited(at=at(n), by="ana", spec=a_spec(name=f"n{n}")) for n in (1, 2, 3)]
    submitted_, edited = new(1, None, edits[0]), new(2)
    await store.record([submitted_, edited])
    edited = move(edited.task, *edits, placed("a1"))
    await store.record([edited])

    assert await store.tasks([TaskKey(1), TaskKey(2)]) == [submitted_.task, edited.task]


async def test_waiting_follows_a_move_and_an_edit(store: SqlStore) -> None:
    first, second = new(1), new(2, a_spec(name="old"))
    await store.record([first, second])

    await store.record(
        [
            move(
                second.task,
                Moved(at=at(1), by="ana", position=0),
                Edited(at=at(1), by="ana", spec=a_spec(name="new")),
            )
        ]
    )

    assert [(row.key.id, row.spec.name) for row in await store.waiting()] == [(2, "new"), (1, "")]


async def test_an_origin_is_kept(store: SqlStore) -> None:
    first = Submitted(at=NOON, owner="ana", spec=a_spec(), position=1, origin="17_3")
    change = Change(begin(TaskKey(1), first), (first,))

    await store.record([change])

    assert await store.task(TaskKey(1)) == change.task
    assert await store.history(TaskKey(1)) == [first]


# ---- slots


def in_slot(attempt: str, slot: int, number: int) -> Placed:
    held = Allocation(node="node-a", gpus=(HeldGpu(0, "node-a-gpu-0", slot),), gpu_memory_mib=9)
    return Placed(
        at=at(1), attempt=attempt, allocation=held, incarnation=LIFE, launch_number=number, epoch=1
    )


async def test_a_card_has_places_side_by_side_and_each_is_given_once(store: SqlStore) -> None:
    tasks = [new(id, a_spec(gpus=1)) for id in (1, 2, 3)]
    await store.record(tasks)
    await store.record([move(tasks[0].task, in_slot("a1", 0, 1))])
    await store.record([move(tasks[1].task, in_slot("a2", 1, 2))])

    with pytest.raises(StaleWrite):
        await store.record([move(tasks[2].task, in_slot("a3", 1, 3))])

    live = await store.live()
    assert [attempt.allocation.gpus[0].slot for _, attempt in live] == [0, 1]
    assert {attempt.allocation.gpu_memory_mib for _, attempt in live} == {9}


# ---- what is kept over restarts


async def test_what_is_remembered_is_recalled_after_a_restart(store_open: Open) -> None:
    store = store_open()
    assert await store.recall("drained") is None
    await store.remember("drained", '{"node-a":"训练"}')
    await store.remember("use", "1")
    await asyncio.gather(*(store.remember("use", str(n)) for n in range(20)))

    store = store_open()

    assert await store.recall("drained") == '{"node-a":"训练"}'
    assert await store.recall("use") == "19"
    assert await store.recall("epoch") is None


# ---- many at once


async def test_a_batch_is_recorded_whole(store: SqlStore) -> None:
    changes = [new(id, a_spec(name=f"n{id}")) for id in store.next_ids(3000)]

    assert await store.record(changes) == 3000

    assert [row.key.id for row in await store.waiting()] == list(range(1, 3001))


async def test_calls_that_meet_get_their_own_sequence_numbers(store: SqlStore) -> None:
    seqs = await asyncio.gather(*(store.record([new(id), new(id + 500)]) for id in range(1, 300)))

    assert seqs == sorted(seqs)
    assert len(set(seqs)) == 299
    for id, seq in enumerate(seqs, 1):
        assert store.readers.events_of(TaskKey(id + 500))[-1].seq == seq


# ---- cancellation


async def test_a_cancelled_neighbour_leaves_the_writer_at_work(store: SqlStore) -> None:
    calls = [asyncio.create_task(store.record([new(id)])) for id in range(1, 50)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    assert await store.record([new(100)]) > 0
    there = {row.key.id for row in await store.waiting()}
    assert there >= {id for id, call in enumerate(calls, 1) if not call.cancelled()}


# ---- finished ones


async def test_what_has_been_kept_long_enough_is_found_oldest_first(store: SqlStore) -> None:
    def over(id: int, second: int) -> Change:
        first = (placed(f"a{id}", number=id), started(f"a{id}"))
        return new(id, None, *first, structs.replace(ended(f"a{id}"), at=at(second)))

    await store.record([over(1, 30), over(2, 10), over(3, 20), over(4, 20), new(5)])

    async def ids(
        before: datetime | None, beyond: int | None, after: int = 0, limit: int = 9
    ) -> list[int]:
        last = await store.task(TaskKey(after)) if after else None
        return [task.id for task in await store.outlived(before, beyond, last, limit)]

    assert await ids(None, None) == []
    assert await ids(at(20), None) == [2]
    assert await ids(at(31), None) == [2, 3, 4, 1]
    assert await ids(None, 1) == [2, 3, 4]
    assert await ids(None, 3) == [2]
    assert await ids(None, 4) == []
    assert await ids(at(20), 1) == [2, 3, 4], "either of the two is enough"
    assert await ids(at(31), 4) == [2, 3, 4, 1]
    assert await ids(at(31), None, limit=2) == [2, 3]
    assert await ids(at(31), None, after=3) == [4, 1]


async def test_attempts_that_are_not_recorded(store: SqlStore) -> None:
    await store.record([new(1, None, placed("a1"), started("a1"))])

    assert await store.absent(["a2", "a1", "a3"]) == ["a2", "a3"]


async def test_finished_ones_by_their_end_with_what_they_took(store: SqlStore) -> None:
    late = structs.replace(ended("b1"), at=at(9))
    await store.record(
        [
            new(1, a_spec(gpus=2), placed("a1", 0, 1), started("a1"), ended("a1")),
            new(2, None, placed("b1", number=2), started("b1"), late, owner="bob"),
        ]
    )
    finished = store.readers.finished

    rows = finished.page(Wanted(), NEWEST, 10)

    assert [(row.key.id, row.ran_us, row.held_us) for row in rows] == [
        (2, 7_000_000, 0),
        (1, 1_000_000, 2_000_000),
    ]
    assert [row.key.id for row in finished.page(Wanted(), rows[0].place, 10)] == [1]
    bobs = Wanted(owner="bob", outcome="succeeded", also_arrays=True)
    assert [row.key.id for row in finished.page(bobs, NEWEST, 10)] == [2]
    assert finished.elements(1, -1, 10) == []
