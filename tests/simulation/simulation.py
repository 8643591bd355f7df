"""One seed, from its first moment to the end of its quiet tail.

`run(seed)` gives the history, its fingerprint and what was broken. Everything that could differ
between two runs is drawn from the seed: the loop's time, ids, choices, delays.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import shutil
import tempfile
from collections.abc import Coroutine, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from stoker.domain.errors import StoreDown
from stoker.domain.node import Incarnation
from stoker.engines.fleet.link import Transport
from stoker.store.recorder import open_store

from .capacity import Capacity
from .chances import NOON, Chances, WallClock
from .checker import Checker
from .faults import Faults
from .history import History, Violation
from .loop import Stalled, VirtualLoop
from .node import SimulatedNode
from .people import People
from .planning import Audit
from .records import Records
from .scenario import Scenario, make_scenario
from .seams import in_place
from .server import Killed, Server
from .shelf import Shelf
from .tail import Tail
from .truth import Truth
from .wire import Weather, Wire

EXPECTED_ERRORS = ("event=store_down", "event=drained")
IDLE_S = 0.1
MOST_VIOLATIONS = 5
"""One broken promise often breaks many more: the first tell what happened."""


class Result(Struct, frozen=True):
    seed: int
    theme: str
    lines: list[str]
    fingerprint: str
    violations: list[Violation]
    seconds: float
    """Of virtual time."""
    kills: int


def run(seed: int, *, most: int = MOST_VIOLATIONS, chances: Chances | None = None) -> Result:
    """The history of this seed, until so many promises are broken."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-simulation-", dir=_fast_folder()))
    loop = VirtualLoop()
    gc.disable()  # a run is short, and makes few cycles
    try:
        simulation = Simulation(make_scenario(seed), loop, folder, most, chances or Chances())
        return simulation.run()
    finally:
        loop.close()
        gc.enable()
        shutil.rmtree(folder)


