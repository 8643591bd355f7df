"""Every invariant, broken on purpose in the file, is found and named."""

from __future__ import annotations

import pytest
from msgspec import structs

from stoker.domain.event import Deleted, Edited, Ended, Placed, Requeued, StopRequested
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import Task
from stoker.domain.node import Allocation, HeldGpu, Incarnation
from stoker.domain.outcome import End
from stoker.store.recorder import SqlStore
from tests.helpers.builders import a_spec, at, element, ended, move, new, placed, started

from .conftest import Records, sqlite_only

FREE_CARDS = "DROP INDEX allocations_exclusive"


@pytest.fixture
async def lab(store: SqlStore) -> SqlStore:
    """1 waits, 2 runs on card 0, 3 has finished, 4 waits again after an attempt, 5 runs on card 1."""
    await store.record(
        [
            new(1),
            new(2, a_spec(gpus=1), placed("a2", 0), started("a2")),
            new(3, a_spec(gpus=1), placed("a3", 2, number=3), started("a3"), ended("a3")),
            new(4, a_spec(gpus=1), placed("a4", 3), Requeued(at=at(2), attempt="a4")),
            new(5, a_spec(gpus=1), placed("a5", 1), started("a5")),
        ]
    )
    assert store.check() == []
    return store


@pytest.fixture
def broken(records: Records) -> Records:
    """A way to change the records that asks nobody."""
    return records


def finds(store: SqlStore, *words: str) -> None:
    """Each of `words` is in a sentence of the check."""
    sentences = store.check()
    for word in words:
        assert any(word in sentence for sentence in sentences), sentences


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("state = 'HELD'", ["Task 1: state is 'HELD'", "'QUEUED'"]),
        ("owner = 'eve'", ["Task 1: owner is 'eve'"]),
        ("position = 9", ["Task 1: position is 9"]),
        ("name = 'x'", ["Task 1: name is 'x'"]),
        ("spec_seq = 5", ["Task 1: spec_seq is 5"]),
        ("submitted_us = 5", ["Task 1: submitted_us is 5"]),
        ("node = 'node-a', gpu_ids = '[0]'", ["Task 1: node is 'node-a'", "Task 1: gpu_ids"]),
        ("attempts = 1", ["Task 1: attempts is 1"]),
        ("outcome = 'lost'", ["Task 1: outcome is 'lost'"]),
        ("stopped_by = 'eve'", ["Task 1: stopped_by"]),
        ("anyway = 1", ["Task 1: anyway is 1"]),
        ("not_before_us = 5", ["Task 1: not_before_us is 5"]),
        ("retried = 1", ["Task 1: retried is 1"]),
        ("never_ran = 1", ["Task 1: never_ran is 1"]),
        ("counts = '{}'", ["Task 1: counts is '{}'"]),
        ("origin = '7'", ["Task 1: origin is '7'"]),
        ("size = 3", ["Task 1: size is 3"]),
    ],
)
def test_a_row_that_its_events_do_not_make(
    lab: SqlStore, broken: Records, change: str, words: list[str]
) -> None:
    broken.execute(f"UPDATE tasks SET {change} WHERE id = 1")

    finds(lab, *words)


def test_an_end_that_its_events_do_not_make(lab: SqlStore, broken: Records) -> None:
    broken.execute("UPDATE tasks SET \"end\" = replace(\"end\", '0', '1') WHERE id = 3")

    finds(lab, "Task 3: end is")


def test_a_spec_that_was_changed_afterwards(lab: SqlStore, broken: Records) -> None:
    broken.execute('UPDATE events SET spec = replace(spec, \'"name":""\', \'"name":"x"\')')

    finds(lab, "Task 1: name is ''")


def test_a_missing_event(lab: SqlStore, broken: Records) -> None:
    broken.execute("DELETE FROM events WHERE task_id = 3 AND version = 3")

    finds(lab, "Task 3 is at version 4 but its events have versions [1, 2, 4]")


def test_a_version_without_its_event(lab: SqlStore, broken: Records) -> None:
    broken.execute("UPDATE tasks SET version = 2 WHERE id = 1")

    finds(lab, "Task 1 is at version 2 but its events have versions [1]")


def test_events_out_of_order(lab: SqlStore, broken: Records) -> None:
    broken.execute("UPDATE events SET seq = 100 WHERE task_id = 2 AND version = 2")

    finds(lab, "Task 2: its events are not in the order of their versions")


