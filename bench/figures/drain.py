"""How fast short tasks go through: accepted, recorded, supervised, ended, recorded.

1,000 times `true` in one batch call on four cards, until the server says that nothing waits and
nothing is alive: each end is committed by then. Yardstick: this process starts and waits for as
many `true`, one after another, by posix_spawn.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.client import Connection
from bench.figure import Bar, Figure, Line, Measure, Reading, in_turn, scaled
from bench.server import Server, health, running, submit, wait_for

TASKS = 1_000
SLOTS = 4
LINE = Line("drain", "tasks/s", Bar(0.12, 0.25, "at least"), "posix_spawn + waitpid of `true`")
PATIENCE_S = 300.0
POLL_S = 0.02


@contextlib.contextmanager
def ready(folder: Path, scale: float) -> Iterator[Measure]:
    count = scaled(TASKS, scale, 50)
    program = shutil.which("true") or "/bin/true"
    with running(folder, SLOTS) as server:
        spec: dict[str, object] = {"command": [program], "workdir": str(server.work), "gpus": 1}

        def measure() -> tuple[Reading, ...]:
            server.settle()
            reading = in_turn(lambda: _drain(server, spec, count), lambda: _spawn(program, count))
            return (reading,)

        yield measure


def _drain(server: Server, spec: dict[str, object], count: int) -> float:
    with server.connect() as client:
        begun = time.perf_counter()
        submit(client, [spec] * count)

        def over() -> bool:
            found = health(client)
            return found.waiting + found.live == 0

        took = wait_for(over, PATIENCE_S, "all tasks are over", POLL_S) - begun
        _check(client, count)
    server.settle()  # logs that are still being copied are not the yardstick's business
    return count / took


def _spawn(program: str, count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        pid = os.posix_spawn(program, [program], os.environ)
        os.waitpid(pid, 0)
    return count / (time.perf_counter() - begun)


def _check(client: Connection, count: int) -> None:
    """A figure of tasks that failed would be worth nothing."""
    page = msgspec.json.decode(client.get(f"/api/v1/tasks?limit={min(count, 200)}"))
    wrong = [t["id"] for t in page["tasks"] if t["outcome"] != "succeeded"]
    if wrong:
        raise AssertionError(f"these tasks did not succeed: {wrong[:5]}")


FIGURE = Figure("drain", f"{TASKS:,} short tasks on {SLOTS} cards", (LINE,), ready)
