"""What a waiting task costs the server in memory.

A first batch warms the server up: what handling 10,000 tasks at once takes is then there already.
The figure is how much its resident memory grows over the following 100,000, divided by them.
Submitted in batches, all behind one task that sleeps on every card; no two alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Bar, Figure, Line, Measure, Reading, chunks, scaled
from bench.processes import resident_bytes
from bench.server import MOST_IN_BATCH, Server, health, hold_all_cards, running, submit

from .submits import spec_of

TASKS = 100_000
LINE = Line("memory", "bytes", Bar(1500, 600, "at most", of="ours"), "HyperQueue: 2,050 bytes")


@contextlib.contextmanager
def ready(folder: Path, scale: float) -> Iterator[Measure]:
    count = scaled(TASKS, scale, MOST_IN_BATCH)

    def measure() -> tuple[Reading, ...]:
        with running(folder, 4) as server:
            return (Reading(_growth(server, count) / count, None),)

    yield measure


def _growth(server: Server, count: int) -> int:
    with server.connect() as client:
        hold_all_cards(client, server)
        submit(client, [spec_of(number, server.work) for number in range(MOST_IN_BATCH)])
        server.settle()
        before = resident_bytes(server.pid)
        for piece in chunks(count, MOST_IN_BATCH):
            submit(client, [spec_of(MOST_IN_BATCH + n, server.work) for n in piece])
        server.settle()
        after = resident_bytes(server.pid)
        waiting = health(client).waiting
    if waiting != MOST_IN_BATCH + count:
        raise AssertionError(f"{MOST_IN_BATCH + count} tasks should wait, {waiting} do")
    return after - before


FIGURE = Figure("memory", "server memory per waiting task", (LINE,), ready, rounds=3)