def test_an_event_after_the_end(lab: SqlStore, broken: Records) -> None:
    broken.execute(
        "INSERT INTO events SELECT 100, task_id, element, 5, at_us, kind, body, spec, spec_of"
        " FROM events WHERE task_id = 3 AND kind = 'Ended'"
    )

    finds(lab, "Task 3 went on after its end", "Task 3: its events cannot be replayed")


def test_an_attempt_that_started_twice(lab: SqlStore, broken: Records) -> None:
    broken.execute(
        "UPDATE events SET body = (SELECT body FROM events WHERE task_id = 2 AND kind = 'Started')"
        " WHERE task_id = 5 AND kind = 'Started'"
    )

    finds(lab, "Attempt a2 started more than once")


def test_a_body_that_cannot_be_read(lab: SqlStore, broken: Records) -> None:
    broken.execute("UPDATE events SET body = '{}' WHERE task_id = 2 AND kind = 'Placed'")

    finds(lab, "Task 2: its events cannot be replayed")


def test_an_unknown_kind_of_event(lab: SqlStore, broken: Records) -> None:
    broken.execute("UPDATE events SET kind = 'Blessed' WHERE task_id = 1")

    finds(lab, "Task 1: its events cannot be replayed")


def test_an_exclusive_card_with_two_holders(lab: SqlStore, broken: Records) -> None:
    broken.execute(FREE_CARDS)
    broken.execute("UPDATE allocations SET gpu_uuid = 'node-a-gpu-0' WHERE attempt = 'a5'")

    finds(lab, "Card node-a-gpu-0 of node-a is held exclusively and by several: a2, a5")


def test_an_exclusive_card_that_is_shared_too(lab: SqlStore, broken: Records) -> None:
    broken.execute(
        "UPDATE allocations SET gpu_uuid = 'node-a-gpu-0', exclusive = 0 WHERE attempt = 'a5'"
    )

    finds(lab, "held exclusively and by several")


async def test_cards_may_be_shared_as_asked(store: SqlStore) -> None:
    """Slots side by side, shared ones together, and a reuse beside anything."""
    shared = a_spec(gpus=1, mode="shared", gpu_memory_mib=9)
    await store.record(
        [
            new(1, a_spec(gpus=1), in_slot("a1", 0, 0, 1)),
            new(2, a_spec(gpus=1), in_slot("a2", 0, 1, 2)),
            new(3, a_spec(gpus=1, mode="reuse"), in_slot("a3", 0, 0, 3)),
            new(4, shared, in_slot("a4", 1, 0, 4)),
            new(5, shared, in_slot("a5", 1, 0, 5)),
        ]
    )

    assert store.check() == []


async def test_an_exclusive_card_is_not_shared(store: SqlStore) -> None:
    shared = a_spec(gpus=1, mode="shared", gpu_memory_mib=9)
    await store.record(
        [new(1, a_spec(gpus=1), in_slot("a1", 0, 0, 1)), new(2, shared, in_slot("a2", 0, 0, 2))]
    )

    finds(store, "Card node-a-gpu-0 of node-a is held exclusively and by several: a1, a2")


def in_slot(attempt: str, gpu: int, slot: int, number: int) -> Placed:
    held = HeldGpu(gpu, f"node-a-gpu-{gpu}", slot)
    return structs.replace(
        placed(attempt, number=number), allocation=Allocation(node="node-a", gpus=(held,))
    )


def test_a_card_in_another_slot(lab: SqlStore, broken: Records) -> None:
    broken.execute("UPDATE allocations SET slot = 1 WHERE attempt = 'a2'")

    finds(lab, "Task 2 is RUNNING and its attempt a2 holds card node-a-gpu-0")


def test_a_live_task_without_its_card(lab: SqlStore, broken: Records) -> None:
    broken.execute("DELETE FROM allocations WHERE attempt = 'a2'")

    finds(lab, "Task 2 is RUNNING but its attempt a2 does not hold card node-a-gpu-0")


@pytest.mark.parametrize(
    ("attempt", "words"),
    [("a3", "Task 3 is FINISHED"), ("a4", "Task 4 is QUEUED"), ("a2", "Task 2 is RUNNING")],
    ids=["finished", "waiting", "one too many"],
)
def test_a_card_that_was_not_placed_so(
    lab: SqlStore, broken: Records, attempt: str, words: str
) -> None:
    broken.execute("INSERT INTO allocations VALUES (?, 'node-a-gpu-9', 'node-a', 1, 0)", (attempt,))

    finds(lab, f"{words} and its attempt {attempt} holds card node-a-gpu-9")


