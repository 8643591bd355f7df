"""The records that the store's suite runs on: SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.store.recorder import SqlStore, open_store
from tests.conftest import DATABASES, database_of


class Open:
    """Opens the same records each time, after letting go of them."""

    def __init__(self, where: str | Path) -> None:
        self.where = where
        self.opened: list[SqlStore] = []

    def __call__(self) -> SqlStore:
        for store in self.opened:
            store.close()
        self.opened.append(open_store(self.where))
        return self.opened[-1]


@pytest.fixture(params=DATABASES)
def store_open(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Records that are checked at the end."""
    again = Open(database_of(request, request.param, tmp_path))
    yield again
    broken = again.opened[-1].check() if again.opened else []
    for store in again.opened:
        store.close()
    assert broken == []


@pytest.fixture
def store(store_open: Open) -> SqlStore:
    return store_open()
