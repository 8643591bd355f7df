"""How soon a killed server is back: 1,000 tasks running, 10,000 waiting, 100,000 finished.

The running ones are real processes on simulated cards. The server gets SIGKILL; a few of the
processes, spread over all of them, end while it is dead. Measured from the kill: until the API
answers again, and until all attempts are known, which is when every one of those few is FINISHED
for the new server (a listing of the node is whole: who knows these knows the others).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from bench.client import Connection
from bench.figure import Bar, Figure, Line, Measure, Reading, scaled
from bench.seed import finished
from bench.server import Server, health, running, submit, wait_for

RUNNING, WAITING, FINISHED = 1_000, 10_000, 100_000
ENDING = 10
BACK_S = 120.0
POLL_S = 0.01
LINES = (
    Line("restart: API answers", "s", Bar(3, None, "at most", of="ours"), ""),
    Line("restart: attempts known", "s", Bar(10, None, "at most", of="ours"), ""),
)


@contextlib.contextmanager
def ready(folder: Path, scale: float) -> Iterator[Measure]:
    live = scaled(RUNNING, scale, 20)
    with running(folder, live, finished(scaled(FINISHED, scale, 100))) as server:
        with server.connect() as client:
            count = live + scaled(WAITING, scale, 100)
            submit(client, [_sleep(number, server.work) for number in range(count)])
            _all_running(client, live)
        server.settle()
        yield lambda: _restart(server, live)


def _sleep(number: int, work: Path) -> dict[str, object]:
    return {"command": ["sleep", f"{86_400 + number}"], "workdir": str(work), "gpus": 1}


def _all_running(client: Connection, live: int) -> None:
    """Each card runs a task: seen by its state, not only intended."""

    def all_run() -> bool:
        found = health(client)
        return found.live == live and not _states(client, "STARTING")

    wait_for(all_run, 300, f"{live} tasks run", 0.2)


def _restart(server: Server, live: int) -> tuple[Reading, ...]:
    with server.connect() as client:
        victims = _spread(client, ENDING)
    pids = _sleepers(server.work)
    chosen = [pids[_seconds(task)] for task in victims]
    begun = time.perf_counter()
    server.kill()
    for pid in chosen:
        os.kill(pid, signal.SIGTERM)
    starting = server.launch()
    try:
        answered = wait_for(server.answers, BACK_S, "the API answers", POLL_S)
        with server.connect() as client:
            for task in victims:
                is_over = partial(_is_over, client, f"/api/v1/tasks/{task['id']}")
                wait_for(is_over, BACK_S, "an end is known", POLL_S)
            known = time.perf_counter()
            starting.wait(BACK_S)
            _all_running(client, live)
    finally:
        starting.kill()
        starting.wait()
    server.settle()
    return Reading(answered - begun, None), Reading(known - begun, None)


def _spread(client: Connection, count: int) -> list[dict[str, object]]:
    """A few running tasks, from the first to the last one."""
    found = _states(client, "RUNNING")
    last = len(found) - 1
    return [found[last * number // (count - 1)] for number in range(count)]


def _states(client: Connection, state: str) -> list[dict[str, object]]:
    tasks: list[dict[str, object]] = []
    path = f"/api/v1/tasks?state={state}&limit=200"
    cursor: str | None = ""
    while cursor is not None:
        page = msgspec.json.decode(client.get(path + (f"&cursor={cursor}" if cursor else "")))
        tasks += page["tasks"]
        cursor = page["next"]
    return tasks


def _is_over(client: Connection, path: str) -> bool:
    task = msgspec.json.decode(client.get(path))["task"]
    if task["state"] == "FINISHED" and task["reason"] != "killed_by_signal":
        raise AssertionError(f"it was killed by a signal, but its end says {task['reason']}")
    return bool(task["state"] == "FINISHED")


def _seconds(task: dict[str, object]) -> str:
    spec = task["spec"]
    assert isinstance(spec, dict)
    return str(spec["command"][1])


def _sleepers(work: Path) -> dict[str, int]:
    """The tasks' own processes: `sleep` in our folder, by its argument."""
    found: dict[str, int] = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            words = Path(f"/proc/{int(name)}/cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"sleep") and os.readlink(f"/proc/{name}/cwd") == str(work):
                found[words[1].decode()] = int(name)
    return found


FIGURE = Figure(
    "restart",
    f"{RUNNING:,} running, {WAITING:,} waiting, {FINISHED:,} finished",
    LINES,
    ready,
)
