"""Every invariant, broken on purpose in the file, is found and named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stoker.domain.event import Requeued
from stoker.domain.node import Incarnation
from stoker.store.recorder import SqlStore
from tests.helpers.builders import a_spec, at, ended, placed, started

from .lives import new

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
def broken(store_path: Path) -> Iterator[sqlite3.Connection]:
    """A way to change the records that asks nobody."""
    with closing(sqlite3.connect(store_path, isolation_level=None)) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        yield database


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
    ],
)
def test_a_row_that_its_events_do_not_make(
    lab: SqlStore, broken: sqlite3.Connection, change: str, words: list[str]
) -> None:
    broken.execute(f"UPDATE tasks SET {change} WHERE id = 1")

    finds(lab, *words)


def test_an_end_that_its_events_do_not_make(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute("UPDATE tasks SET \"end\" = replace(\"end\", '0', '1') WHERE id = 3")

    finds(lab, "Task 3: end is")


def test_a_spec_that_was_changed_afterwards(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute('UPDATE events SET spec = replace(spec, \'"name":""\', \'"name":"x"\')')

    finds(lab, "Task 1: name is ''")


def test_a_missing_event(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute("DELETE FROM events WHERE task_id = 3 AND version = 3")

    finds(lab, "Task 3 is at version 4 but its events have versions [1, 2, 4]")


def test_a_version_without_its_event(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute("UPDATE tasks SET version = 2 WHERE id = 1")

    finds(lab, "Task 1 is at version 2 but its events have versions [1]")


def test_events_out_of_order(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute("UPDATE events SET seq = 100 WHERE task_id = 2 AND version = 2")

    finds(lab, "Task 2: its events are not in the order of their versions")


def test_an_event_after_the_end(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute(
        "INSERT INTO events SELECT 100, task_id, element, 5, at_us, kind, body, spec"
        " FROM events WHERE task_id = 3 AND kind = 'Ended'"
    )

    finds(lab, "Task 3 went on after its end", "Task 3: its events cannot be replayed")


def test_an_attempt_that_started_twice(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute(
        "UPDATE events SET body = (SELECT body FROM events WHERE task_id = 2 AND kind = 'Started')"
        " WHERE task_id = 5 AND kind = 'Started'"
    )

    finds(lab, "Attempt a2 started more than once")


def test_a_body_that_cannot_be_read(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute("UPDATE events SET body = '{}' WHERE task_id = 2 AND kind = 'Placed'")

    finds(lab, "Task 2: its events cannot be replayed")


def test_an_unknown_kind_of_event(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute("UPDATE events SET kind = 'Blessed' WHERE task_id = 1")

    finds(lab, "Task 1: its events cannot be replayed")


def test_an_exclusive_card_with_two_holders(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute(FREE_CARDS)
    broken.execute("UPDATE allocations SET gpu_uuid = 'node-a-gpu-0' WHERE attempt = 'a5'")

    finds(lab, "Card node-a-gpu-0 of node-a is held exclusively and by several: a2, a5")


def test_an_exclusive_card_that_is_shared_too(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute(
        "UPDATE allocations SET gpu_uuid = 'node-a-gpu-0', exclusive = 0 WHERE attempt = 'a5'"
    )

    finds(lab, "held exclusively and by several")


def test_a_live_task_without_its_card(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute("DELETE FROM allocations WHERE attempt = 'a2'")

    finds(lab, "Task 2 is RUNNING but its attempt a2 does not hold card node-a-gpu-0")


@pytest.mark.parametrize(
    ("attempt", "words"),
    [("a3", "Task 3 is FINISHED"), ("a4", "Task 4 is QUEUED"), ("a2", "Task 2 is RUNNING")],
    ids=["finished", "waiting", "one too many"],
)
def test_a_card_that_was_not_placed_so(
    lab: SqlStore, broken: sqlite3.Connection, attempt: str, words: str
) -> None:
    broken.execute("INSERT INTO allocations VALUES (?, 'node-a-gpu-9', 'node-a', 1)", (attempt,))

    finds(lab, f"{words} and its attempt {attempt} holds card node-a-gpu-9")


def test_a_card_held_by_nobody(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute("INSERT INTO allocations VALUES ('ghost', 'node-a-gpu-9', 'node-a', 1)")

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
    lab: SqlStore, broken: sqlite3.Connection, change: str
) -> None:
    broken.execute(f"UPDATE attempts SET {change} WHERE id = 'a3'")

    finds(lab, "Attempt a3 of task 3 is")


def test_a_missing_attempt(lab: SqlStore, broken: sqlite3.Connection) -> None:
    broken.execute("DELETE FROM attempts WHERE id = 'a3'")

    finds(lab, "Task 3 has attempts [], but its events tell of ['a3']")


@pytest.mark.parametrize("table", ["events", "attempts"])
def test_rows_of_a_task_that_does_not_exist(
    lab: SqlStore, broken: sqlite3.Connection, table: str
) -> None:
    broken.execute("DELETE FROM tasks WHERE id = 3")

    finds(lab, f"Task 3 has {table} but does not exist")


def test_an_index_that_lost_a_row(lab: SqlStore, broken: sqlite3.Connection) -> None:
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


async def test_more_tasks_than_one_look_takes_in(
    store: SqlStore, broken: sqlite3.Connection
) -> None:
    await store.record([new(id) for id in range(1, 2101)])
    assert store.check() == []

    broken.execute("UPDATE tasks SET owner = 'eve' WHERE id IN (1, 1000, 1001, 2100)")

    assert [sentence.partition(":")[0] for sentence in store.check()] == [
        "Task 1", "Task 1000", "Task 1001", "Task 2100",
    ]  # fmt: skip
