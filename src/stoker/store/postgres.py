"""What is PostgreSQL's own: how a session begins, the lock that it holds, words for a refusal.

The lock of the one server is an advisory lock of the writer's own session: who loses the session
loses the lock, and with it every way to commit. The driver is imported only when a URL asks for it.
No text made here holds a password.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import time
from typing import Any

import sqlalchemy as sa

from stoker.domain.errors import StoreError

log = logging.getLogger("stoker.store")

LOCK = int.from_bytes(hashlib.sha256(b"stoker: the one server").digest()[:8], "big", signed=True)
"""The same in every version: of two servers on one database, each must know the other's lock."""
WAIT_S = 0.5
"""How often who waits for another server's end looks again."""
GRACE_S = 2.0
"""How long the database may take to notice that the server before us is gone."""
OLDEST = 130000
PULSE_S = 5.0
"""How often an idle writer looks whether its session is still there."""

_NOTICE_DEATH = {
    # of the database, by us: else a machine that is gone is waited for for hours
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
_WRITER = (
    # of us, by the database: the lock must go soon after a server whose machine is gone
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
    # what was acknowledged is on the disk, whatever the database's owner prefers for others
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') = 'off'",
)
_READER = ("SET default_transaction_read_only = on",)
_HOLDER = """
    SELECT activity.application_name, activity.pid
    FROM pg_locks AS held JOIN pg_stat_activity AS activity USING (pid)
    WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1
      AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (held.classid::bigint << 32) | held.objid::bigint = %s
"""

NUMBER = "SELECT pg_current_xact_id_if_assigned()::text"
"""Of this transaction; NULL while it has written nothing."""
FATE = "SELECT pg_xact_status(%s::xid8)"
"""What became of a transaction: committed, aborted, in progress."""


def engine_options(url: sa.URL, *, readonly: bool) -> dict[str, Any]:
    """How `create_engine` is called. What the URL says itself stands."""
    wanted = {
        "application_name": f"stoker@{socket.gethostname()[:30]} pid {os.getpid()}",
        "client_encoding": "utf8",
        # readers are asked from the event loop, which waits for them
        "connect_timeout": "2" if readonly else "10",
        "tcp_user_timeout": "5000" if readonly else "20000",
        **_NOTICE_DEATH,
    }
    return {
        "paramstyle": "format",
        "use_native_hstore": False,
        "connect_args": {name: wanted[name] for name in wanted if name not in url.query},
    }


def begin_session(db: Any, *, readonly: bool) -> None:
    """Every new connection passes here."""
    version = db.info.server_version
    if version < OLDEST:
        raise StoreError("unsupported_database", name=f"PostgreSQL {version // 10000}")
    encoding = db.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError("database_encoding", database=db.info.dbname, encoding=encoding)
    db.autocommit = True  # our own BEGIN is the only one
    with db.cursor() as cursor:
        for statement in _READER if readonly else _WRITER:
            cursor.execute(statement)


def take_lock(engine: sa.Engine, *, wait: bool = False) -> None:
    """Have the session that the writer will use, and in it the lock of the one server. The engine
    must keep its session (`open_engine(..., keep=True)`).

    StoreError `already_served` when somebody else has it; with `wait`, it is waited for, and so
    is a database that cannot be reached: it may only be gone for a moment.
    """
    driver: Any = engine.dialect.loaded_dbapi
    _lock_sessions(engine)
    why = ""
    deadline = time.monotonic() + GRACE_S
    while True:
        try:
            engine.connect().close()  # into the pool, where it stays
            return
        except StoreError as error:
            is_over = not wait and time.monotonic() > deadline
            if is_over or error.code != "already_served":
                raise
        except (sa.exc.OperationalError, driver.OperationalError) as error:
            if not wait:
                raise
            before, why = why, harmless(engine.url, error)
            if why != before:
                log.warning("event=database_down why=%r", why)
        time.sleep(WAIT_S if time.monotonic() > deadline else 0.02)


def _lock_sessions(engine: sa.Engine) -> None:
    """From now on every session of this engine holds the lock, or is refused."""

    @sa.event.listens_for(engine, "connect")
    def _(db: Any, _record: Any) -> None:
        with db.cursor() as cursor:
            (is_ours,) = cursor.execute("SELECT pg_try_advisory_lock(%s)", (LOCK,)).fetchone()
            if is_ours:
                return
            row = cursor.execute(_HOLDER, (LOCK,)).fetchone()
        name, database = "" if row is None else row[0] or f"pid {row[1]}", db.info.dbname
        db.close()
        raise StoreError("already_served", database=database, pid=name or "?")


def place(url: sa.URL) -> str:
    """Where a database is, for people: no names, no secrets."""
    host = url.host or url.query.get("host", "") or "localhost"
    hosts = ",".join(host) if isinstance(host, tuple) else host
    return f"{hosts}:{url.port}" if url.port else hosts


def refusal(url: sa.URL, error: BaseException) -> StoreError:
    """Why it could not be opened. Libpq has no codes for this, only sentences."""
    why = harmless(url, error)
    facts = {"database": url.database or "", "place": place(url), "why": why}
    if any(word in why for word in ("password", "authentication failed", 'role "', "pg_hba.conf")):
        return StoreError("database_login", field="database", **facts)
    if 'database "' in why and "does not exist" in why:
        return StoreError("database_missing", field="database", **facts)
    return StoreError("database_unreachable", field="database", **facts)


def harmless(url: sa.URL, error: BaseException) -> str:
    """The first sentence of the driver's error, without the password."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines() or [
        type(error).__name__
    ]
    said = lines[0].strip()
    secrets = (url.password, url.query.get("password"))
    for secret in secrets:
        if isinstance(secret, str) and secret:
            said = said.replace(secret, "***")
    return said
