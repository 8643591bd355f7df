"""One simulated node: the runner's own orders and facts, simulated supervisors and hardware.

What survives a runner's death is in the spool; what survives a reboot is only what was durable.
The supervisors keep the protocol's rules: claim, then the bit, then the order that was left, then
the child line, then the command; nothing is reported as ended while something is left.
"""

from __future__ import annotations

import asyncio
import base64
from random import Random
from typing import Any

from stoker.domain.node import Gpu
from stoker.runner import protocol
from stoker.runner.facts import Facts
from stoker.runner.orders import Orders
from stoker.runner.protocol import Exit, Incarnation
from stoker.runner.record import Record

from .spool import MemorySpool, Part, behaviour_of, output_of, signals
from .truth import Process, Truth
from .wire import Connection, Weather

RESCAN_S = 30.0
HEARD_S = RESCAN_S + 10.0
"""An order that was lost is sent again after the next listing."""


class SimulatedNode:
    def __init__(
        self,
        name: str,
        gpus: tuple[Gpu, ...],
        *,
        cpus: int,
        memory_mib: int,
        rng: Random,
        truth: Truth,
        weather: Weather,
        wall: float,
        pauses: tuple[float, ...],
    ) -> None:
        self.name, self.gpus, self.cpus, self.memory_mib = name, gpus, cpus, memory_mib
        self._rng, self._truth, self._weather, self._wall = rng, truth, weather, wall
        self._pauses = pauses
        self._loop = asyncio.get_running_loop()
        self._lives = self._spools = 1
        self.connections: list[Connection] = []
        self.is_up = True
        """It has power."""
        self.reachable = True
        self.slow = 1.0
        self._clear_at = 0.0
        """When what was sent while it was slow has come."""
        self.foreign: dict[str, list[tuple[str, int]]] = {}
        """Card to (account, MiB) of processes that are not ours."""
        self.spool = MemorySpool(lambda: self.incarnation, self._signalled, self._look_at_limit)
        self._start_runner()
        self._loop.call_later(RESCAN_S * rng.random(), self._rescan)

    # ---- hardware

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(f"{self.name}-boot-{self._lives}", f"{self.name}-spool-{self._spools}")

    def now(self) -> float:
        """Its wall clock."""
        return self._wall + self._loop.time()

    def connect(self) -> Connection | None:
        if not (self.is_up and self.reachable):
            return None
        connection = Connection(self, self._rng, self._weather, self.slow)
        self.connections.append(connection)
        return connection

    def lose(self) -> None:
        """Out of reach: what it runs goes on. The server notices after a while."""
        self.reachable = False
        for connection in self.connections:
            connection.cut = True
            self._loop.call_later(self._rng.uniform(0.0, 20.0), connection.break_off)
        self.connections.clear()

    def find(self) -> None:
        self.reachable = True

    def be_slow(self, factor: float) -> None:
        self.slow = factor
        for connection in self.connections:
            connection.slow = factor
            self._clear_at = max(self._clear_at, connection.clear_at)

    def runner_dies(self) -> None:
        """Supervisors go on; the next connection finds another runner."""
        self._hang_up()
        self._start_runner()

    def crash(self) -> None:
        """Power off: every process ends, and what was not durable is gone."""
        self.is_up = False
        for process in [p for p in self._truth.alive.values() if p.node == self.name]:
            self._truth.unknowable.setdefault(process.attempt, "rebooted")
            self._truth.end(process.attempt, self._loop.time())
        for part in self.spool.records.values():
            part.supervised = False
            if part.exit is None:
                self._truth.unknowable.setdefault(part.id, "rebooted")
        self._lives += 1
        self.spool.crash(self._rng)
        self.foreign.clear()
        self._hang_up()

    def boot(self) -> None:
        if not self.is_up:
            self.is_up = True
            self._start_runner()

    def lose_spool(self) -> None:
        """Somebody deleted the folder: old supervisors live, their records do not."""
        for part in self.spool.records.values():
            self._truth.unknowable.setdefault(part.id, "spool_gone")
        self._spools += 1
        self.spool = MemorySpool(lambda: self.incarnation, self._signalled, self._look_at_limit)
        self.runner_dies()

    def kill_supervisor(self, attempt: str) -> None:
        part = self._part(attempt)
        if part is not None and part.supervised and part.exit is None and not part.stuck:
            part.supervised = False
            self._truth.unknowable.setdefault(attempt, "supervisor_died")

    def has_heard_stop(self, attempt: str, since: float) -> bool | None:
        """Whether the order to stop has arrived; None while it may be under way."""
        part = self._part(attempt)
        if part is None or not part.supervised or part.control is not None or part.stopping:
            return True
        return False if self.could_have_heard(since) else None

    def is_supervised(self, attempt: str) -> bool:
        part = self._part(attempt)
        return part is not None and part.supervised and part.exit is None

    def could_have_heard(self, since: float) -> bool:
        """Whether what was to be said to it then must have arrived by now."""
        greeted = [c.greeted for c in self.connections if c.is_open and not c.cut and c.greeted]
        if not greeted or not self.is_up or self._weather.lose or self.slow > 1:
            return False
        return self._loop.time() >= max(*greeted, since, self._clear_at) + HEARD_S

    def sample(self) -> None:
        """Tell what the cards look like."""
        processes = [p for p in self._truth.alive.values() if p.node == self.name]
        cards = []
        for gpu in self.gpus:
            found = [
                protocol.GpuProcess(
                    7, "ana", p.memory_mib, protocol.part_key(p.attempt, 0), "python"
                )
                for p in processes
                if gpu.uuid in p.cards
            ]
            found += [
                protocol.GpuProcess(9, account, mib, "", "python")
                for account, mib in self.foreign.get(gpu.uuid, ())
            ]
            used = min(gpu.memory_mib, sum(process.memory_mib for process in found))
            busy = min(100, 40 * len(found))
            cards.append(protocol.GpuSample(gpu.uuid, used, busy, None, None, found))
        self._say(protocol.Sample(self.now(), 1.0, self.memory_mib // 2, 100_000, cards))

    # ---- the runner

    def _start_runner(self) -> None:
        self.spool.runner_starts()
        spool: Any = self.spool
        self._facts = Facts(spool, self._end_what_is_left)
        self._orders = Orders(spool, self._facts, self._hand_over, self._say)

    def hear(self, connection: Connection, line: bytes) -> None:
        if not self.is_up:
            return
        message = protocol.read(line)
        match message:
            case protocol.Greeting():
                self.spool.raise_epoch(message.epoch)
                connection.epoch, connection.greeted = message.epoch, self._loop.time()
                connection.to_server(self._hello())
                connection.to_server(self._facts.all())
                self.sample()
            case protocol.Launch() | protocol.Stop() | protocol.Extend() | protocol.Forget():
                refused = self._orders.carry_out(message, line)
                if refused is not None:
                    connection.to_server(refused)
            case protocol.Sweep():
                if self.spool.raise_epoch(message.epoch):
                    left = self._sweep(message.attempt)
                    connection.to_server(protocol.Swept(message.attempt, message.rank, left))
            case protocol.ReadLog():
                connection.to_server(self._read_log(message))
            case _:
                raise AssertionError(message)

    def _hello(self) -> protocol.Hello:
        return protocol.Hello(
            incarnation=self.incarnation,
            build="simulated",
            pid=1,
            epoch=self.spool.epoch,
            highest=self.spool.highest,
            hostname=self.name,
            cpus=self.cpus,
            memory_mib=self.memory_mib,
            gpus=[protocol.Gpu(g.index, g.uuid, g.model, g.memory_mib, True) for g in self.gpus],
        )

    def _hand_over(self, key: str, raw: bytes) -> None:
        """To the forker. A supervisor that is paused before its claim is the rule's hard case."""
        pause = self._rng.choice(self._pauses)
        delay = (self._rng.uniform(0.003, 0.05) + pause) * self.slow
        launch = protocol.read(raw)
        self._loop.call_later(delay, self._claim, key, launch, self.incarnation)

    def _sweep(self, attempt: str) -> int:
        """End every process of this attempt, whatever the records say."""
        process = self._truth.alive.get(attempt)
        if process is not None and process.node == self.name:
            if process.stuck:
                return 1
            self._truth.unknowable.setdefault(attempt, "spool_gone")
            self._truth.end(attempt, self._loop.time())
        return 0

    def _read_log(self, order: protocol.ReadLog) -> protocol.LogData:
        part = self._part(order.attempt)
        if part is None:
            return protocol.LogData(order.id, 0, 0, "", "missing")
        whole = output_of(order.attempt, part.behaviour.output)
        data = base64.b64encode(whole[order.offset : order.offset + order.limit]).decode("ascii")
        return protocol.LogData(order.id, order.offset, len(whole), data)

    def _rescan(self) -> None:
        self._loop.call_later(RESCAN_S, self._rescan)
        if self.is_up:
            self._say(self._facts.all())

    def _end_what_is_left(self, record: Record) -> None:
        """Of a part whose supervisor died."""
        self._loop.call_later(0.05, self._ender, record.key, self._facts)

    def _ender(self, key: str, facts: Facts) -> None:
        attempt = key.partition(".")[0]
        process = self._truth.alive.get(attempt)
        if self.is_up and facts is self._facts and (process is None or not process.stuck):
            self._truth.end(attempt, self._loop.time())
            facts.nothing_left(key)
            self._look(key)

    def _look(self, key: str) -> None:
        seen = self._facts.one(key)
        if seen is not None:
            self._say(seen)

    def _say(self, message: Any) -> None:
        self.connections = [c for c in self.connections if c.is_open]
        if self.is_up:
            for connection in self.connections:
                if connection.epoch == self.spool.epoch:
                    connection.to_server(message)

    def _hang_up(self) -> None:
        for connection in self.connections:
            connection.break_off()
        self.connections.clear()

    def _part(self, attempt: str) -> Part | None:
        return self.spool.records.get(protocol.part_key(attempt, 0))

    # ---- a supervisor

    def _claim(self, key: str, launch: protocol.Launch, incarnation: Incarnation) -> None:
        """In a folder or a life that is gone, nothing begins."""
        if incarnation != self.incarnation or not self.is_up or self.spool.has_record(key):
            return
        pid = 1000 + len(signals)
        signals[pid] = self.spool.signal
        part = Part(
            key,
            launch,
            behaviour_of(launch.argv),
            Random(launch.attempt),
            incarnation.boot_id,
            pid,
        )
        self.spool.records[key] = part
        if self._is_marked(launch.number):
            del self.spool.records[key]
            return
        self._after(part, self._rng.uniform(0.001, 0.03), self._begin)

    def _is_marked(self, number: int) -> bool:
        return self.spool.mark.is_set(number)

    def _begin(self, part: Part) -> None:
        if self.spool.records.get(part.key) is not part:
            return  # the folder is gone, and the bits with it
        if part.control is not None:
            self._finish(part, Exit(cause=part.control[0], at=self.now()))
            return
        behaviour, launch = part.behaviour, part.launch
        if part.rng.randrange(100) < behaviour.refuse:
            reason = part.rng.choice(("folder_missing", "start_failed"))
            self._finish(part, Exit(cause="refused", reason=reason, at=self.now()))
            return
        part.started_at = self.now()
        self._truth.begin(
            Process(
                launch.task,
                part.id,
                self.name,
                tuple(gpu.uuid for gpu in launch.gpus),
                behaviour.memory_mib,
                self._loop.time(),
                launch.env,
            )
        )
        self._after(part, 0.001, self._notice)
        code = int(part.rng.randrange(100) < behaviour.fails)
        end = Exit(cause="exit", code=code, ran_s=behaviour.run_s)
        self._after(part, behaviour.run_s, self._main_ended, end)
        self._look_at_limit(part)

    def _look_at_limit(self, part: Part) -> None:
        """By the limit that holds at this moment; again when that one is due."""
        process = self._truth.alive.get(part.id)
        if not part.started_at or process is None or part.limit_s is None:
            return
        left = process.began + part.limit_s - self._loop.time()
        if left > 1e-6:
            self._after(part, left, self._look_at_limit)
        elif not part.stopping:
            self._truth.on_limit(process, part.limit_s)
            self._end(part, "limit", part.launch.grace_s)

    def _signalled(self, part: Part) -> None:
        """A signal without a readable order means cancel."""
        if part.started_at:
            self._end(part, *(part.control or ("cancel", part.launch.grace_s)))

    def _end(self, part: Part, cause: str, grace_s: float) -> None:
        """TERM, grace, KILL; the first cause counts."""
        if part.stopping or part.id not in self._truth.alive:
            return
        part.stopping = True
        behaviour = part.behaviour
        if behaviour.term_s <= grace_s:
            end = Exit(cause=cause, signal=15, ran_s=1.0)
            self._after(part, behaviour.term_s, self._main_ended, end)
            return
        if behaviour.ignore_kill_s:
            self._after(part, grace_s, self._is_stuck)
        end = Exit(cause=cause, signal=9, ran_s=1.0)
        self._after(part, grace_s + behaviour.ignore_kill_s, self._main_ended, end)

    def _is_stuck(self, part: Part) -> None:
        process = self._truth.alive.get(part.id)
        if process is not None:
            part.stuck = process.stuck = "it ignores KILL"
            self._notice(part)

    def _main_ended(self, part: Part, end: Exit) -> None:
        process = self._truth.alive.get(part.id)
        if process is not None and process.exit is None:
            process.exit = end
            part.stuck = process.stuck = ""
            self._after(part, part.behaviour.left_s, self._nothing_left, end)

    def _nothing_left(self, part: Part, end: Exit) -> None:
        self._truth.end(part.id, self._loop.time())
        self._finish(part, end)

    def _finish(self, part: Part, end: Exit) -> None:
        """The exit line, durable. The runner is told, or finds it at its next look."""
        part.exit = Exit(
            end.cause, end.code, end.signal, end.reason, end.detail, self.now(), end.ran_s
        )
        if part.rng.random() < 0.9:
            self._after(part, 0.001, self._notice)

    def _notice(self, part: Part) -> None:
        if self.is_up and self.spool.records.get(part.key) is part:
            self._look(part.key)

    def _after(self, part: Part, seconds: float, act: Any, *more: Any) -> None:
        """Later, if the supervisor still lives then."""
        self._loop.call_later(seconds, self._if_supervised, part, act, more)

    def _if_supervised(self, part: Part, act: Any, more: tuple[Any, ...]) -> None:
        if part.supervised:
            act(part, *more)
