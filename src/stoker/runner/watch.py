"""Waiting for a command, and ending it: time limit, stop orders, TERM, grace, KILL, what is left.

The supervisor's inner loop. Time is CLOCK_BOOTTIME: a limit counts while the machine sleeps. All
descendants become our children (subreaper), so "no child and an empty cgroup" means that nothing
is left; only otherwise is /proc searched. Of several orders the last one names the cause; a
reached limit stays one; a command that had ended before an order arrived ended by itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Callable, Dict, Optional, Tuple

from . import logfile
from .cgroup import Group
from .ending import Snapshot, signal_all, why_stuck
from .identity import Process, Stat
from .limit import Limit

ORDER = signal.SIGTERM
"""Sent by the runner after it has written `ctl`; by itself it means cancel."""
WAKE = signal.SIGCHLD
"""Says nothing by itself: whoever gets it looks what there is. Never ends anybody, of any version."""
SIGNALS = (WAKE, ORDER)

_LONG_S = 10.0
_FIRST_PAUSE_S = 0.02
_LAST_PAUSE_S = 1.0
_STUCK_S = 5.0
_LOG_MOST_S = 5.0
_LOG_BUSY = 64 << 20


def now_s() -> float:
    """Seconds since boot, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Watch:
    """One command from its fork to the moment when nothing is left of it."""

    def __init__(
        self,
        *,
        key: str,
        main: Process,
        group: Group,
        limit_s: Optional[float],
        grace_s: float,
        read_order: Callable[[], Optional[Tuple[str, float]]],
        read_limit: Callable[[], Optional[Limit]],
        report_stuck: Callable[[str], None],
        log: Optional[int],
    ) -> None:
        self.cause = "exit"
        self.code: Optional[int] = None
        self.signal: Optional[int] = None
        self._key = key
        self._main = main
        self._group = group
        self._grace_s = grace_s
        self._read_order = read_order
        self._read_limit = read_limit
        self._report_stuck = report_stuck
        self._log = log
        self._begun = now_s()
        self._ended: Optional[float] = None
        self.limit_s = limit_s
        self._kill_at: Optional[float] = None
        self._killed_at: Optional[float] = None
        self._next_kill = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._is_stuck = False
        self._log_at = self._begun + 1.0
        self._log_pause_s = 1.0
        self._log_size = 0

    @property
    def ran_s(self) -> float:
        """How long the main process lived."""
        return (now_s() if self._ended is None else self._ended) - self._begun

    @property
    def _limit_at(self) -> Optional[float]:
        return None if self.limit_s is None else self._begun + self.limit_s

    def wait(self) -> None:
        """Until nothing is left."""
        while not self.serve(None):
            pass

    def serve(self, most_s: Optional[float]) -> bool:
        """One round: sleep until something is due (at most `most_s`), then act on it.

        True when the main process has ended and nothing is left.
        """
        has_children = self._reap()
        if self._ended is not None and not has_children and not self._group.pids():
            return True
        self._act(now_s())
        due = max(0.0, self._due() - now_s())
        got = signal.sigtimedwait(SIGNALS, due if most_s is None else min(due, most_s))
        if got is not None and got.si_signo == ORDER:
            self._reap()
            self._obey()
        return False

    def _reap(self) -> bool:
        """Collect every child that has ended; False when there is none any more."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._main.pid and self._ended is None:
                    self._ended = now_s()
                    if os.WIFSIGNALED(status):
                        self.signal = os.WTERMSIG(status)
                    else:
                        self.code = os.WEXITSTATUS(status)
        except ChildProcessError:
            return False

    def _obey(self) -> None:
        """An order to stop: from `ctl`, or without one cancel with the launch's own grace."""
        order = self._read_order()
        cause, grace_s = order if order is not None else ("cancel", self._grace_s)
        self._end(cause, grace_s)

    def _end(self, cause: str, grace_s: float) -> None:
        """Begin to end it, or hasten an end that has begun."""
        kill_at = now_s() + grace_s
        if self._ended is None and self.cause != "limit":
            self.cause = cause
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, kill_at)
            return
        self._kill_at = kill_at
        signal_all(self._left(), signal.SIGTERM)

    def _act(self, now: float) -> None:
        """Whatever is due."""
        if self._kill_at is None:
            if self._ended is not None:
                self._end("exit", self._grace_s)  # only what it left behind
            elif self._is_over_limit(now):
                self._end("limit", self._grace_s)
        elif now >= self._kill_at and now >= self._next_kill:
            self._kill(now)
        if self._log is not None and now >= self._log_at:
            self._cap_log(now)

    def _is_over_limit(self, now: float) -> bool:
        """By the limit that holds at this moment: it may be another one than before."""
        told = self._read_limit()
        if told is not None:
            self.limit_s = told.limit_s
        return self._limit_at is not None and now >= self._limit_at

    def _kill(self, now: float) -> None:
        """KILL everything; again and again, ever more slowly, while something survives."""
        self._group.kill()
        left = self._left()
        signal_all(left, signal.SIGKILL)
        if self._killed_at is None:
            self._killed_at = now
        elif left and not self._is_stuck and now - self._killed_at >= _STUCK_S:
            self._is_stuck = True
            self._report_stuck(why_stuck(left))
        self._next_kill = now + self._pause_s
        self._pause_s = min(self._pause_s * 2, _LAST_PAUSE_S)

    def _left(self) -> Dict[int, Stat]:
        me = os.getpid()
        return Snapshot().left(
            self._key,
            grouped=self._group.pids(),
            ancestor=me,
            leader=self._main if self._ended is None else None,
            spare=(me, 1),
        )

    def _due(self) -> float:
        """When to look again if no signal comes."""
        moments = [now_s() + _LONG_S]
        if self._log is not None:
            moments.append(self._log_at)
        if self._kill_at is None:
            if self._limit_at is not None:
                moments.append(self._limit_at)
        elif self._killed_at is not None:
            moments.append(self._next_kill)
        else:
            # Something that is not our child gives no signal when it ends.
            moments += [self._kill_at, now_s() + 0.2]
        return min(moments)

    def _cap_log(self, now: float) -> None:
        """Often while it grows, ever more seldom while it does not."""
        assert self._log is not None
        size = self._log_size
        with contextlib.suppress(OSError):
            size = os.fstat(self._log).st_size
            if size >= _LOG_BUSY:
                logfile.cap(self._log)
        is_still = size == self._log_size
        self._log_pause_s = min(self._log_pause_s * 2, _LOG_MOST_S) if is_still else 1.0
        self._log_size = size
        self._log_at = now + self._log_pause_s
