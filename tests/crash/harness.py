"""A home with a real server on it: tasks in, faults on demand, a judgement at the end.

`Site` submits and cancels over HTTP and keeps every acknowledgement; it kills, pauses and restarts
processes of its own home only; `judge` waits until everything is finished, stops the server, reads
all records and lets the checker and `store.check()` decide. Nothing of a site outlives `close`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stoker.runner import killpoint
from stoker.store.recorder import open_store

from . import processes, records
from .checker import check
from .history import Answer, EndRow, History
from .processes import Found
from .server import SOURCES, Server, ServerDied, Starter, Unreachable, wait_until
from .witness import Witness

GPUS = 4
POINTS = killpoint.POINTS
UNKNOWN_END = (killpoint.BEGUN, killpoint.ENDED)
"""A supervisor that dies there leaves an end that nobody can know."""
ANSWER_S = 30.0
LONGEST_PAUSE_S = 60.0
"""Between two tries of a task whose launches fail."""
AFTER_FAULTS_S = 20.0
"""R8 allows 10 s until everything runnable has started; and the work itself takes its time."""


class Site:
    def __init__(
        self,
        folder: Path,
        start: Starter,
        program: Path,
        *,
        home: Path | None = None,
        database: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.home = home or folder / "home"
        self.database: str | Path = database or self.home / "stoker.db"
        self.points = folder / "points"
        self.points.mkdir()
        # A copy of its own: witnesses of this site are known by their executable.
        self.witness = Witness(Path(shutil.copy(program, folder)), folder / "witness.jsonl")
        given = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.server = Server(
            self.home,
            folder / "server.log",
            start,
            {
                **given,
                "PYTHONPATH": str(SOURCES),
                "STOKER_HOME": str(self.home),
                "STOKER_ONE_PERSON": "1",
                "STOKER_KILL_POINTS": str(self.points),
                **({"STOKER_DATABASE": database} if database else {}),
                **(environ or {}),
            },
            GPUS,
        )
        self.history = History()
        self._events_after = 0
        self._finished: set[str] = set()
        self._names = 0
        self._runners: list[subprocess.Popen[bytes]] = []

    @property
    def go(self) -> Path:
        """The file that commands with `until=site.go` wait for."""
        return self.folder / "go"

    @property
    def spool(self) -> Path:
        return self.home / "spool"

    # ---- the server

    def revive(self) -> None:
        """Have a server that serves, whatever it takes."""
        deadline = time.monotonic() + ANSWER_S
        while not (self.server.is_alive and self.server.is_ready()):
            assert time.monotonic() < deadline, f"no server came up:\n{self.server.tail()}"
            if self.server.is_alive:
                time.sleep(0.005)
                continue
            if self.server.follow():
                continue
            with contextlib.suppress(ServerDied):
                self.server.start()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """A request that is repeated until it is answered: status and JSON."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            self.revive()
            try:
                status, said = self.server.request(method, path, body)
            except Unreachable as error:
                status, said = 0, str(error)
            if status not in (0, 503):
                assert status < 500, f"{method} {path}: {status} {said}"
                return status, said
            assert time.monotonic() < deadline, f"{method} {path}: {said}"
            time.sleep(0.05 if status else 0)

    # ---- tasks

    def submit(self, *specs: dict[str, Any]) -> list[str]:
        """Submit in one call, again and again until it is acknowledged. Unacknowledged ones may
        be there as well: that is the caller's affair, not a broken promise."""
        named = []
        for spec in specs:
            self._names += 1
            named.append({"name": f"task {self._names}", "workdir": "/", **spec})
        status, said = self.ask("POST", "/tasks/batch", {"tasks": named})
        assert status == 201, said
        now = boottime_ns()
        for id, spec in zip(said["ids"], named, strict=True):
            self.history.answers.append(Answer("submit", id, now, str(spec["name"])))
        return list(said["ids"])

    def submit_once(self, spec: dict[str, Any]) -> int:
        """Submit without a second try: the status, 0 when there was no answer."""
        try:
            status, said = self.server.request("POST", "/tasks", {"workdir": "/", **spec})
        except Unreachable:
            return 0
        if status == 201:
            self.history.answers.append(Answer("submit", said["id"], boottime_ns()))
        return status

    def cancel(self, id: str) -> bool:
        """True when it was acknowledged; False when the task had finished."""
        status, said = self.ask("POST", f"/tasks/{id}/cancel")
        if status == 409:
            return False
        assert status < 300, said
        self.history.answers.append(Answer("cancel", id, boottime_ns()))
        return True

    def extend(self, id: str, **wish: int) -> bool:
        """True when it was acknowledged; False when it has ended, or has no limit."""
        status, said = self.ask("POST", f"/tasks/{id}/extend", wish)
        assert status in (200, 409), said
        return status == 200

    def task(self, id: str) -> dict[str, Any]:
        _, said = self.ask("GET", f"/tasks/{id}")
        task: dict[str, Any] = said["task"]
        return task

    def end_of(self, id: str) -> EndRow:
        """The recorded end of a task, after `judge`."""
        (end,) = (task.end for task in self.history.tasks if task.id == id)
        assert end is not None
        return end

    def log(self, id: str) -> bytes:
        _, said = self.ask("GET", f"/tasks/{id}/log")
        assert isinstance(said, bytes), said
        return said

    def await_state(self, id: str, state: str) -> None:
        wait_until(lambda: self.task(id)["state"] == state, 15, f"task {id} to be {state}")

    def await_start(self, *ids: str) -> None:
        """Until the witnesses of these tasks have said that they run."""
        wait_until(
            lambda: all(self.witness.has_said("start", task=id) for id in ids),
            15,
            f"tasks {ids} to start",
        )

    def drain(self, within_s: float) -> None:
        """Until every task is finished; restarts the server when it is dead."""
        deadline = time.monotonic() + within_s
        while True:
            self._note_ends()
            self.resume_nodes()
            _, page = self.ask("GET", "/tasks?state=unfinished&limit=50")
            if not page["tasks"]:
                return
            over = time.monotonic() - deadline
            if over > 0:
                shown = [(one["id"], one["state"]) for one in page["tasks"]]
                late = over > LONGEST_PAUSE_S or not all(map(self._pauses, page["tasks"]))
                assert not late, f"still unfinished after {within_s} s: {shown}"
            time.sleep(0.03)

    def resume_nodes(self) -> None:
        """What an admin does with a node that three launches in a row have failed on. Here it was
        our doing."""
        _, nodes = self.ask("GET", "/nodes")
        for node in nodes:
            if node["drained"]:
                assert node["drained"] == "launches_failed", node
                self.ask("POST", f"/nodes/{node['name']}/resume")

    def _pauses(self, task: dict[str, Any]) -> bool:
        """Whether it only waits for its next try: its launches have failed."""
        _, why = self.ask("GET", f"/tasks/{task['id']}/why")
        return [reason["code"] for reason in why["reasons"]] == ["backing_off"]

    def finished(self) -> set[str]:
        """The tasks that the API has shown as finished so far."""
        self._note_ends()
        return self._finished

    def _note_ends(self) -> None:
        """What is shown as finished is a promise that nothing of it lives."""
        while True:
            _, page = self.ask("GET", f"/events?after={self._events_after}&limit=500")
            for event in page["events"]:
                if event["event"] == "Ended":
                    self.history.answers.append(Answer("finished", event["task"], boottime_ns()))
                    self._finished.add(event["task"])
            if page["next"] == self._events_after:
                return
            self._events_after = page["next"]

    # ---- faults

    def processes(self, *kinds: str) -> list[Found]:
        found = processes.find(self.spool, self.witness.path)
        return [one for one in found if not kinds or one.kind in kinds]

    def kill(self, victim: Found) -> bool:
        """SIGKILL; a supervisor's death is noted, since it may explain a lost attempt."""
        if victim.kind == "supervisor":
            if victim.attempt:
                self.history.killed_supervisors.add(victim.attempt)
            else:
                self.history.unnamed_supervisor_kills += 1
        return victim.kill()

    def start_runner(self, *options: str) -> subprocess.Popen[bytes] | None:
        """Another runner on the same spool, as the engine starts one; None when there is none to
        take the command line from."""
        present = processes.runner(self.spool)
        words = processes.command_line(present.process.pid) if present else []
        if not words:
            return None
        words = [word for word in words if word != "--replace"]
        with (self.home / "runner.log").open("ab") as log:
            started = subprocess.Popen(
                [*words, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self.server.environ,
                start_new_session=True,
            )
        self._runners = [one for one in self._runners if one.poll() is None]
        self._runners.append(started)
        return started

    def arm(self, point: str, *, pause: bool = False) -> Path:
        """Whoever comes to `point` first dies there (or stops). The file that says so."""
        if point in UNKNOWN_END and not pause:
            self.history.unnamed_supervisor_kills += 1
        armed = self.points / (point + (".pause" if pause else ""))
        armed.touch()
        return armed

    def disarm(self, point: str) -> bool:
        """True when nobody had come."""
        try:
            (self.points / point).unlink()
        except FileNotFoundError:
            return False
        if point in UNKNOWN_END:
            self.history.unnamed_supervisor_kills -= 1
        return True

    def seen(self, point: str) -> int:
        """How often anybody came to `point`."""
        try:
            return (self.points / f"{point}.seen").stat().st_size
        except FileNotFoundError:
            return 0

    def stopped(self) -> list[Found]:
        """Processes that are stopped (SIGSTOP), the server not included."""
        return [one for one in self.processes() if one.state == "T"]

    # ---- the end

    def judge(self, within_s: float = AFTER_FAULTS_S) -> None:
        """Everything finishes in time, and no promise was broken."""
        self.drain(within_s)
        violations = list(self._broken_logs())
        self.server.kill_standby()
        self.server.stop()
        self.read()
        violations += check(self.history)
        violations += [
            f"{one.kind} {one.process.pid} of attempt {one.attempt} is left"
            for one in self.processes("witness", "supervisor")
        ]
        with contextlib.closing(open_store(self.database)) as store:
            violations += store.check()
        assert not violations, "\n".join([*violations, "", self.server.tail()])

    def _broken_logs(self) -> Iterator[str]:
        """R10: the output of a command that ended by itself is there, and every byte once."""
        cursor = ""
        while True:
            _, page = self.ask("GET", f"/tasks?state=finished&limit=500{cursor}")
            for task in page["tasks"]:
                if task["exit_code"] is None or task["outcome"] not in ("succeeded", "failed"):
                    continue
                text = self.log(task["id"])
                if text.count(b"begun ") != 1 or text.count(b"over %d\n" % task["exit_code"]) != 1:
                    yield f"the log of task {task['id']} is {text!r}"
            if page["next"] is None:
                return
            cursor = f"&cursor={quote(page['next'])}"

    def read(self) -> None:
        """Bring the history up to what is on disk."""
        self.history.lines = self.witness.lines()
        records.read_database(self.database, self.history)
        self.history.exits.update(records.read_exits(self.spool))

    def close(self) -> None:
        """End everything of this home."""
        self.server.kill_standby()
        if self.server.is_alive:
            self.server.kill()
        deadline = time.monotonic() + 10
        while left := self.processes():
            assert time.monotonic() < deadline, f"cannot be ended: {left}"
            for one in left:
                one.kill()
            time.sleep(0.02)
        for started in self._runners:
            started.wait(10)
        processes.remove_cgroups(self.spool)


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
