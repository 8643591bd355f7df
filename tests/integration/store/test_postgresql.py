"""PostgreSQL as it fails: sessions cut, a server that dies, another server that takes over."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from stoker.domain.errors import StoreDown, StoreError, StoreOutdated
from stoker.domain.key import TaskKey
from stoker.store import postgres as sessions
from stoker.store.database import as_url, open_engine
from stoker.store.recorder import SqlStore, open_store
from stoker.store.statements import Cursor
from stoker.text import message
from tests.helpers.builders import new
from tests.helpers.postgres import LOCKED, PASSWORD, Postgres, postgres_server


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlStore]:
    with closing(open_store(postgres_url)) as store:
        yield store


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.01)


# ---- a session that is lost


async def test_a_cut_session_fails_its_calls_and_the_next_ones_go_on(
    store: SqlStore, postgres: Postgres, postgres_url: str
) -> None:
    await store.raise_epoch()
    await store.record([new(1)])
    postgres.cut(postgres_url)

    with pytest.raises(StoreDown) as refused:
        await store.record([new(2)])

    assert refused.value.code == "database_down"
    assert "terminating connection" in str(refused.value.values["why"])
    assert "terminating connection" in store.failing
    assert await store.task(TaskKey(2)) is None
    await store.record([new(2)])
    assert store.failing == ""
    assert [row.key.id for row in await store.waiting()] == [1, 2]
    assert store.check() == []


async def test_readers_that_were_cut_are_replaced_without_a_word(
    store: SqlStore, postgres: Postgres, postgres_url: str
) -> None:
    await store.record([new(1)])
    await asyncio.gather(*(asyncio.to_thread(store.readers.counts) for _ in range(20)))
    postgres.cut(postgres_url)

    assert await store.task(TaskKey(1)) is not None
    assert store.readers.detail(TaskKey(1)) is not None


async def test_an_idle_writer_notices_and_holds_the_lock_again(
    store: SqlStore, postgres: Postgres, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PULSE_S", 0.05)
    await store.raise_epoch()
    await store.record([new(1)])  # from now on its pulse is quick
    postgres.cut(postgres_url)

    await until(lambda: holders(postgres, postgres_url))

    with pytest.raises(StoreError) as refused:
        open_store(postgres_url)
    assert refused.value.code == "already_served"


def holders(postgres: Postgres, url: str) -> list[Any]:
    with postgres.admin(str(as_url(url).database)) as admin:
        return admin.execute(sessions._HOLDER, (sessions.LOCK,)).fetchall()


@pytest.fixture(scope="module")
def mortal() -> Iterator[Postgres]:
    """A server that may be ended."""
    with postgres_server() as server:
        yield server


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
async def test_the_server_goes_away_and_comes_back(mortal: Postgres, how: int) -> None:
    with closing(open_store(mortal.fresh())) as store:
        epoch = await store.raise_epoch()
        await store.record([new(1)])
        mortal.stop(how)
        for _ in range(2):
            with pytest.raises(StoreDown):
                await store.record([new(2)])
            with pytest.raises(StoreDown) as refused:
                await store.task(TaskKey(1))
            assert refused.value.code == "database_down"
        assert "connection" in store.failing

        mortal.start()

        await store.record([new(3)])
        assert store.failing == ""
        assert await store.tasks([TaskKey(id) for id in (1, 2, 3)]) == [new(1).task, new(3).task]
        assert await store.raise_epoch() == epoch + 1
        assert store.check() == []


# ---- a commit that is not answered


class Unanswered:
    """Ends the writer's session around a COMMIT, so that its answer never comes."""

    def __init__(self, store: SqlStore, postgres: Postgres, *, commit: bool) -> None:
        assert store._own is not None
        self._postgres, self._commit, self._writer = postgres, commit, store._own

    def arm(self) -> None:
        """From now on until it has happened. Call it while a session is there."""
        cursor = self._writer._cursor
        assert cursor is not None
        self._writer._cursor = self.wrapped(cursor)

    def wrapped(self, cursor: Cursor) -> Any:
        outer = self

        class Wrapped:
            def __getattr__(self, name: str) -> Any:
                return getattr(cursor, name)

            def execute(self, sql: str, parameters: Any = None) -> Any:
                if sql != "COMMIT":
                    return cursor.execute(sql, parameters)
                if outer._commit:
                    cursor.execute(sql)
                pid = cursor.connection.info.backend_pid  # type: ignore[attr-defined]
                with outer._postgres.admin() as admin:
                    admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
                raise psycopg.OperationalError("server closed the connection unexpectedly")

        return Wrapped()


async def test_a_commit_without_an_answer_that_was_not_recorded(
    store: SqlStore, postgres: Postgres
) -> None:
    await store.raise_epoch()
    Unanswered(store, postgres, commit=False).arm()

    with pytest.raises(StoreDown):
        await store.record([new(1)])

    await store.record([new(1)])
    assert store.check() == []


async def test_a_commit_without_an_answer_that_was_recorded_ends_the_server(
    store: SqlStore, postgres: Postgres
) -> None:
    """Our memory says that nothing was recorded: from then on it is not to be trusted."""
    told = threading.Event()
    store.when_outdated(told.set)
    await store.raise_epoch()
    Unanswered(store, postgres, commit=True).arm()
    with pytest.raises(StoreDown):
        await store.record([new(1)])

    with pytest.raises(StoreOutdated):
        await store.record([new(2)])

    assert told.is_set()
    assert await store.task(TaskKey(1)) is not None
    with pytest.raises(StoreOutdated):
        await store.remember("x", "y")


# ---- another server


