"""A real server for a figure: its own STOKER_HOME, simulated GPUs, loopback, started as people do.

`running` starts it and always cleans up: `down --stop-tasks`, then what is left by pid. Restarting
and killing it are for the figure that measures just that.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.wire import Health

from .client import BadAnswer, Connection
from .processes import end_all, is_gone, processes_of, settle

START_S = 60.0
DOWN_S = 120.0
MOST_IN_BATCH = 10_000
MOST_CANCELLED = 500
STOKER = [sys.executable, "-m", "stoker"]


class NotStarted(Exception):
    """The server did not come up; says what it said."""


class Server(NamedTuple):
    home: Path
    port: int
    gpus: int

    @property
    def work(self) -> Path:
        """Where tasks run: inside our folder, so that none can be overlooked."""
        return self.home / "work"

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("STOKER_")}
        return kept | {"STOKER_HOME": str(self.home), "STOKER_ONE_PERSON": "1"}

    @property
    def pid(self) -> int:
        return int(json.loads((self.home / "server.json").read_text())["pid"])

    def start(self) -> None:
        """`stoker up --detach`. Returns when it says that it serves."""
        listen = ["--listen", f"127.0.0.1:{self.port}", "--simulate-gpus", str(self.gpus)]
        done = self.run("up", "--detach", *listen, patience_s=START_S)
        if done.returncode:
            raise NotStarted(f"stoker up ended with {done.returncode}: {done.stderr[-2000:]}")
        wait_for(self.answers, START_S, "the server answers")

    def launch(self) -> subprocess.Popen[bytes]:
        """`stoker up --detach` without waiting for it."""
        listen = ["--listen", f"127.0.0.1:{self.port}", "--simulate-gpus", str(self.gpus)]
        return subprocess.Popen(
            [*STOKER, "up", "--detach", *listen],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """SIGKILL; returns when it holds nothing any more."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: is_gone(pid), DOWN_S, "the server is dead", 0.001)

    def run(self, *words: str, patience_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*STOKER, *words],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience_s,
            check=False,
        )

    def connect(self) -> Connection:
        token = (self.home / "token").read_text().strip()
        return Connection("127.0.0.1", self.port, token)

    def answers(self) -> bool:
        with contextlib.suppress(OSError, BadAnswer), Connection("127.0.0.1", self.port) as client:
            client.get("/api/v1/health")
            return True
        return False

    def settle(self) -> None:
        """Wait until server and runner owe nothing any more."""
        settle(processes_of(self.home))


@contextlib.contextmanager
def running(
    folder: Path, gpus: int, prepare: Callable[[Path], None] | None = None
) -> Iterator[Server]:
    """A server in a new folder below `folder`. `prepare` may put records there beforehand."""
    home = folder / f"home-{time.monotonic_ns()}"
    server = Server(home, _free_port(), gpus)
    home.mkdir(mode=0o700)
    server.work.mkdir()
    try:
        if prepare is not None:
            prepare(home)
        server.start()
        server.settle()
        yield server
    finally:
        _end(server)


def health(client: Connection) -> Health:
    return msgspec.json.decode(client.get("/api/v1/health"), type=Health)


def submit(client: Connection, specs: list[dict[str, object]]) -> list[str]:
    """Hand these over in as few calls as possible; their ids."""
    ids: list[str] = []
    for start in range(0, len(specs), MOST_IN_BATCH):
        body = {"tasks": specs[start : start + MOST_IN_BATCH]}
        ids += msgspec.json.decode(client.post("/api/v1/tasks/batch", body))["ids"]
    return ids


def hold_all_cards(client: Connection, server: Server) -> str:
    """One task that sleeps on every card, so that what is submitted next has to wait."""
    spec = {"command": ["sleep", "86400"], "workdir": str(server.work), "gpus": server.gpus}
    (id,) = submit(client, [spec])
    wait_for(lambda: health(client).live == 1, START_S, "the cards are held")
    return id


def wait_for(
    condition: Callable[[], bool], patience_s: float, what: str, pause_s: float = 0.02
) -> float:
    """Until it holds; the instant (perf_counter) it was seen to."""
    deadline = time.perf_counter() + patience_s
    while True:
        if condition():
            return time.perf_counter()
        if time.perf_counter() > deadline:
            raise TimeoutError(f"waited {patience_s:.0f} s until {what}")
        time.sleep(pause_s)


def _end(server: Server) -> None:
    """`down --stop-tasks`, then what is left by pid."""
    words = ["down", "--stop-tasks", "--yes"]
    with contextlib.suppress(OSError, BadAnswer), server.connect() as client:
        if health(client).waiting > MOST_CANCELLED:
            words = ["down"]  # each task would be cancelled for itself: minutes, for nothing
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        server.run(*words, patience_s=DOWN_S)
    end_all(server.home)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
