"""How fast the task list is answered: 50 rows, one client, nothing that a cache could repeat.

The client walks through different pages, so no answer is asked for twice in a row. Yardstick: a
bare ASGI application on the same HTTP server (uvicorn, httptools, asyncio) that has the very same
bytes ready, asked by the same client.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench import bare_asgi
from bench.client import Connection
from bench.figure import Bar, Figure, Line, Measure, Reading, in_turn, scaled
from bench.seed import finished
from bench.server import hold_all_cards, running, submit

from .submits import spec_of

ROWS = 50
PAGES = 20
WAITING = 5 * ROWS
REQUESTS = 1_000
LINE = Line(
    "list", "requests/s", Bar(0.25, 0.4, "at least"), "a bare ASGI app answering the same bytes"
)


@contextlib.contextmanager
def ready(folder: Path, scale: float) -> Iterator[Measure]:
    count = scaled(REQUESTS, scale, 100)
    with running(folder, 4, finished(PAGES * ROWS)) as server:
        with server.connect() as client:
            hold_all_cards(client, server)
            submit(client, [spec_of(number, server.work) for number in range(WAITING)])
            answers = _pages(client)
        server.settle()
        with _bare(folder, answers) as port:

            def measure() -> tuple[Reading, ...]:
                return (
                    in_turn(
                        lambda: _ask(server.connect(), list(answers), count),
                        lambda: _ask(Connection("127.0.0.1", port), list(answers), count),
                    ),
                )

            yield measure


def _pages(client: Connection) -> dict[str, bytes]:
    """The paths of the pages, each with its answer."""
    path = f"/api/v1/tasks?limit={ROWS}"
    answers: dict[str, bytes] = {}
    cursor = ""
    while len(answers) < PAGES:
        asked = path + (f"&cursor={cursor}" if cursor else "")
        answers[asked] = client.get(asked)
        page = msgspec.json.decode(answers[asked])
        if len(page["tasks"]) != ROWS:
            raise AssertionError(f"a page of {len(page['tasks'])} tasks, not {ROWS}")
        cursor = page["next"]
    return answers


def _ask(client: Connection, paths: list[str], count: int) -> float:
    requests = [client.request("GET", path) for path in paths]
    with client:
        begun = time.perf_counter()
        for number in range(count):
            client.exchange(requests[number % len(requests)])
        return count / (time.perf_counter() - begun)


@contextlib.contextmanager
def _bare(folder: Path, answers: dict[str, bytes]) -> Iterator[int]:
    file = folder / "answers.json"
    file.write_text(json.dumps({path: body.decode() for path, body in answers.items()}))
    process = subprocess.Popen(
        [sys.executable, "-I", bare_asgi.__file__, file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate(timeout=10)


FIGURE = Figure("list", f"GET the task list, {ROWS} rows", (LINE,), ready)
