"""Copies all records from one database to another: SQLite and PostgreSQL, in any direction.

One consistent snapshot is read, and everything is written in one transaction of the target, so
that a kill leaves the target empty or whole. Before that is committed both sides are added up,
table by table, and must agree. A target that has records already is refused.
Ids and sequence numbers are the writer's own: there is nothing to set in the target afterwards.
The copy gets a higher epoch than the original, so that nodes which have met a server on the copy
never again obey one on the original.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from stoker.domain.errors import StoreError
from stoker.runner import killpoint

from .database import as_url, keep_private, open_engine
from .durably import sync_folder
from .tables import allocations, attempts, audit, entries, events, meta, metadata, tasks

TABLES = (tasks, events, attempts, allocations, entries, audit, meta)
"""In an order in which nothing refers to what is not there yet."""
BATCH = 1000
_MODULUS = 1 << 256

Progress = Callable[[str, int, int], None]
"""(what, done, of how many)."""


class Sum(Struct, frozen=True):
    """What a table holds, whatever the order of its rows."""

    rows: int
    sha256: str
    """The digests of all rows, added up."""


def copy_records(
    source: sa.URL, target: sa.URL, progress: Progress | None = None
) -> dict[str, Sum]:
    """Everything in `source` into `target`, which has no records; both have the present schema.

    The caller sees to it that no server writes to either. Returns what each table holds.
    """
    engine = open_engine(target)
    try:
        return _copy(open_engine(source, readonly=True), engine, progress)
    finally:
        engine.dispose()


def snapshot_into(source: sa.Engine, path: Path, progress: Progress | None = None) -> None:
    """The records as they are at this moment as one SQLite file, whole or not there.

    The server may be writing: it is not kept waiting. May be called again after a kill.
    """
    beside = path.with_name(path.name + ".part")
    for left in (beside, Path(f"{beside}-journal"), Path(f"{beside}-wal"), Path(f"{beside}-shm")):
        left.unlink(missing_ok=True)
    keep_private(beside)
    if source.dialect.name == "sqlite":
        raw = source.raw_connection()
        try:
            cursor = raw.cursor()
            cursor.execute("PRAGMA query_only = OFF")  # VACUUM INTO writes elsewhere
            cursor.execute("VACUUM INTO ?", (str(beside),))
        finally:
            raw.close()
    else:
        _copy_as_file(source, beside, progress)
    killpoint.reach(killpoint.SNAPSHOT)
    with open(beside, "rb") as file:
        os.fsync(file.fileno())
    os.replace(beside, path)
    sync_folder(path.parent)


def sums(connection: sa.Connection) -> dict[str, Sum]:
    """What every table holds, in the connection's transaction."""
    return {table.name: _sum(connection, table) for table in TABLES}


def epoch_of(connection: sa.Connection) -> int:
    found = connection.execute(sa.select(meta.c.value).where(meta.c.key == "epoch")).scalar()
    return int(found or 0)


def raise_epoch(connection: sa.Connection, above: int) -> int:
    """Above every epoch that a server on other copies of these records has had (PROTOCOL 1)."""
    epoch = max(above + 1, int(time.time()))
    connection.execute(meta.update().where(meta.c.key == "epoch").values(value=str(epoch)))
    return epoch


def _copy(source: sa.Engine, target: sa.Engine, progress: Progress | None) -> dict[str, Sum]:
    with source.connect() as reading, reading.begin(), target.begin() as writing:
        _refuse_records(writing)
        epoch = max(epoch_of(reading), epoch_of(writing))
        writing.execute(meta.delete())
        killpoint.reach(killpoint.COPYING)
        for table in TABLES:
            _copy_table(reading, writing, table, progress)
        read, written = sums(reading), sums(writing)
        if read != written:
            wrong = [name for name in read if read[name] != written[name]]
            raise StoreError("copy_differs", tables=", ".join(wrong))
        raise_epoch(writing, epoch)
        killpoint.reach(killpoint.COPIED)
    return read


def _refuse_records(target: sa.Connection) -> None:
    for table in TABLES:
        if table is meta:  # made with the schema
            continue
        if target.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first():
            raise StoreError("target_not_empty", table=table.name)


def _copy_table(
    source: sa.Connection, target: sa.Connection, table: sa.Table, progress: Progress | None
) -> None:
    total = source.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
    names = table.columns.keys()
    done = 0
    for rows in _batches(source, table):
        target.execute(table.insert(), [dict(zip(names, row, strict=True)) for row in rows])
        done += len(rows)
        if progress is not None:
            progress(table.name, done, total)


def _batches(connection: sa.Connection, table: sa.Table) -> Iterator[Sequence[Sequence[Any]]]:
    every = sa.select(*table.columns).execution_options(yield_per=BATCH)
    with connection.execute(every) as found:
        yield from found.partitions(BATCH)


def _sum(connection: sa.Connection, table: sa.Table) -> Sum:
    """Digests of rows are added, so that no side has to sort as the other does."""
    rows, total = 0, 0
    for batch in _batches(connection, table):
        rows += len(batch)
        total += sum(map(_digest, batch))
    return Sum(rows, f"{total % _MODULUS:064x}")


def _digest(row: Iterable[Any]) -> int:
    text = json.dumps(list(row), separators=(",", ":"), ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest(), "big")


def _copy_as_file(source: sa.Engine, beside: Path, progress: Progress | None) -> None:
    """Of whatever schema. Not a copy that somebody goes on with: its epoch stays what it is."""
    target = open_engine(as_url(beside))
    with source.connect() as reading, reading.begin(), target.begin() as writing:
        described = _described(reading)
        described.create_all(writing)
        for table in described.sorted_tables:
            _copy_table(reading, writing, table, progress)
            if _sum(reading, table) != _sum(writing, table):
                raise StoreError("copy_differs", tables=table.name)
    raw = target.raw_connection()
    try:
        cursor = raw.cursor()
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.execute("PRAGMA journal_mode = DELETE")
    finally:
        raw.close()


def _described(connection: sa.Connection) -> sa.MetaData:
    """The tables as we declare them, or as they are when they are older than that."""
    found = sa.MetaData()
    found.reflect(connection)
    ours = sa.MetaData()
    for table in metadata.sorted_tables:
        table.to_metadata(ours)
    is_ours = all(
        name in found.tables and set(found.tables[name].columns.keys()) == set(table.columns.keys())
        for name, table in ours.tables.items()
    )
    for table in found.tables.values():
        table.indexes.clear()  # nobody looks things up in a copy; some of them are PostgreSQL's own
        for column in table.columns:
            column.server_default = None
            if isinstance(column.type, sa.String):
                column.type = sa.Text()  # its order of letters has no name elsewhere
    if is_ours:
        found.tables["alembic_version"].to_metadata(ours)
    return ours if is_ours else found
