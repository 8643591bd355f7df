"""The lab in plain values: machines, who runs, who waits, what was decided.

Input of the reference (`reference.py`). Shares nothing with `stoker.scheduler`; tests translate
events into both. Names differ from the scheduler's on purpose: Machine, Run, Entry, Promise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction

Key = tuple[int, int]
"""(id, element); element -1 is a plain task, or an array as a whole."""


@dataclass(frozen=True)
class Card:
    index: int
    uuid: str
    model: str
    memory: int
    slots: int = 1


@dataclass(frozen=True)
class Machine:
    name: str
    cpus: int
    memory: int
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Load:
    """What was measured on one card."""

    utilisation: int = 0
    foreign: bool = False
    foreign_memory: int = 0
    attempts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ask:
    """What a task wants of each of its nodes."""

    gpus: int = 0
    ids: tuple[int, ...] = ()
    models: tuple[str, ...] = ()
    mode: str = "exclusive"
    gpu_memory: int = 0
    free_percent: int = 0
    cpus: int = 0
    memory: int = 0
    nodes: int = 1
    node: str = ""


@dataclass(frozen=True)
class Entry:
    """A task in line, or an array of which `folded` have not become tasks of their own."""

    key: Key
    version: int
    owner: str
    queue: str
    urgent: bool
    priority: int
    ask: Ask
    limit: int | None
    position: int
    since: datetime
    after: tuple[tuple[Key, str], ...] = ()
    not_before: datetime | None = None
    array: int = 0
    cap: int | None = None
    folded: tuple[int, ...] | None = None

    @property
    def sign(self) -> tuple[object, ...]:
        who = (self.queue, self.urgent, self.owner, self.priority)
        return (*who, self.ask, self.limit, self.array)

    @property
    def next_key(self) -> Key:
        """What would be placed: the task, or the array's first folded element."""
        return self.key if self.folded is None else (self.key[0], min(self.folded))


@dataclass(frozen=True)
class Part:
    """What a run holds of one node: cards with their slots."""

    node: str
    cards: tuple[tuple[str, int], ...] = ()
    cpus: int = 0
    memory: int = 0
    gpu_memory: int = 0

    @property
    def uuids(self) -> tuple[str, ...]:
        return tuple(uuid for uuid, _ in self.cards)


@dataclass(frozen=True)
class Run:
    """An attempt from placement to end."""

    attempt: str
    key: Key
    owner: str
    queue: str
    mode: str
    parts: tuple[Part, ...]
    since: datetime
    limit: int | None
    array: int = 0

    @property
    def end(self) -> datetime | None:
        return None if self.limit is None else self.since + timedelta(seconds=self.limit)

    def part(self, node: str) -> Part:
        return next((part for part in self.parts if part.node == node), Part(node))

    @property
    def cards(self) -> int:
        return sum(len(part.cards) for part in self.parts)


@dataclass(frozen=True)
class Promise:
    """A reservation: cards by node, kept for the task `key` (an array: its row)."""

    key: Key
    cards: tuple[tuple[str, tuple[str, ...]], ...]
    start: datetime | None
    since: datetime | None


@dataclass(frozen=True)
class Line:
    """A queue's terms."""

    priority: int = 0
    nodes: frozenset[str] | None = None
    models: tuple[str, ...] = ()
    most_cards: int | None = None
    most_cards_each: int | None = None
    spread: bool = False


@dataclass(frozen=True)
class Rules:
    order: str = "balance"
    weights: Mapping[str, int] = field(default_factory=dict)
    lines: Mapping[str, Line] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)
    teams: Mapping[str, str] = field(default_factory=dict)
    team_quotas: Mapping[str, int] = field(default_factory=dict)
    backfill: bool = True
    keep_s: int = 7200
    patient_s: int = 86400
    reuse_any: bool = False

    def weight(self, owner: str) -> int:
        return self.weights.get(owner, 1)

    def line(self, name: str) -> Line:
        return self.lines.get(name, Line())


@dataclass
class World:
    rules: Rules = field(default_factory=Rules)
    machines: dict[str, Machine] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    loads: dict[str, Load] = field(default_factory=dict)
    """By card."""
    entries: dict[Key, Entry] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    ended: dict[Key, str] = field(default_factory=dict)
    """Outcomes, or "deleted"."""
    use: dict[str, Fraction] = field(default_factory=dict)
    """What people used before, decayed."""
    foreign: dict[str, Fraction] = field(default_factory=dict)
    """Cards that people use outside of any task."""
    promises: dict[str, Promise] = field(default_factory=dict)


def matches(patterns: Iterable[str], model: str) -> bool:
    """Any pattern's runs of letters and of digits appear in the model's, side by side."""
    wanted = [_runs(pattern) for pattern in patterns]
    have = _runs(model)
    return not wanted or any(
        have[at : at + len(want)] == want for want in wanted for at in range(len(have))
    )


def came_true(when: str, outcome: str | None) -> bool:
    """Whether a dependency is met; not yet and never again are both no."""
    if outcome is None:
        return False
    if when == "any":
        return True
    if outcome == "deleted":
        return False
    return (outcome == "succeeded") == (when == "ok")


def cost_of(run: Run, machines: Mapping[str, Machine]) -> Fraction:
    """1 per card; the share of its memory when shared; the share of the cores without cards."""
    cost = Fraction(0)
    for part in run.parts:
        machine = machines.get(part.node)
        if not part.cards:
            cost += Fraction(part.cpus, machine.cpus) if machine else 0
        elif run.mode == "shared":
            memory = {card.uuid: card.memory for card in machine.cards} if machine else {}
            cost += sum(
                Fraction(part.gpu_memory, memory[uuid]) for uuid in part.uuids if uuid in memory
            )
        else:
            cost += len(part.cards)
    return cost


def _runs(text: str) -> list[str]:
    return re.findall(r"[a-z]+|[0-9]+", text.lower())
