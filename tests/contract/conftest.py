"""The records that the store's suite runs on: SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.store.recorder import SqlStore, open_store
from tests.conftest import DATABASES, database_of

Open = Callable[[], SqlStore]


@pytest.fixture(params=DATABASES)
def store_open(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same records each time, after letting go of them; checks them at the end."""
    opened: list[SqlStore] = []
    where = database_of(request, request.param, tmp_path)

    def open_again() -> SqlStore:
        for store in opened:
            store.close()
        opened.append(open_store(where))
        return opened[-1]

    yield open_again
    broken = opened[-1].check() if opened else []
    for store in opened:
        store.close()
    assert broken == []


@pytest.fixture
def store(store_open: Open) -> SqlStore:
    return store_open()
