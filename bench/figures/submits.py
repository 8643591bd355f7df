"""How many tasks are accepted for good per second: each answer comes after its commit.

The tasks cannot start: one task sleeps on every card, so each is recorded QUEUED and takes its
place in line. One client waits for each answer; sixteen do so side by side; one call brings 10,000.
Every round has a server of its own, so that rounds are alike. Yardstick for all three: plain
sqlite3 on the same disk, two rows per commit (a task with the same spec, an event), WAL and FULL.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.client import many
from bench.figure import Bar, Figure, Line, Measure, Reading, in_turn, scaled
from bench.server import Server, health, hold_all_cards, running
from stoker.domain.task import TaskSpec

CLIENTS = 16
SINGLE, SIDE_BY_SIDE, BATCH, COMMITS = 1_000, 3_000, 10_000, 1_000
SQLITE = "sqlite3 commits of two rows"
LINES = (
    Line("submits: one client", "tasks/s", Bar(0.3, 0.5, "at least"), SQLITE),
    Line(f"submits: {CLIENTS} clients", "tasks/s", Bar(0.7, 1, "at least"), SQLITE),
    Line("submits: one batch call", "tasks/s", Bar(12, 20, "at least"), SQLITE),
)


@contextlib.contextmanager
def ready(folder: Path, scale: float) -> Iterator[Measure]:
    def measure() -> tuple[Reading, ...]:
        with running(folder, 4) as server:
            with server.connect() as client:
                hold_all_cards(client, server)
            server.settle()
            counts = [scaled(n, scale, 100) for n in (SINGLE, SIDE_BY_SIDE, BATCH)]
            commits = scaled(COMMITS, scale, 100)

            def plain() -> float:
                return _plain(folder, commits)

            readings = (
                in_turn(lambda: _side_by_side(server, 1, counts[0]), plain),
                in_turn(lambda: _side_by_side(server, CLIENTS, counts[1]), plain),
                in_turn(lambda: _batch(server, counts[2]), plain),
            )
            _check(server, sum(counts))
            return readings

    yield measure


def spec_of(number: int, work: Path) -> dict[str, object]:
    """A task as somebody might submit it; no two are the same."""
    return {
        "command": ["python", "train.py", "--seed", str(number)],
        "name": f"train-{number}",
        "workdir": str(work),
        "gpus": 1,
    }


def _side_by_side(server: Server, clients: int, count: int) -> float:
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(clients)]
        make = connections[0].request
        requests = [
            make("POST", "/api/v1/tasks", spec_of(number, server.work)) for number in range(count)
        ]
        begun = time.perf_counter()
        many(connections, requests)
        return count / (time.perf_counter() - begun)


def _batch(server: Server, count: int) -> float:
    specs = [spec_of(number, server.work) for number in range(count)]
    with server.connect() as client:
        request = client.request("POST", "/api/v1/tasks/batch", {"tasks": specs})
        begun = time.perf_counter()
        client.exchange(request)
        return count / (time.perf_counter() - begun)


def _plain(folder: Path, count: int) -> float:
    """What the disk and SQLite allow when nothing else is done."""
    path = folder / f"plain-{time.monotonic_ns()}.db"
    spec = msgspec.json.encode(msgspec.convert(spec_of(0, folder), TaskSpec))
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute(
            "CREATE TABLE tasks (id INTEGER PRIMARY KEY, owner TEXT, queue TEXT, state TEXT,"
            " version INTEGER, spec BLOB)"
        )
        db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, task_id INTEGER, body BLOB)")
        db.execute("CREATE INDEX events_task ON events (task_id)")
        begun = time.perf_counter()
        for id in range(1, count + 1):
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO tasks VALUES (?, 'ana', '', 'QUEUED', 1, ?)", (id, spec))
            db.execute("INSERT INTO events VALUES (?, ?, ?)", (id, id, b'{"event":"Submitted"}'))
            db.execute("COMMIT")
        return count / (time.perf_counter() - begun)
    finally:
        db.close()
        for left in folder.glob(path.name + "*"):
            left.unlink()


def _check(server: Server, count: int) -> None:
    with server.connect() as client:
        found = health(client)
    if (found.waiting, found.live) != (count, 1):
        raise AssertionError(f"{count} tasks should wait, there are {found.waiting}")


FIGURE = Figure("submits", "durable submits over HTTP", LINES, ready)
