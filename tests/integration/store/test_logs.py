"""Copies of output: whole or not there, and gone when their attempt is deleted."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoker.store.base import LogShelf
from stoker.store.logs import LogFolder


@pytest.fixture
def shelf(tmp_path: Path) -> LogFolder:
    return LogFolder(tmp_path / "logs")


def put(shelf: LogShelf, attempt: str, rank: int = 0, stream: str = "stdout") -> None:
    copy = shelf.copy(attempt, rank, stream)
    copy.write(0, b"x")
    copy.keep(1)


def test_every_copy_of_an_attempt_is_removed_and_no_other(shelf: LogFolder) -> None:
    put(shelf, "ab12")
    put(shelf, "ab12", rank=1, stream="stderr")
    put(shelf, "ab123")
    put(shelf, "ab1")
    half = shelf.copy("ab12", 2, "stdout")

    shelf.remove("ab12")

    assert [shelf.has("ab12", rank, s) for rank, s in ((0, "stdout"), (1, "stderr"))] == [False] * 2
    assert shelf.has("ab123", 0, "stdout")
    assert shelf.has("ab1", 0, "stdout")
    assert sorted(path.name for path in shelf.folder.rglob("*.*")) == [
        "ab1.0.stdout",
        "ab123.0.stdout",
    ]
    half.drop()


def test_removing_what_is_not_there_is_fine(shelf: LogFolder) -> None:
    shelf.remove("ab12")
    put(shelf, "ab12")
    shelf.remove("ab12")
    shelf.remove("ab12")

    assert not shelf.has("ab12", 0, "stdout")


def test_old_ones_are_named_a_folder_at_a_time(shelf: LogFolder) -> None:
    for attempt in ("ab12", "ab99", "cd34", "ef56"):
        put(shelf, attempt)
        put(shelf, attempt, rank=1, stream="stderr")
    for path in shelf.folder.rglob("*.*"):
        if not path.name.startswith("ef") and path.name != "ab99.1.stderr":
            os.utime(path, (1000, 1000))

    found = [sorted(some) for some in shelf.batches(datetime.fromtimestamp(2000, UTC))]

    assert found == [["ab12"], ["cd34"], []]
    assert [sorted(some) for some in shelf.batches(datetime.fromtimestamp(1000, UTC))] == [
        [],
        [],
        [],
    ]