def test_a_card_held_by_nobody(lab: SqlStore, broken: Records) -> None:
    broken.execute("INSERT INTO allocations VALUES ('ghost', 'node-a-gpu-9', 'node-a', 1, 0)")

    finds(lab, "Attempt ghost holds cards but does not exist")


@pytest.mark.parametrize(
    "change",
    [
        "ordinal = 7", "started_us = NULL", "ended_us = NULL", "placed_us = 5", "epoch = 7",
        "launch_number = 1", "boot_id = 'x'", '"end" = NULL',
        "allocation = replace(allocation, 'gpu-2', 'gpu-3')",
    ],
)  # fmt: skip
def test_an_attempt_that_its_events_do_not_make(
    lab: SqlStore, broken: Records, change: str
) -> None:
    broken.execute(f"UPDATE attempts SET {change} WHERE id = 'a3'")

    finds(lab, "Attempt a3 of task 3 is")


def test_a_missing_attempt(lab: SqlStore, broken: Records) -> None:
    broken.execute("DELETE FROM attempts WHERE id = 'a3'")

    finds(lab, "Task 3 has attempts [], but its events tell of ['a3']")


@pytest.mark.parametrize("table", ["events", "attempts"])
def test_rows_of_a_task_that_does_not_exist(lab: SqlStore, broken: Records, table: str) -> None:
    broken.execute("DELETE FROM tasks WHERE id = 3")

    finds(lab, f"Task 3 has {table} but does not exist")


@sqlite_only
def test_an_index_that_lost_a_row(lab: SqlStore, broken: Records) -> None:
    broken.execute("PRAGMA writable_schema = ON")
    broken.execute(
        "UPDATE sqlite_master SET sql = replace(sql, 'state, position', 'state, version')"
        " WHERE name = 'tasks_unfinished'"
    )
    broken.execute("PRAGMA schema_version = 1000")  # others look at the schema again

    finds(lab, "The database file is damaged")


async def test_a_raised_launch_number_is_sound(lab: SqlStore) -> None:
    await lab.record([new(6, None, placed("a6", number=6))])
    await lab.renumber("a6", 6, 7, Incarnation("boot-2", "spool-2"))

    assert lab.check() == []


async def test_more_tasks_than_one_look_takes_in(store: SqlStore, broken: Records) -> None:
    await store.record([new(id) for id in range(1, 2101)])
    assert store.check() == []

    broken.execute("UPDATE tasks SET owner = 'eve' WHERE id IN (1, 1000, 1001, 2100)")

    assert [sentence.partition(":")[0] for sentence in store.check()] == [
        "Task 1", "Task 1000", "Task 1001", "Task 2100",
    ]  # fmt: skip


# ---- arrays


CANCELLED = End(outcome="cancelled", reason="cancelled")


@pytest.fixture
async def arrays(store: SqlStore) -> SqlStore:
    """17: element 0 has finished, 1 runs, 2 waits edited, the rest is folded. 18 was stopped and has
    ended: element 0 had succeeded, 1 was cancelled, two never began. 19 has been edited."""
    array, stopped, edited = (new(id, a_spec(array="0-3")) for id in (17, 18, 19))
    edit = Edited(at=at(2), by="ana", spec=a_spec(name="x", array="0-9"))
    await store.record([array, stopped, edited])
    await store.record(
        [
            element(array.task, 0, placed("a0"), started("a0"), ended("a0")),
            element(array.task, 1, placed("a1", number=2), started("a1")),
            element(array.task, 2, edit),
            element(stopped.task, 0, placed("b0", number=3), started("b0"), ended("b0")),
            element(stopped.task, 1, ended(None, "cancelled", "cancelled")),
            element(edited.task, 0, placed("c0", number=4)),
        ]
    )
    later = move(edited.task, edit)
    over = Ended(at=at(4), end=CANCELLED, counts={"succeeded": 1, "cancelled": 3})
    await store.record([move(stopped.task, StopRequested(at=at(3), by="ana"), over), later])
    await store.record([element(later.task, 9, placed("c9", number=5))])
    assert store.check() == []
    return store


def test_an_element_without_its_array(arrays: SqlStore, broken: Records) -> None:
    broken.execute("DELETE FROM tasks WHERE id = 18 AND element = -1")

    finds(arrays, "Task 18_0 is an element, but there is no array 18", "Task 18 has events")


