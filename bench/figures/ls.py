"""How long a person waits for `stoker ls`, `show` and `submit`: the whole command, start to exit.

A server with as many unfinished tasks as a screen shows; what is submitted here has to wait, and is
removed after every round, so that the list stays as long as it was. Yardstick: the same interpreter
doing nothing (`python -I -c pass`).
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from bench.client import Connection
from bench.figure import Bar, Figure, Line, Measure, Reading, in_turn, scaled
from bench.server import STOKER, hold_all_cards, running, submit

from .submits import spec_of

RUNS = 10
TASKS = 20
SUBMITTED = "one more"
COMMANDS = ("ls", "show", "submit")
LINES = tuple(
    Line(f"stoker {name}", "ms", Bar(10, 6, "at most"), "python -I -c pass") for name in COMMANDS
)


@contextlib.contextmanager
def ready(folder: Path, scale: float) -> Iterator[Measure]:
    count = scaled(RUNS, scale, 3)
    with running(folder, 4) as server:
        with server.connect() as client:
            hold_all_cards(client, server)
            ids = submit(client, [spec_of(number, server.work) for number in range(TASKS)])
        server.settle()
        # people let Python keep what it has compiled; the check below is the first to do so
        environ = {k: v for k, v in server.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        nothing = [sys.executable, "-I", "-c", "pass"]
        commands = [
            [*_stoker(), *words]
            for words in (
                ["ls"],
                ["show", ids[-1]],
                [
                    "submit",
                    "--gpus",
                    "1",
                    "--name",
                    SUBMITTED,
                    "-w",
                    str(server.work),
                    "--",
                    "true",
                ],
            )
        ]
        for command, shown in zip(commands, (f"train-{TASKS - 1}", "Events", "waits"), strict=True):
            _check(command, environ, shown)

        def measure() -> tuple[Reading, ...]:
            yardstick = partial(_median, nothing, environ, count)
            readings = tuple(
                in_turn(partial(_median, command, environ, count), yardstick)
                for command in commands
            )
            with server.connect() as client:  # the server closes one that idles
                _remove_submitted(client)
            return readings

        yield measure


def _stoker() -> list[str]:
    """The installed command, as people type it."""
    installed = Path(sys.executable).with_name("stoker")
    return [str(installed)] if installed.exists() else STOKER


def _check(command: Sequence[str], environ: Mapping[str, str], shown: str) -> None:
    done = subprocess.run(
        command, env=dict(environ), capture_output=True, text=True, timeout=60, check=True
    )
    if shown not in done.stdout:
        raise AssertionError(f"`stoker {command[-1]}` does not say {shown!r}: {done.stdout[:500]}")


def _remove_submitted(client: Connection) -> None:
    name = SUBMITTED.replace(" ", "%20")
    page = msgspec.json.decode(client.get(f"/api/v1/tasks?name={name}&limit=200"))
    for task in page["tasks"]:
        client.exchange(client.request("DELETE", f"/api/v1/tasks/{task['id']}"))


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


FIGURE = Figure("ls", "`stoker ls`, `stoker show`, `stoker submit`", LINES, ready)
