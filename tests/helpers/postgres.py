"""A PostgreSQL of the tests' own: one server for the session, a fresh database whenever asked.

It listens on a unix socket in a folder of its own and nowhere else; fsync is on unless a test says
that no power is cut. PostgreSQL refuses root, so as root it runs as another account. Its default order of text is that of a
language, not of bytes, so that a comparison that forgot about it is found.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stoker.store.database import as_url, open_engine
from stoker.store.migrate import migrate

READY_S = 30.0
LOCKED = "locked"
"""A role that must give a password: `PASSWORD`."""
PASSWORD = "s3cret-of-the-lab"
TEMPLATE = "migrated"
_HBA = f"""\
local all {LOCKED} scram-sha-256
local all all trust
"""

_SCHEMA = """
    SELECT relation.relname, relation.relkind, attribute.attname, version.version_num
    FROM pg_class AS relation JOIN pg_attribute AS attribute ON attribute.attrelid = relation.oid
    CROSS JOIN alembic_version AS version
    WHERE relation.relnamespace = 'public'::regnamespace ORDER BY 1, 3
"""
_EMPTY = """
    TRUNCATE tasks, events, attempts, allocations, entries, audit;
    DELETE FROM meta WHERE key NOT IN ('epoch', 'database');
    UPDATE meta SET value = '0' WHERE key = 'epoch';
"""


def programs() -> Path | None:
    """The folder of the newest PostgreSQL's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    if found:
        return found[-1].parent
    if shutil.which("pg_config"):
        said = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
        folder = Path(said.stdout.strip())
        return folder if (folder / "postgres").exists() else None
    return None


def _version(path: Path) -> int:
    name = path.parent.parent.name
    return int(name) if name.isdigit() else 0


class Postgres:
    """A running server. May be ended and started again."""

    def __init__(self, bin: Path, folder: Path, *, fsync: bool) -> None:
        self._bin, self.folder, self._fsync = bin, folder, fsync
        self._numbers = count(1)
        self._free: list[str] = []
        self._who: dict[str, Any] = {}
        if os.geteuid() == 0:
            account = _account()
            os.chown(folder, account.pw_uid, account.pw_gid)
            self._who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "initdb", "-D", str(folder / "data"), "-U", "stoker", "-A", "trust", "--no-sync",
            "-E", "UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US",
        )  # fmt: skip
        (folder / "data" / "pg_hba.conf").write_text(_HBA)
        self.start()
        with self.admin() as admin:
            admin.execute(f"CREATE ROLE {LOCKED} LOGIN PASSWORD '{PASSWORD}'")
            admin.execute(f"CREATE DATABASE {TEMPLATE}")
        engine = open_engine(as_url(self.url(TEMPLATE)))
        migrate(engine)
        engine.dispose()
        with self.admin(TEMPLATE) as admin:
            self._schema = _schema(admin)

    def url(self, database: str, user: str = "stoker", password: str = "") -> str:
        who = f"{user}:{password}" if password else user
        return f"postgresql://{who}@/{database}?host={self.folder}"

    def fresh(self, *, migrated: bool = True) -> str:
        """The URL of a database with nothing in it but, if asked for, the present schema."""
        if migrated and self._free:
            return self._free.pop()
        name = f"test_{next(self._numbers)}"
        with self.admin() as admin:
            template = f" TEMPLATE {TEMPLATE}" if migrated else ""
            admin.execute(f"CREATE DATABASE {name}{template}")
        return self.url(name)

    def give_back(self, url: str) -> None:
        """Somebody else may have it, once it is empty: ten times as fast as another one. What is not
        as the template is, is dropped."""
        self.cut(url)
        with self.admin(str(as_url(url).database)) as admin:
            if _schema(admin) == self._schema:
                admin.execute(_EMPTY)
                self._free.append(url)
                return
        with self.admin() as admin:
            admin.execute(f"DROP DATABASE {as_url(url).database} WITH (FORCE)")

    @contextmanager
    def admin(self, database: str = "postgres") -> Iterator[psycopg.Connection[Any]]:
        """A session that asks nobody."""
        with psycopg.connect(
            host=str(self.folder), user="stoker", dbname=database, autocommit=True
        ) as connection:
            yield connection

    def sessions(self, url: str) -> list[int]:
        """Process numbers of the sessions on this database."""
        with self.admin() as admin:
            found = admin.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = %s", (as_url(url).database,)
            ).fetchall()
        return [pid for (pid,) in found]

    def cut(self, url: str) -> int:
        """End every session on this database; how many there were."""
        with self.admin() as admin:
            found = admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                (as_url(url).database,),
            ).fetchall()
        return len(found)

    def start(self) -> None:
        log = (self.folder / "postgres.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [
                    self._bin / "postgres", "-D", self.folder / "data", "-k", self.folder,
                    "-h", "", "-c", f"fsync={'on' if self._fsync else 'off'}", "-c", "max_connections=60", "-c", "shared_buffers=16MB",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
                start_new_session=True,
                **self._who,
            )  # fmt: skip
        deadline = time.monotonic() + READY_S
        while not self._is_ready():
            assert self._process.poll() is None, self.tail()
            assert time.monotonic() < deadline, self.tail()
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT: sessions are ended; SIGQUIT: it dies at once, and recovers at the next start."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(READY_S)
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)

    def tail(self) -> str:
        return (self.folder / "postgres.log").read_text(errors="replace")[-2000:]

    def _is_ready(self) -> bool:
        try:
            with self.admin():
                return True
        except psycopg.OperationalError:
            return False

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._bin / program, *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"]},
            check=False,
            **self._who,
        )
        assert done.returncode == 0, done.stderr


def _schema(admin: psycopg.Connection[Any]) -> list[Any]:
    """Every table, index and column, and the version."""
    try:
        return admin.execute(_SCHEMA).fetchall()
    except psycopg.errors.UndefinedTable:
        return []


def _account() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("no account to run PostgreSQL as")


@contextmanager
def postgres_server(*, fsync: bool = True) -> Iterator[Postgres]:
    """One for the time of the block; a skip where there are no programs."""
    bin = programs()
    if bin is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="stoker-pg-", dir="/tmp"))  # others may not enter ours
    server = Postgres(bin, folder, fsync=fsync)
    try:
        yield server
    finally:
        server.close()