async def test_who_was_taken_over_writes_no_more(
    store: SqlStore, postgres: Postgres, postgres_url: str
) -> None:
    told = threading.Event()
    store.when_outdated(told.set)
    assert await store.raise_epoch() == 1
    await store.record([new(1)])
    # As when our machine was cut off for long: our session is ended, another server comes and goes.
    postgres.cut(postgres_url)
    with closing(open_store(postgres_url)) as other:
        assert not told.is_set()
        with pytest.raises(StoreDown) as refused:  # it has not begun yet
            await store.record([new(2)])
        assert "terminating connection" in str(refused.value.values["why"])
        with pytest.raises(StoreDown) as refused:
            await store.record([new(2)])
        assert "lock is held" in str(refused.value.values["why"])
        assert not told.is_set()
        assert await other.raise_epoch() == 2
        await other.record([new(5)])

        with pytest.raises(StoreOutdated):
            await store.record([new(2)])
        assert told.is_set()

    for _ in range(2):  # nor when it is gone
        with pytest.raises(StoreOutdated):
            await store.record([new(2)])
    assert "epoch 2" in store.failing
    with closing(open_store(postgres_url)) as later:
        assert [row.key.id for row in await later.waiting()] == [1, 5]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_who_waits_gets_the_records_when_the_other_has_gone(
    kind: str, tmp_path: Path, postgres_url: str
) -> None:
    where = tmp_path / "stoker.db" if kind == "sqlite" else postgres_url
    first = open_store(where)
    got: list[SqlStore] = []
    waiting = threading.Thread(target=lambda: got.append(open_store(where, wait=True)))
    waiting.start()
    try:
        waiting.join(0.3)
        assert waiting.is_alive()
    finally:
        first.close()
        waiting.join(20)

    (second,) = got
    assert second.check() == []
    second.close()


def test_who_waits_outlasts_a_database_that_is_away(mortal: Postgres) -> None:
    url = mortal.fresh()
    first = open_store(url)
    got: list[SqlStore] = []
    waiting = threading.Thread(target=lambda: got.append(open_store(url, wait=True)))
    waiting.start()
    deadline = time.monotonic() + 20
    seen: set[int] = set()
    while len(seen) < 4:  # writer and reader of the first; one that asked, and asks again
        seen.update(mortal.sessions(url))
        assert time.monotonic() < deadline
    mortal.stop()
    first.close()
    mortal.start()
    waiting.join(20)

    (second,) = got
    second.close()


def test_a_lock_file_is_held_too(tmp_path: Path, postgres: Postgres, postgres_url: str) -> None:
    lock = tmp_path / "stoker.db.lock"
    other = postgres.fresh()
    with closing(open_store(postgres_url, lock=lock)):
        with pytest.raises(StoreError) as refused:
            open_store(other, lock=lock)
        assert refused.value.code == "already_served"
    open_store(other, lock=lock).close()
    postgres.give_back(other)


# ---- opening


def refused(url: str) -> str:
    with pytest.raises(StoreError) as error:
        open_store(url)
    assert PASSWORD not in repr(error.value)
    assert PASSWORD not in repr(error.value.__cause__)
    return f"{error.value.code}: {message(error.value.code, error.value.values, 'en')}"


def test_each_refusal_has_a_sentence_and_no_secret(postgres: Postgres, postgres_url: str) -> None:
    name = str(as_url(postgres_url).database)
    wrong = postgres.url(name, LOCKED, f"not-{PASSWORD}")
    assert refused(wrong).startswith(f"database_login: The database {name} at {postgres.folder}")
    assert refused(postgres.url(name, "nobody_here")).startswith("database_login")
    missing = postgres.url("missing", LOCKED, PASSWORD)
    assert refused(missing) == (
        f"database_missing: There is no database missing at {postgres.folder}."
    )
    away = f"postgresql://ana:{PASSWORD}@127.0.0.1:1/stoker"
    assert refused(away).startswith("database_unreachable: The database stoker at 127.0.0.1:1 can")
    assert refused(f"postgresql://ana:{PASSWORD}@[::1/stoker").startswith("bad_database_url")
    assert refused(f"postgresql://ana:{PASSWORD}@db:port/stoker").startswith("bad_database_url")
    assert refused(f"mysql://ana:{PASSWORD}@db/stoker").startswith("unsupported_database: mysql")
    odd = f"postgresql+asyncpg://ana:{PASSWORD}@db/stoker"
    assert refused(odd).startswith("unsupported_database")


def test_a_password_opens(postgres: Postgres, postgres_url: str) -> None:
    name = str(as_url(postgres_url).database)
    with postgres.admin(name) as admin:
        admin.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {LOCKED}")
    open_store(postgres.url(name, LOCKED, PASSWORD)).close()


def test_text_that_is_not_unicode_is_refused(postgres: Postgres) -> None:
    with postgres.admin() as admin:
        admin.execute(
            "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0"
            " LOCALE_PROVIDER libc LOCALE 'C'"
        )
    assert refused(postgres.url("latin")) == (
        "database_encoding: The database latin keeps text as LATIN1; records need UTF8."
    )


def test_a_socket_is_named_in_either_way(postgres: Postgres, postgres_url: str) -> None:
    name = as_url(postgres_url).database
    folder = str(postgres.folder).replace("/", "%2F")
    for url in (
        f"postgresql://stoker@{folder}/{name}",
        f"postgres://stoker@/{name}?host={postgres.folder}",
    ):
        open_store(url).close()


def test_names_are_compared_byte_by_byte(postgres_url: str) -> None:
    engine = open_engine(as_url(postgres_url), readonly=True)
    with engine.connect() as connection:
        columns = connection.execute(
            sa.text(
                "SELECT table_name, column_name FROM information_schema.columns"
                " WHERE table_schema = 'public' AND data_type = 'text'"
                " AND collation_name IS DISTINCT FROM 'C'"
            )
        ).fetchall()
    assert columns == []
