"""A real runner process and a blocking client that speaks its protocol.

`RunnerProcess` starts the built file as a node would (`python3 -I -S FILE serve`), may be killed and
started again on the same spool, and ends everything that came from it. `Client` is one server
connection: it greets, gives orders and waits, with a bound, for facts.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from stoker.runner import build, protocol
from stoker.runner.attach import connect
from stoker.runner.ending import Snapshot, marker
from stoker.runner.identity import Process, send, stat
from stoker.runner.protocol import (
    Extend,
    Forget,
    Greeting,
    Hello,
    Incarnation,
    Launch,
    Listing,
    ListParts,
    Refused,
    Seen,
    Stop,
)
from stoker.runner.record import Record, look
from stoker.runner.serve import group_name

PATIENCE_S = 15.0
_FAMILY = "STOKER_TEST_FAMILY"

T = TypeVar("T")


def wait_until(probe: Callable[[], T], what: str = "", within_s: float = PATIENCE_S) -> T:
    """The first true value of `probe`; fails when none comes in time."""
    until = time.monotonic() + within_s
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"not within {within_s} s: {what or probe}")
        time.sleep(0.01)


@functools.lru_cache(maxsize=1)
def runner_file() -> Path:
    """The runner as nodes get it, built once per test process."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-runner-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return build.build(folder)


