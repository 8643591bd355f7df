"""Records move between SQLite and PostgreSQL: all of them, or none."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from stoker.domain.errors import StoreError
from stoker.runner import killpoint
from stoker.store.copying import TABLES, copy_records, epoch_of, snapshot_into
from stoker.store.database import as_url, open_engine
from stoker.store.recorder import open_store
from stoker.store.tables import events, meta, tasks
from tests.helpers.flows import one, running_flow
from tests.helpers.records import fill, held_by
from tests.integration.flow.conftest import waiting_engine

Where = str | Path

COPY = """
import os, sys
from stoker.runner import killpoint
from stoker.store.copying import copy_records
from stoker.store.database import as_url
killpoint.arm(os.environ["POINTS"])
copy_records(as_url(sys.argv[1]), as_url(sys.argv[2]))
"""


@pytest.fixture
async def filled(tmp_path: Path) -> Path:
    await fill(tmp_path)
    return tmp_path / "stoker.db"


def copied(source: Where, target: Where) -> None:
    open_store(target).close()
    copy_records(as_url(source), as_url(target))


def without_epoch(where: Where) -> set[tuple[str, str]]:
    with open_engine(as_url(where), readonly=True).connect() as connection:
        rows = connection.execute(sa.select(meta.c.key, meta.c.value))
        return {(key, value) for key, value in rows if key != "epoch"}


def epoch(where: Where) -> int:
    with open_engine(as_url(where), readonly=True).connect() as connection:
        return epoch_of(connection)


def assert_same(one: Where, other: Where) -> None:
    first, second = held_by(one), held_by(other)
    assert {k: v for k, v in first.items() if k != "meta"} == {
        k: v for k, v in second.items() if k != "meta"
    }
    assert without_epoch(one) == without_epoch(other)
    for where in (one, other):
        with closing(open_store(where)) as store:
            assert store.check() == []


def test_to_postgresql_and_back(filled: Path, postgres_url: str, tmp_path: Path) -> None:
    before = held_by(filled)
    assert all(before[table.name].rows for table in TABLES), "every kind of row is there"

    copied(filled, postgres_url)
    assert_same(filled, postgres_url)
    assert epoch(filled) < epoch(postgres_url)

    back = tmp_path / "back.db"
    copied(postgres_url, back)
    assert_same(postgres_url, back)
    assert epoch(postgres_url) < epoch(back)
    assert held_by(filled) == before, "the source is as it was"


async def test_the_copy_is_gone_on_with(filled: Path, postgres_url: str) -> None:
    """Numbers are counted by us: nothing has to be told where to go on."""
    copied(filled, postgres_url)
    with closing(open_store(filled)) as store:
        ids = list(store.next_ids(1))
        history = await store.history((await store.waiting())[0].key)
    with closing(open_store(postgres_url)) as store:
        assert list(store.next_ids(1)) == ids
        assert await store.history((await store.waiting())[0].key) == history


def test_a_target_with_records_is_refused_and_left_alone(
    filled: Path, postgres_url: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    for target in (postgres_url, other):
        copied(filled, target)
        before = held_by(target)
        with pytest.raises(StoreError) as refused:
            copied(filled, target)
        assert refused.value.code == "target_not_empty"
        assert held_by(target) == before


def test_a_copy_that_differs_is_dropped(filled: Path, tmp_path: Path) -> None:
    """A target that changes what it is given."""
    target = tmp_path / "odd.db"
    open_store(target).close()
    engine = open_engine(as_url(target))
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER odd AFTER INSERT ON events WHEN NEW.seq = 3"
            " BEGIN UPDATE events SET body = body || ' ' WHERE seq = 3; END"
        )

    with pytest.raises(StoreError) as refused:
        copy_records(as_url(filled), as_url(target))

    assert (refused.value.code, refused.value.values) == ("copy_differs", {"tables": "events"})
    with engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(tasks)).scalar() == 0


@pytest.mark.parametrize("point", [killpoint.COPYING, killpoint.COPIED])
@pytest.mark.parametrize("direction", ["to_postgresql", "to_sqlite"])
def test_killed_in_the_middle_the_target_is_empty(
    filled: Path, postgres_url: str, tmp_path: Path, point: str, direction: str
) -> None:
    source: Where = filled
    target: Where = postgres_url
    if direction == "to_sqlite":
        copied(filled, postgres_url)
        source, target = postgres_url, tmp_path / "target.db"
    open_store(target).close()
    points = tmp_path / "points"
    points.mkdir()
    (points / point).touch()
    command = [sys.executable, "-c", COPY, str(source), str(target)]
    env = os.environ | {"PYTHONPATH": ":".join(sys.path), "POINTS": str(points)}

    died = subprocess.run(command, env=env, check=False, timeout=60)

    assert died.returncode == -9
    assert all(one.rows == 0 for name, one in held_by(target).items() if name != "meta")
    subprocess.run(command, env=env, check=True, timeout=60)
    assert_same(source, target)


def test_a_snapshot_of_postgresql_is_a_file_to_go_on_with(
    filled: Path, postgres_url: str, tmp_path: Path
) -> None:
    copied(filled, postgres_url)
    file = tmp_path / "snapshot.db"

    snapshot_into(open_engine(as_url(postgres_url), readonly=True), file)

    assert held_by(file) == held_by(postgres_url)
    assert file.stat().st_mode & 0o077 == 0
    assert not [*tmp_path.glob("*.part*"), *tmp_path.glob("snapshot.db-*")]
    assert_same(postgres_url, file)


def test_a_snapshot_of_older_tables_is_as_they_are(postgres_url: str, tmp_path: Path) -> None:
    engine = open_engine(as_url(postgres_url))
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE tasks DROP COLUMN origin")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    engine.dispose()

    snapshot_into(open_engine(as_url(postgres_url), readonly=True), tmp_path / "old.db")

    with open_engine(as_url(tmp_path / "old.db"), readonly=True).connect() as connection:
        names = list(connection.exec_driver_sql("SELECT * FROM tasks").keys())
        assert "version" in names
        assert "origin" not in names
        version = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        assert version == "0000"


async def test_a_snapshot_while_somebody_writes_is_one_state(tmp_path: Path) -> None:
    """Rows and events are written together, so they must be in the copy together."""
    async with running_flow(tmp_path, waiting_engine()) as flow:
        source = open_engine(as_url(tmp_path / "stoker.db"), readonly=True)
        done = asyncio.Event()

        async def write() -> None:
            while not done.is_set():
                await one(flow, hold=True)

        writing = asyncio.create_task(write())
        for number in range(5):
            await one(flow, hold=True)
            copy = tmp_path / f"copy-{number}.db"
            await asyncio.to_thread(snapshot_into, source, copy)
            with closing(open_store(copy)) as store:
                assert store.check() == []
                assert len(await store.waiting()) == held_by(copy)[events.name].rows > number
        done.set()
        await writing
