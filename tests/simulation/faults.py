"""What goes wrong, and how it is put right again. Each fault is one method; details are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from stoker.runner import killpoint

from .history import History
from .loop import VirtualLoop
from .node import SimulatedNode
from .truth import Truth
from .wire import Weather

POINTS = (
    killpoint.PLACE,
    killpoint.PLACED,
    killpoint.COLLECT,
    killpoint.COLLECTED,
    killpoint.EXTENDED,
)


LIFE_S, LOOP_S = 0.3, 15.0
"""How long a server lives in a crash loop, and how long the loop goes on."""
KINDS = (
    "StopRequested",
    "StopRequested",
    "StopRequested",
    "Placed",
    "Started",
    "Requeued",
    "Ended",
    "LimitExtended",
)


class Victim(Protocol):
    """The simulation, as faults see it."""

    def kill(self, why: str) -> None: ...

    def set_disk(self, *, full: bool) -> None: ...

    def turn_clock(self, seconds: float) -> None: ...

    def expect_progress(self, within_s: float) -> None: ...


class Faults:
    def __init__(
        self,
        victim: Victim,
        loop: VirtualLoop,
        nodes: dict[str, SimulatedNode],
        truth: Truth,
        weather: Weather,
        history: History,
        seed: int,
    ) -> None:
        self._victim, self._loop, self._nodes, self._truth = victim, loop, nodes, truth
        self._weather, self._history = weather, history
        self._fair = (weather.lose, weather.double, weather.jumble)
        self._rng = Random(f"faults {seed}")
        self.quiet_since = 0.0
        """When the last fault struck or was put right."""
        self.calm = False
        """From here on nothing goes wrong any more."""
        self._looping_until = 0.0
        self._point: tuple[str, int] | None = None
        self._commit: tuple[str, str, int] | None = None
        self.deaths_to_come = 0
        """How many of the next starts are killed during their recovery."""

    def strike(self, what: str) -> None:
        self._history.add(f"fault {what}")
        self.quiet_since = self._loop.time()
        act: Callable[[], None] = getattr(self, f"_{what}")
        act()

    def heal(self) -> None:
        """Everything is well, and stays so."""
        self.calm = True
        self.quiet_since = self._loop.time()
        self._loop.spare()
        self._point = self._commit = None
        self.deaths_to_come = 0
        self._weather.lose = self._weather.double = self._weather.jumble = 0.0
        self._weather.latency_s = min(self._weather.latency_s, 0.01)
        self._victim.set_disk(full=False)
        for node in self._nodes.values():
            node.boot()
            node.find()
            node.be_slow(1.0)
            node.foreign.clear()
            node.sample()

    # ---- asked by the server's seams

    def at_commit(self, when: str, committed: Sequence[Any]) -> bool:
        """Whether the server dies at this commit."""
        if self._commit is None or self._commit[0] != when:
            return False
        _, kind, left = self._commit
        if kind and not any(kind in _kinds(argument) for argument in committed):
            return False
        self._commit = (when, kind, left - 1)
        if left > 1:
            return False
        self._commit = None
        self._victim.kill(f"{when} a commit {kind}")
        return True

    def at_point(self, point: str) -> bool:
        if self._point is None or self._point[0] != point:
            return False
        self._point = (point, self._point[1] - 1)
        if self._point[1] > 0:
            return False
        self._point = None
        self._victim.kill(f"at {point}")
        return True

    def at_start(self) -> None:
        """A server begins to recover."""
        self.quiet_since = self._loop.time()
        if self.is_looping:
            self._loop.call_later(LIFE_S, self._victim.kill, "again")
        if self.deaths_to_come:
            self.deaths_to_come -= 1
            steps = self._rng.choice((1, 2, 3, 5, 8, 13, 30, 100))
            self._loop.die_after(steps, lambda: self._victim.kill("while it recovers"))

    # ---- the server

    def _kill(self) -> None:
        steps = self._rng.choice((1, 2, 5, 10, 30, 100))
        self._loop.die_after(steps, lambda: self._victim.kill(f"after {steps} steps"))

    def _kill_at_commit(self) -> None:
        self._commit = (self._rng.choice(("before", "after")), "", self._rng.randint(1, 4))

    def _kill_at_event(self) -> None:
        """Recorded, and nothing more."""
        self._commit = ("after", self._rng.choice(KINDS), 1)

    def _kill_at_point(self) -> None:
        self._point = (self._rng.choice(POINTS), self._rng.randint(1, 3))

    def _kill_twice(self) -> None:
        self.deaths_to_come = self._rng.randint(1, 3)
        self._victim.kill("at once")

    def _crash_loop(self) -> None:
        """R9: for a while no server lives longer than a moment, and yet things go on."""
        self._looping_until = self._loop.time() + LOOP_S
        self._victim.expect_progress(LOOP_S)
        self._victim.kill("at once")

    @property
    def is_looping(self) -> bool:
        return self._loop.time() < self._looping_until and not self.calm

    def _disk_full(self) -> None:
        self._victim.set_disk(full=True)
        self._later(self._rng.choice((0.5, 5.0, 40.0)), self._disk_is_well)

    def _disk_is_well(self) -> None:
        self._victim.set_disk(full=False)

    def _clock(self) -> None:
        self._victim.turn_clock(self._rng.choice((-3600, -10, 10, 3600)))

    # ---- the nodes and the network

    def _lose(self) -> None:
        node = self._node()
        node.lose()
        self._later(self._rng.choice((1.0, 20.0, 150.0)), node.find)

    def _reboot(self) -> None:
        node = self._node()
        if node.is_up:
            node.crash()
            self._later(self._rng.choice((1.0, 30.0, 120.0)), node.boot)

    def _slow(self) -> None:
        node = self._node()
        node.be_slow(self._rng.choice((20.0, 300.0)))
        self._later(self._rng.choice((20.0, 100.0)), lambda: node.be_slow(1.0))

    def _runner(self) -> None:
        self._node().runner_dies()

    def _spool(self) -> None:
        node = self._node()
        if node.is_up:
            node.lose_spool()

    def _supervisor(self) -> None:
        alive = list(self._truth.alive.values())
        if alive:
            process = self._rng.choice(alive)
            self._nodes[process.node].kill_supervisor(process.attempt)

    def _storm(self) -> None:
        weather = self._weather
        weather.lose, weather.double, weather.jumble = 0.3, 0.2, 0.2
        self._later(self._rng.choice((10.0, 60.0)), self._storm_is_over)

    def _storm_is_over(self) -> None:
        if not self.calm:
            self._weather.lose, self._weather.double, self._weather.jumble = self._fair

    def noise(self) -> None:
        """Strangers come to a card, or leave it."""
        node = self._node()
        gpu = self._rng.choice(node.gpus)
        if node.foreign.pop(gpu.uuid, None) is None and not self.calm:
            node.foreign[gpu.uuid] = [("eve", self._rng.choice((500, 4_000, 20_000)))]
        if node.is_up:
            node.sample()

    def _node(self) -> SimulatedNode:
        return self._nodes[self._rng.choice(sorted(self._nodes))]

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        def done() -> None:
            self.quiet_since = self._loop.time()
            act()

        self._loop.call_later(seconds, done)


def _kinds(argument: Any) -> set[str]:
    """Of the events in what a call has recorded."""
    changes = argument if isinstance(argument, list) else ()
    return {type(event).__name__ for change in changes for event in change.events}
