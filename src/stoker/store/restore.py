"""Puts the records of a backup in the place of those of a state folder. The server must be down.

Everything is verified and made ready beside; then one file (`restore.json`) decides. Killed before
it, the folder is as it was; killed after it, `finish` does the rest: the next start, or the next
`restore`, calls it. What was there is moved into `before-restore-TIME`, never deleted. Outputs are
only added: attempts never share a name.
The restored records get a higher epoch and a mark: the server that starts on them asks every node
what ran since, before it places anything (flow/restored.py).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from stoker.domain.errors import StoreError
from stoker.runner import killpoint

from .archive import CONFIG, DATABASE, Manifest, Member, Reader
from .base import Restored, RestoredNode
from .copying import epoch_of, raise_epoch
from .database import ServerLock, as_url, open_engine, refuse_network_disk
from .durably import sync_folder, write_durably
from .migrate import newest, present
from .pending import JOURNAL, is_pending
from .tables import meta

STAGE = "restoring"
SQLITE_FILES = (f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-journal", DATABASE)
"""The database itself last: a log without it says nothing, it without its log would lie."""

Progress = Callable[[str, int, int], None]


class Decision(Struct, frozen=True):
    """Written when a restore is certain to happen."""

    aside: str
    """The folder that what was there goes to."""
    has_config: bool
    """Whether settings are restored too."""


class Done(Struct, frozen=True):
    manifest: Manifest
    epoch: int
    aside: Path | None
    """Where what was there is now; None: there was nothing."""
    logs: int
    """Outputs that were missing and were added."""


def restore(archive: Path, home: Path, progress: Progress) -> Done:
    """Raises StoreError when the backup cannot be trusted or a server has the folder."""
    with closing(Reader(archive)) as reader:
        if reader.manifest.schema > newest():
            raise StoreError("newer_backup", found=reader.manifest.schema, known=newest())
        refuse_network_disk(home / DATABASE)
        _verify(reader, progress)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = ServerLock(home / f"{DATABASE}.lock")
        try:
            _finish(home)
            return _restore(reader, home, progress)
        finally:
            lock.close()


def finish(home: Path) -> None:
    """Bring a restore to its end that was decided and then killed. May be called at any time."""
    if not is_pending(home):
        return
    lock = ServerLock(home / f"{DATABASE}.lock")
    try:
        _finish(home)
    finally:
        lock.close()


def _verify(reader: Reader, progress: Progress) -> None:
    done = 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        progress("verifying", done, reader.stored)

    reader.verify(advance)


def _restore(reader: Reader, home: Path, progress: Progress) -> Done:
    stage = home / STAGE
    shutil.rmtree(stage, ignore_errors=True)  # of one that was killed before it was decided
    stage.mkdir(mode=0o700)
    done = logs = 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        progress("restoring", done, reader.stored)

    for member in reader.manifest.files:
        if member.name in (DATABASE, CONFIG):
            _put(reader, member, stage / member.name, advance)
        else:
            logs += _put_log(reader, member, home, advance)
    epoch = _mark(stage / DATABASE, reader.manifest)
    sync_folder(stage)
    killpoint.reach(killpoint.UNPACKED)
    aside = _free_name(home)
    write_durably(
        home / JOURNAL, msgspec.json.encode(Decision(aside.name, (stage / CONFIG).exists()))
    )
    killpoint.reach(killpoint.DECIDED)
    _finish(home)
    return Done(reader.manifest, epoch, aside if aside.exists() else None, logs)


def _finish(home: Path) -> None:
    """Every step may be done already. Under the lock."""
    journal = home / JOURNAL
    try:
        decision = msgspec.json.decode(journal.read_bytes(), type=Decision)
    except FileNotFoundError:
        return
    stage, aside = home / STAGE, home / Path(decision.aside).name
    if (stage / DATABASE).exists():  # so what is in its place is still the former one
        is_new = decision.has_config and not (stage / CONFIG).exists()
        _move_aside(home, aside, SQLITE_FILES if is_new else (CONFIG, *SQLITE_FILES))
        killpoint.reach(killpoint.ASIDE)
        for name in (CONFIG, DATABASE):  # the database last: it says that nothing is left to do
            if (stage / name).exists():
                os.rename(stage / name, home / name)
        sync_folder(home)
    killpoint.reach(killpoint.SWAPPED)
    shutil.rmtree(stage, ignore_errors=True)
    journal.unlink()
    sync_folder(home)


def _move_aside(home: Path, aside: Path, names: Sequence[str]) -> None:
    there = [name for name in names if (home / name).exists()]
    if not there:
        return
    aside.mkdir(mode=0o700, exist_ok=True)
    for name in there:
        os.rename(home / name, aside / name)
    sync_folder(aside)
    sync_folder(home)


def _put(reader: Reader, member: Member, path: Path, advance: Callable[[int], None]) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        reader.put(member, fd, advance)
        os.fsync(fd)
    finally:
        os.close(fd)


def _put_log(reader: Reader, member: Member, home: Path, advance: Callable[[int], None]) -> bool:
    """Whether it was missing. Its name was checked by the reader."""
    path = home / member.name
    if path.exists():
        return False
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    beside.unlink(missing_ok=True)
    _put(reader, member, beside, advance)
    os.rename(beside, path)
    return True


def _mark(records: Path, manifest: Manifest) -> int:
    """A higher epoch, and what the next server must find out. Whatever known schema it has."""
    engine = open_engine(as_url(records))
    if present(engine) != manifest.schema:
        raise StoreError("backup_damaged", path=str(records), what="not the schema it says")
    with engine.begin() as connection:
        epoch = raise_epoch(connection, epoch_of(connection))
        restored = Restored(
            at=datetime.now(UTC), made_at=manifest.made_at, nodes=_nodes(connection)
        )
        _remember(connection, "kept.restored", msgspec.json.encode(restored).decode())
    raw = engine.raw_connection()
    with contextlib.closing(raw):
        cursor = raw.cursor()
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.execute("PRAGMA journal_mode = DELETE")  # one file, so that one rename moves it
    return epoch


def _nodes(connection: sa.Connection) -> dict[str, RestoredNode]:
    """Every node that these records know, with its spool and from where on its past is unknown."""
    known = _kept_nodes(connection)
    rows = connection.exec_driver_sql(
        "SELECT node, spool_id, launch_number FROM attempts ORDER BY launch_number"
    )
    above: dict[str, int] = {}
    for node, spool, number in rows:
        known[node] = known.get(node) or spool
        above[node] = number
    live = connection.exec_driver_sql(
        "SELECT a.node, min(a.launch_number) FROM attempts a JOIN tasks t ON t.attempt = a.id"
        " WHERE t.state IN ('STARTING', 'RUNNING', 'STOPPING') GROUP BY a.node"
    )
    for node, number in live:
        above[node] = min(above[node], number - 1)
    return {node: RestoredNode(spool, above.get(node, 0)) for node, spool in known.items()}


def _kept_nodes(connection: sa.Connection) -> dict[str, str]:
    kept = connection.execute(sa.select(meta.c.value).where(meta.c.key == "kept.nodes")).scalar()
    return msgspec.json.decode(kept, type=dict[str, str]) if kept else {}


def _remember(connection: sa.Connection, key: str, value: str) -> None:
    connection.execute(meta.delete().where(meta.c.key == key))
    connection.execute(meta.insert().values(key=key, value=value))


def _free_name(home: Path) -> Path:
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name, number = f"before-restore-{now}", 1
    while (home / name).exists():
        number += 1
        name = f"before-restore-{now}-{number}"
    return home / name
