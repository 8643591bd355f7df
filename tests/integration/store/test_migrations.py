"""The schema: migrations make what the tables say, forward only, whole or not at all."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from stoker.domain.errors import StoreError
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, replay
from stoker.domain.position import first_position
from stoker.store.database import as_url, open_engine
from stoker.store.migrate import MIGRATIONS, migrate
from stoker.store.recorder import open_store
from stoker.store.tables import metadata

SECOND = '''"""A later step."""
import os
import signal
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.execute("ALTER TABLE tasks ADD COLUMN colour TEXT")
    op.execute("CREATE TABLE colours (name TEXT)")
    if os.environ.get("DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    op.execute("UPDATE tasks SET colour = 'red'")
'''


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """The migrations of a later version."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    (folder / "versions" / "0004_colours.py").write_text(SECOND)
    return folder


def schema(path: Path) -> dict[str, str]:
    """Every table and index, in words that do not depend on white space."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        found = {name: re.sub(r"\s+", " ", sql).replace(" ,", ",") for name, sql in rows}
    found.pop("alembic_version", None)
    return found


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


def test_migrations_make_what_the_tables_say(tmp_path: Path, store_path: Path) -> None:
    declared = tmp_path / "declared.db"
    engine = sa.create_engine(as_url(declared))
    metadata.create_all(engine)
    engine.dispose()

    open_store(store_path).close()

    assert schema(store_path) == schema(declared)


def test_a_second_start_has_nothing_to_do(store_path: Path) -> None:
    open_store(store_path).close()
    before = rows(store_path, "SELECT * FROM meta ORDER BY key")

    open_store(store_path).close()

    assert rows(store_path, "SELECT * FROM meta ORDER BY key") == before
    assert not list(store_path.parent.glob("*.before-*"))


def test_a_newer_database_is_refused_and_left_alone(store_path: Path, later: Path) -> None:
    open_store(store_path).close()
    migrate(open_engine(as_url(store_path)), later)
    newer = schema(store_path)

    with pytest.raises(StoreError) as refused:
        open_store(store_path)

    assert refused.value.code == "newer_database"
    assert refused.value.values == {"found": "0004", "known": "0003"}
    assert schema(store_path) == newer


def test_a_refused_database_can_be_served_by_another(store_path: Path, later: Path) -> None:
    """The lock goes with the refusal."""
    migrate(open_engine(as_url(store_path)), later)
    for _ in range(2):
        with pytest.raises(StoreError) as refused:
            open_store(store_path)
        assert refused.value.code == "newer_database"


def test_an_older_database_is_backed_up_then_brought_forward(store_path: Path, later: Path) -> None:
    open_store(store_path).close()
    before = schema(store_path)

    migrate(open_engine(as_url(store_path)), later)

    assert "colour TEXT" in schema(store_path)["tasks"]
    assert schema(Path(f"{store_path}.before-0003")) == before


def test_killed_in_the_middle_it_is_the_old_one(store_path: Path, later: Path) -> None:
    open_store(store_path).close()
    before = schema(store_path)
    program = (
        "import sys, pathlib; from stoker.store.database import as_url, open_engine;"
        "from stoker.store.migrate import migrate;"
        "migrate(open_engine(as_url(sys.argv[1])), pathlib.Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, str(store_path), str(later)]
    environment = {"PYTHONPATH": ":".join(sys.path), "DIE": "1"}

    died = subprocess.run(command, env=environment, check=False, timeout=60)

    assert died.returncode == -9
    assert schema(store_path) == before
    assert rows(store_path, "SELECT version_num FROM alembic_version") == [("0003",)]
    subprocess.run(command, env=environment | {"DIE": ""}, check=True, timeout=60)
    assert "colours" in schema(store_path)


# ---- what older versions wrote


@pytest.fixture
def first_version(store_path: Path) -> Path:
    """1 waits, 2 is held, 3 runs on two cards, 4 has succeeded, 5 was placed twice and never ran, 6
    never ran once, then ran and is being stopped, 7 was lost and waits again, 8 was cancelled."""
    with closing(sqlite3.connect(store_path)) as database:
        database.executescript((Path(__file__).parent / "records-0001.sql").read_text())
    return store_path


async def test_the_first_version_s_records_are_sound_afterwards(first_version: Path) -> None:
    store = open_store(first_version)
    try:
        assert store.check() == []
        for id in range(1, 9):
            key = TaskKey(id)
            assert replay(key, await store.history(key)) == await store.task(key)
        assert list(store.next_ids(1)) == [9]
    finally:
        store.close()


async def test_the_first_version_s_tasks_keep_their_order_with_room_between(
    first_version: Path,
) -> None:
    store = open_store(first_version)
    try:
        waiting = await store.waiting()
        running = await store.live()
    finally:
        store.close()

    assert [(row.key.id, row.state) for row in waiting] == [
        (1, State.QUEUED),
        (2, State.HELD),
        (5, State.QUEUED),
        (7, State.QUEUED),
    ]
    for row in waiting:
        assert row.position == first_position(row.key.id)
    assert [(row.anyway, row.not_before, row.attempts, row.never_ran) for row in waiting] == [
        (False, None, 0, 0),
        (False, None, 0, 0),
        (False, None, 2, 2),
        (False, None, 2, 0),
    ]
    assert [(task.id, task.never_ran) for task, _ in running] == [(3, 0), (6, 0)]
    assert [gpu.slot for gpu in running[0][1].allocation.gpus] == [0, 0]


def test_the_first_version_s_records_get_the_schema_of_new_ones(
    first_version: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.db"
    open_store(new).close()

    open_store(first_version).close()

    assert schema(first_version) == schema(new)
    assert rows(Path(f"{first_version}.before-0001"), "SELECT count(*) FROM tasks") == [(8,)]
