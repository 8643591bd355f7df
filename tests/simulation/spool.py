"""A spool folder in memory: what the real `runner.orders` and `runner.facts` work on.

`seams` puts this in the place of the file system, for the functions those two call. What a crash of
the machine takes with it, and what it brings back, is drawn.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from msgspec import Struct

from stoker.runner import facts as runner_facts
from stoker.runner import orders as runner_orders
from stoker.runner.limit import Limit
from stoker.runner.protocol import Exit, Incarnation, Launch
from stoker.runner.record import Record
from stoker.runner.watch import ORDER

SMALL_LOG = 64


class Behaviour(Struct, frozen=True):
    """What a command does; travels in its arguments: a node needs to know nothing else."""

    run_s: float = 1.0
    fails: int = 0
    """Percent of attempts that exit with 1."""
    term_s: float = 0.5
    """From TERM to its end; above the grace it needs KILL."""
    left_s: float = 0.0
    """How long its children outlive it, until the supervisor has ended them."""
    memory_mib: int = 1000
    refuse: int = 0
    """Percent of attempts that cannot be started."""
    ignore_kill_s: float = 0.0
    output: int = 20

    def argv(self) -> tuple[str, ...]:
        return ("simulated", *(str(getattr(self, name)) for name in self.__struct_fields__))


def behaviour_of(argv: list[str]) -> Behaviour:
    run, fails, term, left, memory, refuse, ignore, output = map(float, argv[1:9])
    return Behaviour(run, int(fails), term, left, int(memory), int(refuse), ignore, int(output))


class Part(Struct):
    """A record in the spool, and the supervisor that holds its lock."""

    key: str
    launch: Launch
    behaviour: Behaviour
    rng: Random
    boot_id: str
    pid: int
    supervised: bool = True
    started_at: float = 0.0
    control: tuple[str, float] | None = None
    """The order that was left for it: cause and grace."""
    limit: Limit | None = None
    """What it was told of its time limit since its launch."""
    stopping: bool = False
    exit: Exit | None = None
    stuck: str = ""
    looks: int = 0
    """How often its end was misread, by a mutant."""

    @property
    def id(self) -> str:
        return self.launch.attempt

    @property
    def limit_s(self) -> float | None:
        return self.launch.time_limit_s if self.limit is None else self.limit.limit_s

    def record(self) -> Record:
        claim = {
            "number": self.launch.number,
            "boot": self.boot_id,
            "pid": self.pid,
            "start": self.pid,
            "account": "",
            "limit": self.launch.time_limit_s,
        }
        child = {"pid": self.pid + 1, "start": self.pid, "at": self.started_at}
        return Record(
            self.key,
            self.supervised,
            claim,
            child if self.started_at else None,
            self.exit,
            self.stuck,
        )


class MemorySpool:
    """Meets what the runner needs of its `Spool`. `dir_fd` is itself: see `seams`."""

    def __init__(
        self,
        incarnation: Callable[[], Incarnation],
        signal: Callable[[Part], None],
        wake: Callable[[Part], None],
    ) -> None:
        self._incarnation, self._signal, self._wake = incarnation, signal, wake
        self.dir_fd: Any = self
        self.mark = Mark()
        self.ended = Ended()
        self.epoch = 0
        self.highest = 0
        self.records: dict[str, Part] = {}
        self._unlinked: list[Part] = []
        """Removed in this life: after a crash some are there again."""

    @property
    def incarnation(self) -> Incarnation:
        return self._incarnation()

    def raise_epoch(self, epoch: int) -> bool:
        self.epoch = max(self.epoch, epoch)
        return epoch == self.epoch

    def note_number(self, number: int) -> None:
        self.highest = max(self.highest, number)

    def has_record(self, key: str) -> bool:
        return key in self.records

    def parts(self) -> list[str]:
        return list(self.records)

    def write_control(self, key: str, number: int, cause: str, grace_s: float) -> None:
        part = self.records[key]
        if part.launch.number == number:
            part.control = (cause, grace_s)

    def limit(self, key: str) -> Limit | None:
        return self.records[key].limit

    def write_limit(self, key: str, limit: Limit) -> None:
        self.records[key].limit = limit

    def signal(self, pid: int, number: int) -> None:
        for part in self.records.values():
            if part.pid == pid:
                (self._signal if number == ORDER else self._wake)(part)
                return

    def forget(self, key: str, numbers: Iterable[int], account: str) -> None:
        for number in numbers:
            self.mark.set(number)
        self._unlinked.append(self.records.pop(key))

    def drop_record(self, key: str) -> None:
        self.records.pop(key, None)

    def runner_starts(self) -> None:
        self.highest = self.mark.highest()

    def crash(self, rng: Random) -> None:
        """The machine goes down: only exit lines are sure to be there afterwards."""
        for part in list(self.records.values()):
            if part.exit is None and rng.random() < 0.5:
                del self.records[part.key]
        self.records.update({p.key: p for p in self._unlinked if rng.random() < 0.3})
        self._unlinked.clear()
        self.mark.bits = {number for number in self.mark.bits if rng.random() < 0.5}


class Mark:
    def __init__(self) -> None:
        self.bits: set[int] = set()

    def cover(self, number: int) -> None:
        """There is always room."""

    def is_set(self, number: int) -> bool:
        return number in self.bits

    def set(self, number: int) -> None:
        self.bits.add(number)

    def highest(self) -> int:
        return max(self.bits, default=0)


class Ended:
    def __init__(self) -> None:
        self._facts: dict[str, dict[str, Any]] = {}

    def append(self, fact: dict[str, Any]) -> None:
        self._facts[fact["key"]] = fact

    def find(self, key: str) -> dict[str, Any] | None:
        return self._facts.get(key)


def output_of(attempt: str, size: int) -> bytes:
    """What an attempt prints."""
    return (attempt.encode("ascii") * (size // len(attempt) + 1))[:size]


@contextmanager
def seams(time: Callable[[], float]) -> Iterator[None]:
    """The runner's own code works on memory spools in here."""

    def look(spool: MemorySpool, key: str) -> Record | None:
        part = spool.records.get(key)
        return None if part is None else part.record()

    def small_log(spool: MemorySpool, key: str, most: int) -> str | None:
        part = spool.records[key]
        whole = output_of(part.id, part.behaviour.output)
        return base64.b64encode(whole).decode("ascii") if len(whole) <= SMALL_LOG else None

    with ExitStack() as stack:
        for module, name, new in (
            (runner_orders, "look", look),
            (
                runner_orders,
                "send",
                lambda process, number: signals[process.pid](process.pid, number),
            ),
            (runner_orders, "time", SimpleNamespace(time=time)),
            (runner_orders, "note", lambda _text: None),
            (runner_facts, "look", look),
            (runner_facts, "small_log", small_log),
        ):
            stack.enter_context(mock.patch.object(module, name, new))
        signals.clear()
        yield


signals: dict[int, Callable[[int, int], None]] = {}
"""By pid: how a supervisor is signalled. Pids are not used twice."""
