"""Migrations on PostgreSQL: they make what the tables say, in one transaction, forward only."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from stoker.domain.errors import StoreError
from stoker.store.database import as_url, open_engine
from stoker.store.migrate import migrate
from stoker.store.recorder import open_store
from stoker.store.tables import metadata
from tests.helpers.postgres import Postgres

from .test_migrations import later

__all__ = ["later"]

PROGRAM = (
    "import sys, pathlib; from stoker.store.database import as_url, open_engine;"
    "from stoker.store.migrate import migrate;"
    "migrate(open_engine(as_url(sys.argv[1])), pathlib.Path(sys.argv[2]))"
)

COLUMNS = """
    SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default,
        collation_name
    FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name <> 'alembic_version' ORDER BY 1, 3
"""
INDEXES = """
    SELECT tablename, regexp_replace(indexdef, 'INDEX \\w+ ON', 'INDEX ON') FROM pg_indexes
    WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY 1, 2
"""
KEYS = """
    SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND conrelid <> 'alembic_version'::regclass
    ORDER BY 1, 2
"""


@pytest.fixture
def empty(postgres: Postgres) -> Iterator[str]:
    url = postgres.fresh(migrated=False)
    yield url
    postgres.give_back(url)


def rows(url: str, *statements: str) -> list[tuple[object, ...]]:
    engine = open_engine(as_url(url), readonly=True)
    with engine.connect() as connection:
        return [
            tuple(row) for sql in statements for row in connection.exec_driver_sql(sql).fetchall()
        ]


def migrated(url: str, migrations: Path) -> None:
    engine = open_engine(as_url(url))
    migrate(engine, migrations)
    engine.dispose()


def test_migrations_make_what_the_tables_say(empty: str, postgres: Postgres) -> None:
    declared = postgres.fresh(migrated=False)
    engine = sa.create_engine(as_url(declared))
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num text)")
    engine.dispose()

    open_store(empty).close()

    for what in (COLUMNS, INDEXES, KEYS):
        assert rows(empty, what) == rows(declared, what)
    postgres.give_back(declared)


def test_a_newer_database_is_refused_and_left_alone(postgres_url: str, later: Path) -> None:
    migrated(postgres_url, later)
    newer = rows(postgres_url, COLUMNS)

    for _ in range(2):  # the lock goes with the refusal
        with pytest.raises(StoreError) as refused:
            open_store(postgres_url)
        assert refused.value.code == "newer_database"
    assert rows(postgres_url, COLUMNS) == newer


def test_killed_in_the_middle_it_is_the_old_one(postgres_url: str, later: Path) -> None:
    before = rows(postgres_url, COLUMNS)
    command = [sys.executable, "-c", PROGRAM, postgres_url, str(later)]
    environment = {"PYTHONPATH": ":".join(sys.path), "DIE": "1"}

    died = subprocess.run(command, env=environment, check=False, timeout=60)

    assert died.returncode == -9
    assert rows(postgres_url, COLUMNS) == before
    assert rows(postgres_url, "SELECT version_num FROM alembic_version") == [("0003",)]
    subprocess.run(command, env=environment | {"DIE": ""}, check=True, timeout=60)
    assert ("tasks", "colour") in [row[:2] for row in rows(postgres_url, COLUMNS)]
