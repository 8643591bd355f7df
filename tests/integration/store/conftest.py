"""Records in a file, for every test of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.store.recorder import SqlStore, open_store


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "stoker.db"


@pytest.fixture
def store(store_path: Path) -> Iterator[SqlStore]:
    store = open_store(store_path)
    yield store
    store.close()
