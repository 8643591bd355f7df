"""Readers and the writer side by side: nobody waits for the other, nobody sees half."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import msgspec
import pytest

from stoker.domain.errors import StoreDown
from stoker.domain.key import TaskKey
from stoker.store.database import as_url, open_engine
from stoker.store.recorder import SqlStore
from stoker.store.writer import Writer
from tests.helpers.builders import a_spec, move, new, placed, started

from .conftest import Where, sqlite_only


async def test_an_open_snapshot_neither_blocks_the_writer_nor_sees_its_commit(
    store: SqlStore,
) -> None:
    await store.record([new(1)])
    with store._pool.snapshot() as cursor:
        before = cursor.execute("SELECT count(*) FROM tasks").fetchall()
        await asyncio.wait_for(store.record([new(2)]), 10)
        assert cursor.execute("SELECT count(*) FROM tasks").fetchall() == before == [(1,)]

    assert len(await store.waiting()) == 2


async def test_a_reader_never_sees_a_task_without_what_belongs_to_it(store: SqlStore) -> None:
    """A thread reads details while whole lives are written; each answer fits together."""
    torn: list[object] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            found = store.readers.detail(TaskKey(1))
            if found is None:
                continue
            (shown, *_), attempts, events = found
            task = msgspec.json.decode(shown)
            if len(events) != task["version"] or (len(attempts) == 1) != (
                task["state"] != "QUEUED"
            ):
                torn.append(found)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        change = new(1, a_spec(gpus=1))
        await store.record([change])
        change = move(change.task, placed("a1", 0))
        await store.record([change])
        await store.record([move(change.task, started("a1"))])
        for id in range(2, 200):
            await store.record([new(id)])
    finally:
        stop.set()
        reader.join(20)

    assert torn == []


async def test_many_threads_may_read_at_once(store: SqlStore) -> None:
    await store.record([new(id) for id in range(1, 101)])

    answers = await asyncio.gather(*(asyncio.to_thread(store.readers.counts) for _ in range(40)))

    assert {sum(answer.values()) for answer in answers} == {100}


def test_a_readers_connection_cannot_write(store: SqlStore, where: Where) -> None:
    connection = open_engine(as_url(where), readonly=True).raw_connection()
    cursor = connection.cursor()

    with pytest.raises(store._driver.Error, match=r"read.?only"):
        cursor.execute("DELETE FROM meta")
    connection.close()


@sqlite_only
async def test_another_program_that_holds_the_database_is_named_not_waited_for_for_ever(
    store: SqlStore, store_path: Path
) -> None:
    await store.record([new(1)])
    assert isinstance(store._writer, Writer)
    assert store._writer._cursor is not None
    store._writer._cursor.execute("PRAGMA busy_timeout = 50")
    rude = sqlite3.connect(store_path, isolation_level=None)
    rude.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreDown) as refused:
            await store.record([new(2)])
        assert "locked" in str(refused.value.values["why"])
        assert await store.task(TaskKey(1)) is not None
    finally:
        rude.execute("ROLLBACK")
        rude.close()

    await store.record([new(2)])
    assert store.check() == []
