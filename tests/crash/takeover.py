"""Takeovers, again and again: the server dies with a standby beside it, among tasks of every kind.

The same seed gives the same sequence of choices. Tasks are submitted while it dies; it is the
standby that answers next, and nobody else is started, unless the standby dies as well.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from stoker.runner import killpoint
from stoker.runner.identity import Process, is_there, send

from .chaos import POINT_S, Chaos
from .harness import Site

POINTS = (killpoint.PLACE, killpoint.PLACED, killpoint.COLLECT, killpoint.COLLECTED)
"""Of the server, around its commits."""
LONGEST_LIFE_S = 0.3


class Takeovers(Chaos):
    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(site, seed)
        self._points: list[str] = []

    def take_over(self, rounds: int) -> None:
        """So many times."""
        self.site.revive()
        for _ in range(rounds):
            self._one()

    def _one(self) -> None:
        server = self.site.server
        server.stand_by()
        starts, takeovers, first = server.starts, server.takeovers, server.who
        assert first is not None
        way = self._way()
        way(first)
        while is_there(first):
            self._feed()
        self._feed()
        self.site.revive()
        assert server.who != first
        if way != self._both_killed:
            assert (server.starts, server.takeovers) == (starts, takeovers + 1), server.tail()

    def _way(self) -> Callable[[Process], None]:
        if self.random.random() < 0.5:
            return self._at_point
        return self.random.choice((self._killed, self._ended, self._stopped, self._both_killed))

    def _killed(self, first: Process) -> None:
        self._soon(first, signal.SIGKILL)
        self.deaths["server"] += 1

    def _ended(self, first: Process) -> None:
        self._soon(first, signal.SIGTERM)
        self.others["servers that were asked to end"] += 1

    def _stopped(self, first: Process) -> None:
        """While it is stopped nobody takes over."""
        send(first, signal.SIGSTOP)
        time.sleep(self.random.uniform(0.1, 0.3))
        assert not self.site.server.has_successor()
        send(first, signal.SIGKILL)
        self.deaths["stopped server"] += 1

    def _both_killed(self, first: Process) -> None:
        """The standby in the middle of taking over."""
        send(first, signal.SIGKILL)
        time.sleep(self.random.uniform(0, LONGEST_LIFE_S))
        self.deaths["standby"] += self.site.server.kill_standby()
        self.deaths["server"] += 1

    def _at_point(self, first: Process) -> None:
        """Each point once before any comes again."""
        if not self._points:
            self._points = self.random.sample(POINTS, len(POINTS))
        point = self._points.pop()
        armed = self.site.arm(point)
        deadline = time.monotonic() + POINT_S
        while armed.exists() and time.monotonic() < deadline:
            self._feed()
            time.sleep(0.01)
        if self.site.disarm(point):
            self.others["points not reached in time"] += 1
            self._killed(first)
        else:
            self.deaths[f"at {point}"] += 1

    def _soon(self, first: Process, number: int) -> None:
        """Somewhere in what it does for us meanwhile."""
        after_s = self.random.uniform(0, LONGEST_LIFE_S)
        threading.Timer(after_s, send, (first, number)).start()
