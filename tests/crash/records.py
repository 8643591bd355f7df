"""Reads what the checker needs: the database, and the node's own ends in the files of a home.

The plain drivers and the format of the files, on purpose: a mistake in the product's own reading
code must not hide a mistake in what it wrote. Nothing here writes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from stoker.runner.lines import unpack, unpack_one

from .history import AttemptRow, EndRow, EventRow, Exit, History, TaskRow

Row = Any
"""Its columns by name."""


def read_database(where: str | Path, into: History) -> None:
    """Tasks, attempts and events, as of now."""
    with _opened(where) as database:
        into.tasks = [_task(row) for row in database.execute(_TASKS)]
        into.attempts = [_attempt(row) for row in database.execute("SELECT * FROM attempts")]
        into.events = [_event(row) for row in database.execute("SELECT * FROM events ORDER BY seq")]


def count(where: str | Path, rows: str) -> int:
    """How many there are, whatever the server says."""
    with _opened(where) as database:
        row = database.execute(f"SELECT count(*) AS number FROM {rows}").fetchone()
    return int(row["number"])


@contextmanager
def _opened(where: str | Path) -> Iterator[Any]:
    """A file, or the URL of a PostgreSQL database."""
    if isinstance(where, Path):
        with closing(sqlite3.connect(f"file:{where}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            yield database
    else:
        with psycopg.connect(where, row_factory=dict_row) as server:
            yield server


def read_exits(spool: Path) -> dict[str, Exit]:
    """By attempt: every exit line that this spool still knows of."""
    return {
        key.rpartition(".")[0]: Exit(end["cause"], end["code"], end["signal"])
        for key, end in (*_forgotten(spool), *_records(spool))
    }


def spool_id(spool: Path) -> str:
    return (spool / "spool.id").read_text().strip()


_TASKS = """
    SELECT tasks.*, events.spec AS spec FROM tasks JOIN events ON events.seq = tasks.spec_seq
"""


def _task(row: Row) -> TaskRow:
    return TaskRow(
        id=str(row["id"]),
        name=row["name"],
        state=row["state"],
        attempt=row["attempt"],
        end=_end(row["end"]),
        requeue_on_loss=bool(json.loads(row["spec"]).get("requeue_on_loss")),
    )


def _attempt(row: Row) -> AttemptRow:
    ended_us = row["ended_us"]
    return AttemptRow(
        id=row["id"],
        task=str(row["task_id"]),
        ordinal=row["ordinal"],
        gpus=tuple(gpu["index"] for gpu in json.loads(row["allocation"])["gpus"]),
        boot=row["boot_id"],
        spool=row["spool_id"],
        placed_ns=row["placed_us"] * 1000,
        # Rounded down to microseconds when it was stored.
        ended_ns=None if ended_us is None else ended_us * 1000 + 999,
        end=_end(row["end"]),
    )


def _event(row: Row) -> EventRow:
    body = json.loads(row["body"])
    return EventRow(row["seq"], str(row["task_id"]), row["kind"], body.get("attempt"))


def _end(raw: str | bytes | None) -> EndRow | None:
    if raw is None:
        return None
    body = json.loads(raw)
    return EndRow(body["outcome"], body["reason"], body.get("exit_code"), body.get("signal"))


def _forgotten(spool: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        raw = (spool / "ended.jsonl").read_bytes()
    except FileNotFoundError:
        return
    for line in raw.split(b"\n"):
        fact = unpack_one(line)
        if fact is not None and fact["exit"] is not None:
            yield fact["key"], fact["exit"]


def _records(spool: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in spool.glob("*.rec"):
        try:
            facts = unpack(path.read_bytes())
        except FileNotFoundError:
            continue
        for fact in facts:
            if fact["line"] == "exit":
                yield path.stem, fact
