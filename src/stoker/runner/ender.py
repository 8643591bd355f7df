"""A thread that ends what is left of parts without a supervisor, and sweeps other spools' parts.

Looking into /proc can hang on a process that the kernel holds, hence not in the runner's loop. It
changes no file. One look serves all parts; it goes on, ever more slowly, until nothing is left.
Everything gets KILL at once: nobody is left who could have asked it nicely.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from dataclasses import dataclass
from typing import Callable, Dict, Optional

from .cgroup import Cgroups
from .ending import Snapshot, signal_all, supervisors, why_stuck
from .identity import Process, Stat
from .note import note

OURS = ("stoker-forker", "stoker-watch")
"""Names of the forker and, once it has taken its own, of a supervisor."""

_FIRST_PAUSE_S = 0.02
_LAST_PAUSE_S = 1.0
_STUCK_S = 5.0


@dataclass
class _Job:
    main: Optional[Process]
    supervisor: Optional[Process]
    is_sweep: bool
    begun: float
    is_told: bool = False


class Ender:
    """`report(key, left, why)` is called in the thread: 0 left = done, else why it is stuck."""

    def __init__(
        self, cgroups: Cgroups, forker_pid: int, report: Callable[[str, int, str], None]
    ) -> None:
        self._cgroups = cgroups
        self._forker_pid = forker_pid
        self._spare = frozenset((os.getpid(), forker_pid, 1))
        self._report = report
        self._orders: queue.SimpleQueue[tuple[str, _Job]] = queue.SimpleQueue()
        self._jobs: Dict[str, _Job] = {}
        self._pause_s = _FIRST_PAUSE_S

    def start(self) -> None:
        """Begin to serve."""
        threading.Thread(target=self._run, name="ender", daemon=True).start()

    def end(self, key: str, main: Optional[Process], supervisor: Optional[Process]) -> None:
        """End everything of a part whose supervisor has lost its lock. May be repeated."""
        self._orders.put((key, _Job(main, supervisor, False, time.monotonic())))

    def sweep(self, key: str) -> None:
        """End everything of a part, supervisors included; reports after at most 5 s."""
        self._orders.put((key, _Job(None, None, True, time.monotonic())))

    def _run(self) -> None:
        while True:
            self._accept()
            try:
                looked = Snapshot()
                for key in list(self._jobs):
                    self._work(key, self._jobs[key], looked)
            except OSError as error:  # no descriptor left, say: it must go on
                note(f"cannot look for processes: {error}")

    def _accept(self) -> None:
        """Take new orders: wait for one, or, with work to do, only until it is time to look again."""
        wait_s: Optional[float] = None
        if self._jobs:
            wait_s = self._pause_s
            self._pause_s = min(self._pause_s * 2, _LAST_PAUSE_S)
        try:
            while True:
                key, job = self._orders.get(timeout=wait_s)
                wait_s = 0
                known = self._jobs.get(key)
                if known is None or (job.is_sweep and not known.is_sweep):
                    self._jobs[key] = job
                    self._pause_s = _FIRST_PAUSE_S
        except queue.Empty:
            return

    def _work(self, key: str, job: _Job, looked: Snapshot) -> None:
        left = self._left(key, job, looked)
        if not left:
            self._cgroups.open(key).remove()
            del self._jobs[key]
            self._report(key, 0, "")
            return
        signal_all(left, signal.SIGKILL)
        self._cgroups.open(key).kill()
        if time.monotonic() - job.begun >= _STUCK_S and not job.is_told:
            job.is_told = True
            self._report(key, len(left), why_stuck(left))
            if job.is_sweep:
                del self._jobs[key]  # the server asks again

    def _left(self, key: str, job: _Job, looked: Snapshot) -> Dict[int, Stat]:
        group = self._cgroups.open(key)
        left = looked.left(key, grouped=group.pids(), leader=job.main, spare=self._spare)
        for known in (job.main, job.supervisor):
            found = None if known is None else looked.stats.get(known.pid)
            if known is not None and found is not None and found.start == known.start:
                left[found.pid] = found
        if job.is_sweep:
            left.update(supervisors(key, self._spare))
        else:
            left.update(self._strays(looked))
        return left

    def _strays(self, looked: Snapshot) -> Dict[int, Stat]:
        """Children of the forker that it did not fork: left by a supervisor that was killed.

        They may carry no marker and be of this part, so nothing is over before they are. A dying
        supervisor gives up its lock a moment before its children: hence it counts as left, too.
        """
        return {
            pid: one
            for pid, one in looked.stats.items()
            if one.parent == self._forker_pid and one.name not in OURS
        }
