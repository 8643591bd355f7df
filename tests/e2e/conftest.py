"""A whole Stoker of one's own: real server, runner, supervisors and tasks in a folder of the test.

Whatever a test does to it, nothing of it is left afterwards: first the kind way (`down
--stop-tasks`), then by pid. Processes are known by a variable in their environment, so that no
other Stoker on the machine is ever touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.client import Client
from stoker.store.recorder import open_store

ROOT = Path(__file__).resolve().parents[2]
MARK = "E2E_MARK"
NOT_OURS = ("STOKER_", "LC_", "VIRTUAL_ENV", "CONDA_", "MAMBA_")
"""Variables of whoever runs the tests: his environment is not that of our tasks."""
PATIENCE_S = 30.0


class Stoker:
    """One state folder, and the `stoker` command on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        self._begun: list[subprocess.Popen[bytes]] = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(NOT_OURS)}
        self.env |= {
            "STOKER_HOME": str(self.home),
            "STOKER_ONE_PERSON": "1",  # whoever runs the tests
            "PYTHONPATH": str(ROOT / "src"),
            "LANG": "C.UTF-8",
            "PWD": str(self.work),
            MARK: str(self.home),
        }

    # ---- the command line

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "stoker", *args]

    def __call__(
        self, *args: str, code: int = 0, text: bool = True, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[Any]:
        """Run it to its end and insist on its exit code."""
        done: subprocess.CompletedProcess[Any] = subprocess.run(
            self.command(*args),
            cwd=self.work,
            env=self.env | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=90,
            check=False,
        )
        said = done.stderr.decode("utf-8", "replace")
        assert done.returncode == code, f"{args[:3]}: {done.returncode}, {said or done.stdout!r}"
        if code == 2:
            assert said.count("\n") == 1, said
        if text:
            done.stdout, done.stderr = done.stdout.decode(), said
        return done

    def json(self, *args: str, code: int = 0) -> Any:
        command, *rest = args
        return json.loads(self(command, "--json", *rest, code=code).stdout)

    def begin(self, *args: str) -> subprocess.Popen[bytes]:
        """Start it beside the test; what the test does not wait for is ended with it."""
        child = subprocess.Popen(
            self.command(*args),
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._begun.append(child)
        return child

    def submit(self, *args: str) -> str:
        return str(self.json("submit", *args)["id"])

    def task(self, id: str) -> dict[str, Any]:
        """As `show --json` says it, but asked for from here: tests do so again and again."""
        with Client(home=self.home) as client:
            found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(client.task(id).task))
        return found

    def output(self, id: str, *args: str) -> bytes:
        """What the task itself has written: the log without our own first and last line."""
        data: bytes = self("logs", *args, id, text=False).stdout
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if not line.startswith(b"[stoker] "))

    # ---- its processes

    def up(self, *args: str) -> None:
        self("up", "--detach", "--simulate-gpus", "4", "--listen", "127.0.0.1:0", *args)

    @property
    def server_pid(self) -> int:
        return int(json.loads((self.home / "server.json").read_text())["pid"])

    def kill_server(self) -> None:
        pid = self.server_pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(pid))

    def processes(self) -> list[int]:
        """Everything that was started on this folder and still runs."""
        mark = f"{MARK}={self.home}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parts[2]))
            except OSError:
                continue
        return [pid for pid in found if not _is_zombie(pid)]

    def end_begun(self) -> None:
        """Kill what `begin` has started, and nothing else."""
        for child in self._begun:
            child.kill()
            with contextlib.suppress(ValueError):  # it was read to its end
                child.communicate()

    def clean_up(self) -> list[str]:
        """End everything; what did not end by itself."""
        left = []
        self.end_begun()
        try:
            if self.processes():
                if not self._is_served():
                    self("up", "--detach", "--simulate-gpus", "4", "--listen", "127.0.0.1:0")
                self("down", "--stop-tasks", "--yes")
                until(lambda: not self.processes())
        except (AssertionError, subprocess.TimeoutExpired) as error:
            left.append(str(error))
        for pid in self.processes():
            left.append(f"{pid}: {_command_of(pid)}")
            os.kill(pid, signal.SIGKILL)
        return left + self._broken_records()

    def _is_served(self) -> bool:
        try:
            return self.server_pid in self.processes()
        except (OSError, ValueError):
            return False

    def _broken_records(self) -> list[str]:
        database = self.home / "stoker.db"
        if not database.exists():
            return []
        store = open_store(database)
        try:
            return store.check()
        finally:
            store.close()


def until(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Wait for something to become true, but not for ever."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _command_of(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return "?"


@pytest.fixture(scope="module")
def stoker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stoker]:
    """A running Stoker with four simulated GPUs, shared by the tests of a file."""
    made = Stoker(tmp_path_factory.mktemp("stoker"))
    made.up()
    yield made
    assert made.clean_up() == []


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Stoker]:
    """A Stoker of this test alone, not started yet."""
    made = Stoker(tmp_path)
    yield made
    assert made.clean_up() == []
