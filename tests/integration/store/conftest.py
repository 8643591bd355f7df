"""Records for every test of this folder: in a file, and on PostgreSQL.

A test that is about SQLite itself says so: `@sqlite_only`, and may use `store_path`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stoker.store.database import as_url
from stoker.store.recorder import SqlStore, open_store
from tests.conftest import DATABASES, database_of

Where = str | Path
"""What `open_store` takes."""

sqlite_only = pytest.mark.parametrize("where", ["sqlite"], indirect=True)
postgresql_only = pytest.mark.parametrize("where", ["postgresql"], indirect=True)


@pytest.fixture(params=DATABASES)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    return database_of(request, request.param, tmp_path)


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "stoker.db"


@pytest.fixture
def store(where: Where) -> Iterator[SqlStore]:
    store = open_store(where)
    yield store
    store.close()


class Records:
    """The tables themselves. Asks nobody: no foreign keys, no store."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self._connection: Any
        if isinstance(where, Path):
            self._connection = sqlite3.connect(where, isolation_level=None)
            self._connection.execute("PRAGMA foreign_keys = OFF")
        else:
            plain = as_url(where).set(drivername="postgresql")
            self._connection = psycopg.connect(plain.render_as_string(), autocommit=True)
            self._connection.execute("SET session_replication_role = replica")

    def execute(self, sql: str, parameters: tuple[object, ...] = ()) -> Any:
        """Values are written `?`."""
        if isinstance(self._where, Path):
            return self._connection.execute(sql, parameters)
        return self._connection.execute(sql.replace("%", "%%").replace("?", "%s"), parameters)

    def cursor(self) -> Any:
        return self._connection.cursor()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def records(store: SqlStore, where: Where) -> Iterator[Records]:
    with closing(Records(where)) as opened:
        yield opened
