"""Makes a backup of a state folder while the server may be at work: records, outputs, settings.

Records are one consistent snapshot; outputs never change once they have their name. The token is
not in a backup, nor the address of a database that is elsewhere (it may hold a password). What is
in a backup was read once more and compared before it got its name.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from msgspec import Struct

from stoker.domain.errors import StoreError

from .archive import CONFIG, DATABASE, FORMAT, LOG_NAME, Manifest, Writer
from .copying import TABLES, epoch_of, snapshot_into
from .database import as_url, open_engine
from .migrate import present
from .tables import meta

Progress = Callable[[str, int, int], None]
"""(what, bytes done, of how many)."""
ELSEWHERE = re.compile(rb"^[ \t]*[\"']?database[\"']?[ \t]*=.*$", re.MULTILINE)


class Made(Struct, frozen=True):
    path: Path
    bytes: int
    manifest: Manifest


def default_name(now: datetime) -> str:
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname().split(".")[0]) or "host"
    return f"stoker-backup-{host}-{now:%Y%m%dT%H%M%SZ}.tar"


def back_up(
    home: Path,
    database: str | os.PathLike[str],
    target: Path,
    *,
    version: str,
    with_logs: bool,
    progress: Progress,
) -> Made:
    """Write the backup `target`; nothing that has that name is replaced."""
    if target.exists():
        raise StoreError("backup_exists", path=str(target))
    url = as_url(database)
    logs = list(_logs(home)) if with_logs else []
    _refuse_full_disk(target, url, logs)
    records = target.with_name(f".{target.name}.db")
    try:
        progress("records", 0, 0)
        snapshot_into(open_engine(url, readonly=True), records)
        return _archive(home, records, logs, target, version=version, progress=progress)
    finally:
        records.unlink(missing_ok=True)


def _archive(
    home: Path, records: Path, logs: list[Path], target: Path, *, version: str, progress: Progress
) -> Made:
    facts = _look_over(records)
    total = _stored(records) + sum(map(_stored, logs))
    count = _Count(total, progress)
    writer = Writer(target)
    try:
        count.what = "writing"
        with records.open("rb") as file:
            writer.add_file(DATABASE, file, count)
        config = _config(home)
        if config is not None:
            writer.add_bytes(CONFIG, config)
        for path in logs:
            _add_log(writer, home, path, count)
        manifest = Manifest(
            format=FORMAT,
            stoker=version,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            host=socket.gethostname(),
            database=facts.database,
            epoch=facts.epoch,
            records=facts.counted,
            schema=facts.schema,
            files=tuple(writer.files),
        )
        count.begin("verifying", sum(member.bytes for member in manifest.files))
        writer.keep(manifest, count)
    finally:
        writer.drop()
    return Made(target, target.stat().st_size, manifest)


class _Count:
    """Tells how far it is."""

    def __init__(self, total: int, progress: Progress) -> None:
        self.what, self._done, self._total, self._progress = "", 0, total, progress

    def begin(self, what: str, total: int) -> None:
        self.what, self._done, self._total = what, 0, total

    def __call__(self, more: int) -> None:
        self._done += more
        self._progress(self.what, self._done, self._total)


class _Records(Struct, frozen=True):
    """What a manifest says about the records."""

    schema: str
    database: str
    epoch: int
    counted: dict[str, int]


def _look_over(records: Path) -> _Records:
    """Raises StoreError when the file is damaged."""
    engine = open_engine(as_url(records), readonly=True)
    schema = present(engine)
    with engine.connect() as connection:
        (found,) = connection.exec_driver_sql("PRAGMA quick_check(1)").fetchone() or ("",)
        if found != "ok":
            raise StoreError("records_damaged", what=str(found))
        counted = {
            table.name: connection.execute(
                sa.select(sa.func.count()).select_from(table)
            ).scalar_one()
            for table in TABLES
        }
        named = sa.select(meta.c.value).where(meta.c.key == "database")
        id = str(connection.execute(named).scalar() or "")
        return _Records(schema, id, epoch_of(connection), counted)


def _logs(home: Path) -> Iterator[Path]:
    for path in sorted((home / "logs").glob("??/*")):
        if LOG_NAME.fullmatch(str(path.relative_to(home))) and not path.is_symlink():
            yield path


def _add_log(writer: Writer, home: Path, path: Path, count: _Count) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:  # its task was deleted meanwhile
        return
    with closing(open(fd, "rb")) as file:
        writer.add_file(str(path.relative_to(home)), file, count)


def _config(home: Path) -> bytes | None:
    """The settings without the address of a database that is elsewhere."""
    try:
        raw = (home / CONFIG).read_bytes()
    except FileNotFoundError:
        return None
    return ELSEWHERE.sub(b"# database: left out of the backup, whose records are in stoker.db", raw)


def _refuse_full_disk(target: Path, url: sa.URL, logs: list[Path]) -> None:
    """Better before than in the middle. The records are there twice for a moment."""
    needed = sum(map(_stored, logs))
    if url.get_backend_name() == "sqlite":
        needed += 2 * sum(_stored(Path(f"{url.database}{end}")) for end in ("", "-wal"))
    free = shutil.disk_usage(target.parent).free
    if free < needed:
        raise StoreError("backup_no_room", path=str(target.parent), needed=needed, free=free)


def _stored(path: Path) -> int:
    """What it takes on the disk, holes left out."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
    return min(found.st_size, found.st_blocks * 512)
