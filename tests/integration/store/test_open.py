"""Opening records: private from the first byte, and plain words when they cannot be opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.domain.errors import StoreDown, StoreError
from stoker.store import database
from stoker.store.database import as_url, open_engine
from stoker.store.recorder import SqlStore, open_store
from stoker.store.writer import Writer
from tests.helpers.builders import new

from .conftest import sqlite_only


@sqlite_only
async def test_only_the_server_may_read_the_records(store: SqlStore, store_path: Path) -> None:
    await store.record([new(1)])

    files = sorted(store_path.parent.glob("stoker.db*"))

    assert [file.name for file in files] == [
        "stoker.db",
        "stoker.db-shm",
        "stoker.db-wal",
        "stoker.db.lock",
    ]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_network_disk_is_refused_before_anything_is_made(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "network_filesystem", lambda path: "nfs4")

    with pytest.raises(StoreError) as refused:
        open_store(store_path)

    assert refused.value.code == "network_disk"
    assert os.listdir(store_path.parent) == []


def test_a_file_that_is_no_database_is_named_and_left_alone(store_path: Path) -> None:
    store_path.write_bytes(b"not a database" * 100)

    with pytest.raises(StoreDown) as refused:
        open_store(store_path)

    assert "not a database" in str(refused.value.values["why"])
    assert store_path.read_bytes() == b"not a database" * 100


async def test_a_database_that_cannot_be_reached_is_down(store_path: Path) -> None:
    writer = Writer(open_engine(as_url(store_path.parent / "gone" / "stoker.db")))
    try:
        with pytest.raises(StoreDown) as refused:
            await writer.do(lambda _cursor, arguments: arguments, None)
    finally:
        writer.close()

    assert "unable to open" in str(refused.value.values["why"])


@sqlite_only
async def test_the_log_does_not_grow_without_end(store: SqlStore, store_path: Path) -> None:
    for id in range(1, 1501):
        await store.record([new(id)])

    log = store_path.with_name("stoker.db-wal")
    assert log.stat().st_size < 3 * database.LogFolding.AFTER_PAGES * 4096
