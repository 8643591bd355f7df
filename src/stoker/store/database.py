"""Opening the database, SQLite or PostgreSQL: for the one writer, for readers, and never twice.

The writer's engine begins with BEGIN IMMEDIATE; readers have an engine of their own that begins
deferred and cannot write (`query_only`), so that they never block the writer and never see half a
transaction. All connections are in the driver's autocommit mode: transactions are explicit.
SQLite must be on a local disk, and one server holds `<database>.lock` for as long as it lives; on
PostgreSQL the writer's session holds a lock (`postgres`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import sqlalchemy as sa

from stoker.domain.errors import StoreDown, StoreError
from stoker.runner.filesystem import network_filesystem

from . import postgres

BUSY_MS = 5000
LOOK_S = 0.1
"""How often who waits for a lock file looks again. Who only looks holds it for a moment, too."""
_WRITER = (
    # Of a new database. A commit writes whole pages: half the usual size makes it a quarter faster.
    "page_size = 2048",
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    f"busy_timeout = {BUSY_MS}",
    "cache_size = -16384",
    "wal_autocheckpoint = 16000",  # the last resort: `LogFolding` comes first
)
_READER = (f"busy_timeout = {BUSY_MS}", "query_only = ON", "cache_size = -8192")


def as_url(path_or_url: str | os.PathLike[str]) -> sa.URL:
    """A plain path means SQLite. StoreError for a URL that cannot be read, without repeating it."""
    text = os.fspath(path_or_url)
    if "://" not in text:
        return sa.URL.create("sqlite", database=os.path.abspath(text))
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise StoreError("bad_database_url", field="database") from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.host and "%" in url.host:  # a socket's folder, as libpq writes it
        url = url.set(host=unquote(url.host))
    return url


def open_engine(url: sa.URL, *, readonly: bool = False, keep: bool = False) -> sa.Engine:
    """An engine for the writer, or for readers. Connects lazily.

    Connections are kept by their users; with `keep`, one to a server is kept by the engine until
    `dispose`, so that who comes next has the same session.
    """
    is_sqlite = url.get_backend_name() == "sqlite"
    if not is_sqlite and url.drivername != "postgresql+psycopg":
        raise StoreError("unsupported_database", field="database", name=url.get_backend_name())
    options: dict[str, Any] = {"poolclass": sa.NullPool}
    if not is_sqlite:
        options |= postgres.engine_options(url, readonly=readonly)
    if keep and not is_sqlite:
        options |= {"poolclass": sa.QueuePool, "pool_size": 1, "max_overflow": 0}
    engine = sa.create_engine(url, **options)

    @sa.event.listens_for(engine, "connect")
    def _(db: Any, _record: Any) -> None:
        try:
            if is_sqlite:
                _begin_session(db, readonly=readonly)
            else:
                postgres.begin_session(db, readonly=readonly)
        except BaseException:
            db.close()
            raise

    @sa.event.listens_for(engine, "begin")
    def _(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin_of(engine, readonly=readonly))

    return engine


def _begin_session(db: Any, *, readonly: bool) -> None:
    db.isolation_level = None  # our own BEGIN is the only one
    for pragma in _READER if readonly else _WRITER:
        db.execute(f"PRAGMA {pragma}")


def begin_of(engine: sa.Engine, *, readonly: bool = False) -> str:
    """How a transaction begins. A writer takes the lock at once, a reader a snapshot."""
    if engine.dialect.name == "sqlite":
        return "BEGIN" if readonly else "BEGIN IMMEDIATE"
    return "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if readonly else "BEGIN"


def is_down(dialect: sa.Dialect, error: BaseException) -> bool:
    """Whether the database itself failed, rather than what was asked of it."""
    driver: Any = dialect.loaded_dbapi
    asked = (
        driver.IntegrityError,
        driver.DataError,
        driver.ProgrammingError,
        driver.InterfaceError,
    )
    is_of_driver = isinstance(error, driver.Error) and not isinstance(error, asked)
    return is_of_driver or isinstance(error, StoreDown)


def as_down(dialect: sa.Dialect, error: BaseException) -> StoreDown:
    """The same, for the callers."""
    if isinstance(error, StoreDown):
        return type(error)(error.code, why=error.values.get("why", ""))
    why = str(error).strip().partition("\n")[0]
    if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
        return StoreDown("disk_full", why=why)
    if getattr(error, "sqlstate", "") == _DISK_FULL:
        return StoreDown("disk_full", why=why, database=dialect.name)
    return StoreDown("database_down" if dialect.name == "postgresql" else "store_down", why=why)


_DISK_FULL = "53100"


def keep_private(path: Path) -> None:
    """Make the file before SQLite does: records hold environments, so only we may read them."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def refuse_network_disk(path: Path) -> None:
    """WAL needs shared memory and honest locks: a network file system has neither."""
    kind = network_filesystem(str(path))
    if kind:
        raise StoreError("network_disk", home=str(path.parent), kind=kind)


class LogFolding:
    """Folds SQLite's log back into the database after callers were told, not while they wait.

    Often enough that the log's file stops growing soon: writing over old pages of it is much
    faster than making it longer.
    """

    AFTER_PAGES = 2000

    def __init__(self, engine: sa.Engine) -> None:
        self._needed = engine.dialect.name == "sqlite"
        self._driver = engine.dialect.loaded_dbapi
        self._rows = 0
        self._pages = 0

    def after_commit(self, connection: sa.PoolProxiedConnection) -> None:
        """Fold if much was written. Failing is harmless: what is in the log is safe there."""
        driver: Any = connection.driver_connection
        if not self._needed or driver is None:
            return
        rows = driver.total_changes
        # An estimate: every transaction touches four pages or so, and five rows fill one.
        self._pages += 4 + max(0, rows - self._rows) // 5
        self._rows = rows
        if self._pages >= self.AFTER_PAGES:
            self._pages = 0
            with contextlib.suppress(self._driver.Error):
                driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


class ServerLock:
    """Held by the one server of these records. The kernel lets go when the process is gone."""

    def __init__(self, path: Path, *, wait: bool = False) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + LOOK_S
        try:
            while not self._is_taken():
                if not wait and time.monotonic() > deadline:
                    pid = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
                    raise StoreError("already_served", pid=pid)
                time.sleep(LOOK_S if wait else LOOK_S / 10)
        except BaseException:
            os.close(self._fd)
            raise
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """The file stays: removing it would let two servers lock two files of one name."""
        os.close(self._fd)
        self._fd = -1

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
