"""A real server process on a home: started, found, killed, started again.

Two ways to start one: `python -m stoker up` itself, or a fork of a process that has imported it
already (zygote.py). The second saves half a second each time, and makes a crash loop possible in
which the server dies every 300 ms.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import stoker
from stoker.cli.alive import standby_pid
from stoker.runner.identity import Process, is_there, send, stat

SOURCES = Path(stoker.__file__).parent.parent
READY_S = 20.0
TERM, KILL = signal.SIGTERM, signal.SIGKILL


class Unreachable(Exception):
    """No answer: what was asked may have happened or not."""


class ServerDied(Exception):
    """It ended before it was ready; the text is the end of its log."""


class Starter(Protocol):
    def __call__(self, argv: list[str], environ: Mapping[str, str], log: Path) -> int:
        """The pid of a new server."""
        ...


class Zygote:
    """Forks servers from a process that has imported everything."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            start_new_session=True,
        )

    def __call__(self, argv: list[str], environ: Mapping[str, str], log: Path) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"argv": argv, "environ": dict(environ), "log": str(log)}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)


class Program:
    """Starts `python -m stoker` as a person does. Reaps what it started."""

    def __init__(self, prefix: tuple[str, ...] = ()) -> None:
        self._prefix = prefix
        self.started: list[subprocess.Popen[bytes]] = []

    def __call__(self, argv: list[str], environ: Mapping[str, str], log: Path) -> int:
        with log.open("ab") as out:
            started = subprocess.Popen(
                [*self._prefix, sys.executable, "-m", "stoker", *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=dict(environ),
                start_new_session=True,
            )
        self.started.append(started)
        return started.pid

    def close(self) -> None:
        for started in self.started:
            started.wait(10)


class Server:
    """The server of one home, and perhaps a standby. Each may be dead at any moment."""

    def __init__(
        self, home: Path, log: Path, start: Starter, environ: Mapping[str, str], gpus: int
    ) -> None:
        self.home, self.log, self._start = home, log, start
        self.environ = dict(environ)
        self._argv = ["up", "--listen", "127.0.0.1:0", "--simulate-gpus", str(gpus)]
        self._who: Process | None = None
        self._standby: Process | None = None
        self._connection: http.client.HTTPConnection | None = None
        self.starts = 0
        self.takeovers = 0

    @property
    def who(self) -> Process | None:
        return self._who

    @property
    def is_alive(self) -> bool:
        return self._who is not None and is_there(self._who)

    @property
    def pid(self) -> int:
        assert self._who is not None
        return self._who.pid

    def spawn(self) -> None:
        """Start one; do not wait for it."""
        self.hang_up()
        self.starts += 1
        self._who = self._begin(*self._argv)

    def stand_by(self) -> None:
        """Start one that waits beside the present one, and wait until it does."""
        self._standby = found = self._begin(*self._argv, "--standby")
        assert found is not None, self.tail()
        wait_until(lambda: standby_pid(self.home) == found.pid, READY_S, "the standby to wait")

    def follow(self) -> bool:
        """Have the standby for the server, if there is one."""
        standby, self._standby = self._standby, None
        if standby is None or not is_there(standby):
            return False
        self.hang_up()
        self._who = standby
        self.takeovers += 1
        return True

    def has_successor(self) -> bool:
        """Whether the standby waits no longer."""
        return self._standby is None or standby_pid(self.home) != self._standby.pid

    def kill_standby(self) -> bool:
        """SIGKILL, and wait until it is gone; False when there was none."""
        standby, self._standby = self._standby, None
        was_alive = standby is not None and send(standby, KILL)
        wait_until(lambda: standby is None or not is_there(standby), 5, "the standby to be gone")
        return was_alive

    def _begin(self, *argv: str) -> Process | None:
        """None: it died already."""
        pid = self._start(list(argv), self.environ, self.log)
        one = stat(pid)
        return None if one is None else Process(pid, one.start)

    def is_ready(self) -> bool:
        """Whether it has said where it serves. An old server's word does not count."""
        facts = self._facts()
        return self._who is not None and facts.get("pid") == self._who.pid

    def start(self) -> None:
        """Start one and wait until it serves. Raises ServerDied."""
        self.spawn()
        wait_until(lambda: not self.is_alive or self.is_ready(), READY_S, "the server to be ready")
        if not self.is_alive:
            raise ServerDied(self.tail())

    def signal(self, number: int) -> bool:
        return self._who is not None and send(self._who, number)

    def kill(self) -> bool:
        """SIGKILL, and wait until it is gone; False when it was dead already."""
        was_alive = self.signal(KILL)
        wait_until(lambda: not self.is_alive, 5, "the killed server to be gone")
        self.hang_up()
        return was_alive

    def stop(self, number: int = TERM) -> None:
        """Ask it to end, and wait until it has."""
        self.signal(number)
        wait_until(lambda: not self.is_alive, 15, "the server to end")
        self.hang_up()

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON. Raises Unreachable when there was no whole answer."""
        headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": "application/json"}
        raw = None if body is None else json.dumps(body)
        try:
            if self._connection is None:
                self._connection = self._connect()
            self._connection.request(method, f"/api/v1{path}", raw, headers)
            response = self._connection.getresponse()
            said = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.hang_up()
            raise Unreachable(repr(error)) from error
        if response.headers.get_content_type() == "application/octet-stream":
            return response.status, said
        return response.status, json.loads(said)

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def _connect(self) -> http.client.HTTPConnection:
        facts = self._facts()
        if not self.is_ready():
            raise ConnectionRefusedError("no server is ready")
        _, _, address = facts["url"].rpartition("/")
        host, _, port = address.rpartition(":")
        return http.client.HTTPConnection(host, int(port), timeout=10)

    def _facts(self) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = json.loads((self.home / "server.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return facts

    def _token(self) -> str:
        try:
            return (self.home / "token").read_text().strip()
        except FileNotFoundError:
            return ""


def wait_until(is_so: Callable[[], object], within_s: float, what: str) -> None:
    """Bounded. Raises AssertionError naming `what` did not come."""
    deadline = time.monotonic() + within_s
    pause_s = 0.002
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within_s} s for {what}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)
