"""How long a person waits for `stoker ls`: the whole command, from start to exit.

A server with as many unfinished tasks as a screen shows. Yardstick: the same interpreter doing
nothing (`python -I -c pass`).
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.figure import Bar, Figure, Line, Measure, Reading, in_turn, scaled
from bench.server import STOKER, hold_all_cards, running, submit

from .submits import spec_of

RUNS = 10
TASKS = 20
LINE = Line("ls", "ms", Bar(10, 6, "at most"), "python -I -c pass")


@contextlib.contextmanager
def ready(folder: Path, scale: float) -> Iterator[Measure]:
    count = scaled(RUNS, scale, 3)
    with running(folder, 4) as server:
        with server.connect() as client:
            hold_all_cards(client, server)
            submit(client, [spec_of(number, server.work) for number in range(TASKS)])
        server.settle()
        nothing = [sys.executable, "-I", "-c", "pass"]
        command = [*_stoker(), "ls"]
        _check(command, server.environ)

        def measure() -> tuple[Reading, ...]:
            return (
                in_turn(
                    lambda: _median(command, server.environ, count),
                    lambda: _median(nothing, server.environ, count),
                ),
            )

        yield measure


def _stoker() -> list[str]:
    """The installed command, as people type it."""
    installed = Path(sys.executable).with_name("stoker")
    return [str(installed)] if installed.exists() else STOKER


def _check(command: list[str], environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, env=dict(environ), capture_output=True, text=True, timeout=60, check=True
    )
    if f"train-{TASKS - 1}" not in done.stdout:
        raise AssertionError(f"`stoker ls` does not show the tasks: {done.stdout[:500]}")


def _median(command: list[str], environ: Mapping[str, str], count: int) -> float:
    return 1000 * statistics.median(_once(command, environ) for _ in range(count))


def _once(command: list[str], environ: Mapping[str, str]) -> float:
    silent = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    begun = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environ, file_actions=silent)
    status = os.waitpid(pid, 0)[1]
    took = time.perf_counter() - begun
    if status:
        raise AssertionError(f"{command[0]} ended with status {status}")
    return took


FIGURE = Figure("ls", "`stoker ls`", (LINE,), ready)