class RunnerProcess:
    """One runner on one spool. Everything it starts belongs to its family and dies with `end`."""

    def __init__(
        self,
        spool: Path,
        *,
        simulate_gpus: int = 0,
        kill_points: Path | None = None,
        env: dict[str, str] | None = None,
        uid: int | None = None,
    ) -> None:
        self.spool = spool
        self.uid = uid
        """Run it as this user (needs root): one without control groups, say."""
        self.family = secrets.token_hex(8)
        self.attempts: set[str] = set()
        self.simulate_gpus = simulate_gpus
        self.env = {**os.environ, **(env or {}), _FAMILY: self.family}
        if kill_points is not None:
            self.env["STOKER_KILL_POINTS"] = str(kill_points)
        self.process: subprocess.Popen[bytes] | None = None
        self.log = spool.with_name(spool.name + ".stderr")
        self._clients: list[Client] = []

    def start(self, *options: str) -> RunnerProcess:
        """Start a runner; a former one may still be there."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(runner_file()), "serve"),
                    *("--spool", str(self.spool), "--simulate-gpus", str(self.simulate_gpus)),
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.env,
                start_new_session=True,
                **({} if self.uid is None else _as_user(self.uid)),
            )
        return self

    def client(self, epoch: int = 1, *, greet: bool = True) -> Client:
        """A connection, greeted unless told otherwise. A runner that dies meanwhile is no answer."""
        until = time.monotonic() + PATIENCE_S
        while True:
            client = Client(self, epoch)
            self._clients.append(client)
            try:
                if greet:
                    client.greet()
            except ConnectionError:
                client.close()
                if time.monotonic() > until:
                    raise
            else:
                return client

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Signal the runner alone and wait for its end."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)

    def forkers(self) -> list[int]:
        """The forkers of this spool, old ones included."""
        return [pid for pid in self.relatives() if _comm(pid) == "stoker-forker"]

    def supervisors(self) -> list[int]:
        """The supervisors of this spool."""
        return [pid for pid in self.relatives() if _comm(pid) == "stoker-watch"]

    def relatives(self) -> list[int]:
        """Runner, forkers and supervisors: all that carry our environment. Not the commands."""
        wanted = f"{_FAMILY}={self.family}".encode()
        return [pid for pid in Snapshot().stats if wanted in _environ(pid)]

    def record(self, attempt: str, rank: int = 0) -> Record | None:
        """The record of a part as it is on disk."""
        try:
            dir_fd = os.open(self.spool, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return look(dir_fd, f"{attempt}.{rank}")
        finally:
            os.close(dir_fd)

    def said(self) -> str:
        """What runners, forkers and supervisors wrote to stderr."""
        return self.log.read_text(errors="replace")

    def end(self) -> None:
        """End everything that came from us, commands included."""
        for client in self._clients:
            client.close()
        for _ in range(100):
            for pid in [*self.relatives(), *self._commands()]:
                _kill(pid)
            if self.process is not None:
                self.process.poll()
            if not self.relatives() and not self._commands():
                break
            time.sleep(0.01)
        if self.process is not None:
            self.process.wait(PATIENCE_S)
        ours = "stoker-" + group_name(str(self.spool), "")
        # os.walk, because other folders may vanish meanwhile; from below, because full ones stay.
        for folder, _, _ in os.walk("/sys/fs/cgroup", topdown=False):
            if ours in folder.split("/"):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)

    def _commands(self) -> list[int]:
        return [p for p in Snapshot().stats if marker(p).partition(".")[0] in self.attempts]


class Client:
    """One connection of a server."""

    def __init__(self, runner: RunnerProcess, epoch: int) -> None:
        self.runner = runner
        self.epoch = epoch
        self.hello: Hello | None = None
        self.seen: list[Any] = []
        """Every message that was received, oldest first."""
        self._facts: dict[tuple[str, int], list[Seen]] = {}
        self._number = 0
        self._buffer = b""
        self._socket = connect(str(runner.spool), wait_s=PATIENCE_S)

    @property
    def incarnation(self) -> Incarnation:
        assert self.hello is not None
        return self.hello.incarnation

    def greet(self) -> Listing:
        """Exchange greetings; the listing that follows."""
        self.send(Greeting(self.epoch))
        self.hello = self.expect(Hello)
        self._number = max(self._number, self.hello.highest)
        return (
            self.expect(Listing) if self.hello.epoch == self.epoch else Listing(self.incarnation, 0)
        )

    def send(self, *messages: Any) -> None:
        """Send messages in one go."""
        self._socket.settimeout(PATIENCE_S)
        self._socket.sendall(b"".join(protocol.line(message) for message in messages))

    def receive(self, within_s: float = PATIENCE_S) -> Any:
        """The next message; None when the runner closed the connection."""
        until = time.monotonic() + within_s
        while b"\n" not in self._buffer:
            self._socket.settimeout(max(0.001, until - time.monotonic()))
            try:
                data = self._socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = protocol.read(line)
        self.seen.append(message)
        facts = message.parts if isinstance(message, Listing) else [message]
        for fact in facts:
            if isinstance(fact, Seen):
                self._facts.setdefault((fact.attempt, fact.rank), []).append(fact)
        return message

    def expect(
        self,
        kind: type[T],
        test: Callable[[T], bool] = lambda _: True,
        within_s: float = PATIENCE_S,
    ) -> T:
        """The next message of a kind that passes the test; others are passed over."""
        until = time.monotonic() + within_s
        while True:
            try:
                message = self.receive(max(0.001, until - time.monotonic()))
            except TimeoutError:
                raise AssertionError(
                    f"no {kind.__name__} within {within_s} s; got {self.seen[-5:]}\n"
                    + self.runner.said()[-2000:]
                ) from None
            if message is None:
                raise ConnectionError("the runner closed the connection\n" + self.runner.said())
            if isinstance(message, kind) and test(message):
                return message

    def a_launch(self, *argv: str, **fields: Any) -> Launch:
        """A launch of a new attempt; not sent."""
        self._number += 1
        values: dict[str, Any] = {
            "attempt": secrets.token_hex(16),
            "rank": 0,
            "epoch": self.epoch,
            "number": self._number,
            "incarnation": self.incarnation,
            "task": str(self._number),
            "node": "here",
            "workdir": "/",
            "argv": list(argv),
            **fields,
        }
        launch = Launch(**values)
        self.runner.attempts.add(launch.attempt)
        return launch

    def launch(self, *argv: str, **fields: Any) -> Launch:
        """Send a launch of a new attempt."""
        launch = self.a_launch(*argv, **fields)
        self.send(launch)
        return launch

    def stop(self, launch: Launch, cause: str = "cancel", grace_s: float = 10.0) -> None:
        """Order the end of a part."""
        self.send(Stop(*self._name(launch), cause=cause, grace_s=grace_s))

    def extend(self, launch: Launch, limit_s: int | None, serial: int = 1) -> None:
        """Another time limit."""
        self.send(Extend(*self._name(launch), limit_s, serial))

    def forget(self, launch: Launch) -> None:
        """Let the spool drop a part."""
        self.send(Forget(*self._name(launch)))

    def state(self, launch: Launch, *states: str, within_s: float = PATIENCE_S) -> Seen:
        """Wait until a part is reported in one of `states`, by a push or in a listing."""
        return self.about(launch, lambda seen: seen.state in states, within_s)

    def about(
        self, launch: Launch, test: Callable[[Seen], bool], within_s: float = PATIENCE_S
    ) -> Seen:
        """A fact about a part that passes the test, pushed or listed, already or to come."""
        until = time.monotonic() + within_s
        known = 0
        while True:
            for fact in self.facts_about(launch)[known:]:
                known += 1
                if test(fact):
                    return fact
            self.expect(object, within_s=max(0.001, until - time.monotonic()))

    def facts_about(self, launch: Launch) -> list[Seen]:
        """Every fact about a part that was received, oldest first."""
        return self._facts.get((launch.attempt, launch.rank), [])

    def drop_history(self) -> None:
        """Let only what comes from now on count."""
        self.seen.clear()
        self._facts.clear()

    def refusal(self, launch: Launch) -> Refused:
        """Wait for a refusal of an order about a part."""
        return self.expect(Refused, lambda it: it.attempt == launch.attempt)

    def ended(self, launch: Launch, within_s: float = PATIENCE_S) -> Seen:
        """Wait for the end of a part."""
        return self.state(launch, "ended", within_s=within_s)

    def listing(self) -> dict[str, Seen]:
        """Ask for a complete listing: attempt to fact (rank 0)."""
        self.send(ListParts(self.epoch))
        return {seen.attempt: seen for seen in self.expect(Listing).parts}

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _name(self, launch: Launch) -> tuple[str, int, int, int, Incarnation]:
        return (launch.attempt, launch.rank, self.epoch, launch.number, launch.incarnation)


def _as_user(uid: int) -> dict[str, Any]:
    return {"user": uid, "group": uid, "extra_groups": []}


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    found = stat(pid)
    return found is not None and not found.is_zombie


def _kill(pid: int) -> None:
    found = stat(pid)
    if found is not None:
        send(Process(pid, found.start), signal.SIGKILL)


def _comm(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _environ(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""