class Simulation:
    def __init__(
        self, scenario: Scenario, loop: VirtualLoop, folder: Path, most: int, chances: Chances
    ) -> None:
        self.scenario, self.loop, self._folder = scenario, loop, folder
        self._most, self._chances = most, chances
        self.history = History(loop.time)
        self.truth, self.records = Truth(), Records()
        self.clock = WallClock(loop)
        self.weather = Weather(
            scenario.weather.latency_s,
            scenario.weather.lose,
            scenario.weather.double,
            scenario.weather.jumble,
        )
        self._nodes = {node.name: node for node in scenario.nodes}
        self.checker = Checker(
            self.history,
            self.records,
            self.truth,
            self._nodes,
            scenario.policy,
            loop.time,
            self._incarnation,
            self._could_have_heard,
        )
        self.capacity = Capacity(self.records, self.truth, self._nodes)
        self.audit = Audit(self.history.broken)
        self.shelf = Shelf(self.history.broken)
        self._rng = chances.random(f"servers {scenario.seed}")
        self.nodes: dict[str, SimulatedNode] = {}
        self.server: Server | None = None
        self._ours: set[asyncio.Task[Any]] = set()
        self._disk_is_full = False
        self._kills = 0

    def run(self) -> Result:
        shutil.copy(_template(), self._path)
        self.loop.set_exception_handler(self._on_exception)
        with in_place(
            audit=self.audit,
            at_point=self._at_point,
            clock=self.clock,
            node_time=lambda: NOON.timestamp() + self.loop.time(),
            on_error=self._on_error,
        ):
            main = self.loop.create_task(self._main())
            self._ours.add(main)
            try:
                self.loop.run_until_complete(main)
            except Stalled as error:
                self.history.broken("stalled", str(error))
            self._put_away()
        return Result(
            self.scenario.seed,
            self.scenario.theme,
            self.history.lines,
            self.history.fingerprint(),
            self.history.violations,
            self.loop.time(),
            self._kills,
        )

    @property
    def _path(self) -> Path:
        return self._folder / "stoker.db"

    async def _main(self) -> None:
        scenario = self.scenario
        for node in scenario.nodes:
            self.nodes[node.name] = SimulatedNode(
                node.name,
                node.gpus,
                cpus=node.cpus,
                memory_mib=node.memory_mib,
                rng=self._chances.random(f"{node.name} {scenario.seed}"),
                truth=self.truth,
                weather=self.weather,
                wall=NOON.timestamp(),
                pauses=scenario.pauses,
            )
        self.faults = Faults(
            self, self.loop, self.nodes, self.truth, self.weather, self.history, scenario.seed
        )
        self.people = People(
            scenario, self.history, self.records, self.checker, self.capacity, self.clock
        )
        self._start_server()
        for moment in scenario.moments:
            await asyncio.sleep(max(0.0, moment.at - self.loop.time()))
            if self.is_hopeless:
                return
            self._happen(moment.kind, moment.what)
            self.watch()
        await asyncio.sleep(max(0.0, scenario.ends - self.loop.time()))
        self.faults.heal()
        self.history.add("quiet")
        await Tail(self).run()

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        """The loop keeps it; `_bury` ends it."""
        self.loop.create_task(work)  # type: ignore[unused-awaitable]

    def watch(self) -> None:
        """What must be true at any moment."""
        self.checker.stops_happen(self._has_heard_stop)
        self.checker.limits_hold(lambda node, id: self.nodes[node].is_supervised(id))
        server = self.server
        if server is None or not server.is_ready or server.flow is None or server.writer is None:
            return
        if server.writer.has_been_idle(IDLE_S) and not self._disk_is_full:
            view = server.flow.view
            in_line = {entry.key for entry in view.entries() if not entry.sign.array}
            self.checker.knows_what_is_recorded(set(view.taken()), set(server.flow.live), in_line)

    def _has_heard_stop(self, node: str, attempt: str, since: float) -> bool | None:
        calm = max(since, self.faults.quiet_since)  # what was sent before may be lost
        return self.nodes[node].has_heard_stop(attempt, calm)

    def _could_have_heard(self, node: str, since: float) -> bool:
        calm = max(since, self.faults.quiet_since)
        return self.nodes[node].could_have_heard(calm)

    @property
    def is_hopeless(self) -> bool:
        return len(self.history.violations) >= self._most

    def _happen(self, kind: str, what: str) -> None:
        if kind == "fault":
            if what == "clock" or not self._chances.steady:
                self.faults.strike(what)
        elif kind == "noise":
            self.faults.noise()
        elif self.server is not None and self.server.is_ready and self.server.flow is not None:
            act = self.people.act(what, self.server.flow, self.server)
            self._beside(act)
        else:
            self.history.add(f"act {what}: no server")

    # ---- the server's lives

    def _start_server(self) -> None:
        server = Server(
            path=self._path,
            clock=self.clock,
            logs=self.shelf,
            transports=self._transports,
            nodes=self._nodes,
            rng=self._rng,
            disk=self.scenario.disk,
            shaky=0.0 if self._chances.steady else self.scenario.shaky,
            committed=self.checker.committed,
            asked=self._asked,
            at_commit=self.faults.at_commit,
            policy=self.checker.policy,
        )
        self.server = server
        self.history.add("server starts")
        server.disk_is_full = self._disk_is_full
        self.faults.at_start()
        self._beside(self._serve(server))

    async def _serve(self, server: Server) -> None:
        try:
            await server.start()
            self._compare(server)
            await server.turn()
        except Killed:
            return
        except StoreDown:
            if server.is_alive:  # the disk is full: the service is started again and again
                self.kill("it cannot start")
        if server.is_alive:
            self.history.broken("error", "the loop ended by itself")

    def _compare(self, server: Server) -> None:
        assert server.store is not None
        self.checker.compare(server.stored_tasks(), [])

    def kill(self, why: str) -> None:
        """At once, whatever it is doing; another one starts after a while."""
        server = self.server
        if server is None or not server.is_alive:
            return
        self._kills += 1
        self.history.add(f"server dies {why}")
        server.die()
        self.loop.call_soon(self._bury)
        pause = 0.05 if self.faults.is_looping else self._rng.choice((0.05, 0.3, 3.0, 20.0))
        self.loop.call_later(pause, self._start_server)

    def _bury(self) -> None:
        for task in self.loop.unfinished():
            if task not in self._ours:
                task.cancel()

    def _transports(self, alive: Any) -> Mapping[str, Transport]:
        return {name: Wire(node.connect, self._rng, alive) for name, node in self.nodes.items()}

    def _incarnation(self, node: str) -> Incarnation:
        now = self.nodes[node].incarnation
        return Incarnation(now.boot_id, now.spool_id)

    def _asked(self, work: str, argument: Any) -> None:
        self.checker.asked(work, argument, self._against)

    def _against(self, node: str, uuid: str) -> str:
        """What the server itself knows against placing something there."""
        assert self.server is not None
        assert self.server.flow is not None
        room = self.server.flow.view.rooms.get(node)
        if room is None or not room.up:
            return "it is down"
        if room.drained:
            return "it is drained"
        card = room.cards.get(uuid)
        return "foreign" if card is not None and card.load.foreign else ""

    def set_disk(self, *, full: bool) -> None:
        self._disk_is_full = full
        if self.server is not None:
            self.server.disk_is_full = full

    def turn_clock(self, seconds: float) -> None:
        if self._chances.clock_turns:
            self.clock.off_s += seconds

    def expect_progress(self, within_s: float) -> None:
        """R9: however often the server dies meanwhile, if it is not away for long already."""
        alive = self.server is not None and self.server.is_alive
        if alive and not self.weather.lose:
            self.loop.call_later(within_s, self.checker.ends_are_recorded)

    # ---- what must not happen

    def _at_point(self, point: str) -> bool:
        return self.faults.at_point(point)

    def _on_error(self, message: str) -> None:
        """The product has caught an error of its own and gone on."""
        alive = self.server is not None and self.server.is_alive
        if alive and not any(known in message for known in EXPECTED_ERRORS):
            self.history.broken("error", message)

    def _on_exception(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Killed) or (self.server is not None and not self.server.is_alive):
            return
        self.history.broken("error", f"{context.get('message')}: {error!r}")

    def _put_away(self) -> None:
        self.loop.begin_again()
        if self.server is not None:
            self.server.die()
        for _ in range(3):
            self._bury()
            waiting = [task for task in self.loop.unfinished() if task not in self._ours]
            if not waiting:
                return
            self.loop.run_until_complete(asyncio.wait(waiting, timeout=1.0))


@cache
def _template() -> Path:
    """An empty database with the present schema, made once."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-simulation-", dir=_fast_folder()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    open_store(folder / "stoker.db").close()
    return folder / "stoker.db"


def _fast_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