def test_an_element_that_was_submitted(arrays: SqlStore, broken: Records) -> None:
    broken.execute(
        "UPDATE events SET kind = 'Submitted', spec = (SELECT spec FROM events WHERE task_id = 17"
        " AND element = -1) WHERE task_id = 17 AND element = 0 AND version = 1"
    )

    finds(
        arrays,
        "Task 17_0: its events cannot be replayed",
        "Task 17_0 has an event with the spec of another",
    )


def test_an_array_that_was_unfolded(arrays: SqlStore, broken: Records) -> None:
    broken.execute("UPDATE events SET kind = 'Unfolded' WHERE task_id = 17 AND element = -1")

    finds(arrays, "Task 17: its events cannot be replayed")


@pytest.mark.parametrize("spec_of", ["NULL", "1000", "2"])
def test_an_element_with_another_spec_than_its_array_s(
    arrays: SqlStore, broken: Records, spec_of: str
) -> None:
    broken.execute(f"UPDATE events SET spec_of = {spec_of} WHERE task_id = 17 AND version = 1")

    finds(arrays, "Task 17_0 has the spec of event", "but its array's is 1")


def test_an_element_with_the_spec_from_before_an_edit(arrays: SqlStore, broken: Records) -> None:
    broken.execute("UPDATE events SET spec_of = 3 WHERE task_id = 19 AND element = 9")

    finds(arrays, "Task 19_9 has the spec of event 3")


def test_an_element_that_the_array_does_not_have(arrays: SqlStore, broken: Records) -> None:
    for table, id in (("tasks", "id"), ("events", "task_id"), ("attempts", "task_id")):
        broken.execute(f"UPDATE {table} SET element = 7 WHERE {id} = 17 AND element = 1")

    finds(arrays, "Task 17_7 is not among the elements of its array")


def test_an_element_that_began_after_the_array_was_stopped(
    arrays: SqlStore, broken: Records
) -> None:
    broken.execute("UPDATE events SET seq = seq + 1000 WHERE task_id = 18 AND element = 1")

    finds(arrays, "Task 18_1 began after its array was stopped or had ended")


def test_an_array_that_ended_before_its_elements(arrays: SqlStore, broken: Records) -> None:
    broken.execute("UPDATE tasks SET state = 'QUEUED' WHERE id = 18 AND element = 1")

    finds(arrays, "Array 18 has ended, but its element 18_1 is QUEUED")


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ("NULL", "Array 18 has ended without counts"),
        ("'{\"succeeded\":4}'", "Array 18 counts {'succeeded': 4}, but its elements are"),
        ('\'{"succeeded":1,"cancelled":1}\'', "Array 18 counts"),
    ],
)
def test_an_array_whose_counts_are_wrong(
    arrays: SqlStore, broken: Records, counts: str, words: str
) -> None:
    broken.execute(f"UPDATE tasks SET counts = {counts} WHERE id = 18 AND element = -1")

    finds(arrays, words, "Task 18: counts is")


def test_an_array_of_another_size(arrays: SqlStore, broken: Records) -> None:
    broken.execute("UPDATE tasks SET size = NULL WHERE id = 17 AND element = -1")

    finds(arrays, "Task 17: size is None, but its events make it 4")


# ---- deleted


async def test_what_was_deleted_is_sound(lab: SqlStore) -> None:
    gone = await lab.task(TaskKey(3))
    assert gone is not None
    await lab.erase([gone], Deleted(at=at(9), by="ana"))

    assert lab.check() == []


async def test_what_was_deleted_and_is_there(lab: SqlStore, broken: Records) -> None:
    broken.execute(
        "INSERT INTO events SELECT 100, task_id, element, 9, at_us, 'Deleted', '{\"by\":\"a\"}',"
        " NULL, NULL FROM events WHERE task_id = 1"
    )

    finds(lab, "Task 1 was deleted but is there")


async def test_what_was_deleted_leaves_no_other_event(lab: SqlStore, broken: Records) -> None:
    gone: Task | None = await lab.task(TaskKey(3))
    assert gone is not None
    await lab.erase([gone], Deleted(at=at(9), by="ana"))
    broken.execute(
        "INSERT INTO events SELECT 100, 3, element, 1, at_us, kind, body, spec, NULL FROM events"
        " WHERE task_id = 1"
    )

    finds(lab, "Task 3 has events but does not exist")
