"""A disk that is really full: refused with its words, nothing half there, reads go on, then well."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stoker.domain.errors import StoreDown
from stoker.domain.key import TaskKey
from stoker.store.paging import Query
from stoker.store.recorder import open_store
from tests.helpers.builders import a_spec, new

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


async def test_a_full_disk_refuses_writes_keeps_reads_and_recovers(small_disk: Path) -> None:
    store = open_store(small_disk / "stoker.db")
    ballast = small_disk / "ballast"
    try:
        await store.record([new(id, a_spec(name=f"n{id}")) for id in range(1, 11)])
        fill(ballast)

        for id in (100, 101):  # the second with a new connection
            with pytest.raises(StoreDown) as refused:
                await store.record([new(id, a_spec(description="x" * 3000))])
            assert refused.value.code == "disk_full"
            assert "full" in str(refused.value.values["why"])
            assert store.failing

        assert len(await store.waiting()) == 10
        shown, _ = store.readers.page(Query())
        assert len(shown) == 10
        assert await store.task(TaskKey(100)) is None

        ballast.unlink()
        await store.record([new(100)])
        assert store.failing == ""
        assert store.check() == []
    finally:
        store.close()
    store = open_store(small_disk / "stoker.db")
    assert [row.key.id for row in await store.waiting()] == [*range(1, 11), 100]
    assert store.check() == []
    store.close()


async def test_a_batch_too_large_for_the_disk_leaves_nothing(small_disk: Path) -> None:
    store = open_store(small_disk / "stoker.db")
    try:
        with pytest.raises(StoreDown) as refused:
            await store.record([new(id, a_spec(description="x" * 3000)) for id in range(1, 4000)])
        assert refused.value.code == "disk_full"

        assert await store.waiting() == []
        assert await store.record([new(5000)]) > 0
        assert store.check() == []
    finally:
        store.close()


def fill(path: Path) -> None:
    """Take all the room that is left."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
