"""Random faults from a seed: a stream of tasks, and deaths and pauses of every kind among them.

The same seed gives the same sequence of choices (not of moments: these are real processes).
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from typing import Any

from .harness import POINTS, Site
from .processes import Found

KINDS = ("server", "starting server", "runner", "forker", "supervisor", "point", "second runner")
WEIGHTS = (5, 2, 3, 2, 5, 5, 2)
IN_FLIGHT = 12
POINT_S = 1.5


class Chaos:
    def __init__(self, site: Site, seed: int) -> None:
        self.site = site
        self.random = random.Random(seed)
        self.deaths: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self._paused: list[tuple[float, Found]] = []
        self._open: list[str] = []
        self.submitted = 0

    def run(self, deaths: int) -> None:
        """Until so many processes were killed. What is paused goes on at the end."""
        while self.deaths.total() < deaths:
            self._feed()
            time.sleep(self.random.uniform(0, 0.12))
            self._fault()
            self._resume()
        self._resume(at_once=True)

    def table(self) -> str:
        """How often what died."""
        rows = [*sorted(self.deaths.items()), ("all deaths", self.deaths.total())]
        rows += [*sorted(self.others.items()), ("tasks submitted", self.submitted)]
        return "\n".join(f"  {name:28}{count:7}" for name, count in rows)

    # ---- tasks

    def _feed(self) -> None:
        self._open = [id for id in self._open if id not in self.site.finished()]
        self.site.resume_nodes()
        if len(self._open) < IN_FLIGHT:
            specs = [self._spec() for _ in range(self.random.randint(1, 6))]
            self._open += self.site.submit(*specs)
            self.submitted += len(specs)
        if self._open and self.random.random() < 0.2:
            self.others["cancels"] += self.site.cancel(self.random.choice(self._open))
        if self._open and self.random.random() < 0.2:
            self.others["limits"] += self._extend(self.random.choice(self._open))

    def _extend(self, id: str) -> bool:
        """Another limit, longer than most tasks take and than the shortest limit."""
        return self.site.extend(id, time_limit_s=self.random.choice((2, 3)))

    def _spec(self) -> dict[str, Any]:
        pick, chance = self.random.choice, self.random.random
        how: dict[str, Any] = {}
        spec: dict[str, Any] = {"gpus": pick((0, 1, 1, 1, 2, 4)), "grace_s": 1}
        run_ms = pick((0, 20, 50, 150, 400))
        if chance() < 0.3:
            how["code"] = pick((1, 3, 42))
        elif chance() < 0.1:
            how["signal"] = pick((signal.SIGSEGV, signal.SIGKILL))
        if chance() < 0.15:
            how["child"] = pick(("setsid", "double-fork", "no-environment"))
        if chance() < 0.1:
            how["ignore_term"] = True
        if chance() < 0.05:
            run_ms, spec["time_limit_s"] = 20_000, 1
        if chance() < 0.3:
            spec["requeue_on_loss"] = True
        return {**spec, "command": self.site.witness.command(run_ms, **how)}

    # ---- faults

    def _fault(self) -> None:
        if self.random.random() < 0.15:
            self._pause()
            return
        (kind,) = self.random.choices(KINDS, WEIGHTS)
        match kind:
            case "server":
                self.deaths[kind] += self.site.server.kill()
            case "starting server":
                self._kill_starting_server()
            case "point":
                self._die_at_point()
            case "second runner":
                self._start_second_runner()
            case _:
                self._kill_one(kind)

    def _kill_starting_server(self) -> None:
        server = self.site.server
        self.deaths["server"] += server.kill()
        server.spawn()
        time.sleep(self.random.uniform(0, 0.3))
        self.deaths["starting server"] += server.kill()

    def _kill_one(self, kind: str) -> None:
        found = self.site.processes(kind)
        if found and self.site.kill(self.random.choice(found)):
            self.deaths[kind] += 1

    def _die_at_point(self) -> None:
        """Arm a point and let work go on until somebody comes there."""
        point = self.random.choice(POINTS)
        armed = self.site.arm(point)
        deadline = time.monotonic() + POINT_S
        while armed.exists() and time.monotonic() < deadline:
            self._feed()
            time.sleep(0.02)
        if self.site.disarm(point):
            self.others["points not reached in time"] += 1
        else:
            self.deaths[f"at {point}"] += 1

    def _start_second_runner(self) -> None:
        """A plain one leaves the first alone, a replacement ends it; either may die on the way."""
        options = self.random.choice(((), ("--replace",), ("--replace",)))
        second = self.site.start_runner(*options)
        if second is None:
            return
        self.others["replacements of a runner" if options else "second runners"] += 1
        if self.random.random() < 0.3:
            time.sleep(self.random.uniform(0, 0.3))
            self.deaths["second runner"] += second.poll() is None
            second.kill()

    def _pause(self) -> None:
        if self.random.random() < 0.25:
            # Not beyond this step: the next one would wait for it.
            self.site.server.signal(signal.SIGSTOP)
            time.sleep(self.random.uniform(0.02, 0.2))
            self.others["pauses of a server"] += self.site.server.signal(signal.SIGCONT)
            return
        found = self.site.processes("supervisor", "runner", "forker")
        if found:
            victim = self.random.choice(found)
            if victim.signal(signal.SIGSTOP):
                self._paused.append((time.monotonic() + self.random.uniform(0.05, 0.5), victim))
                self.others[f"pauses of a {victim.kind}"] += 1

    def _resume(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        for until, victim in list(self._paused):
            if at_once or now >= until:
                victim.signal(signal.SIGCONT)
                self._paused.remove((until, victim))
