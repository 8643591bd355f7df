"""A node and what is taken of it: cards with their holders and loads, cores, memory.

Taking and releasing are exact opposites. What was measured comes in as loads; nothing here asks
the clock or a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from stoker.domain.key import TaskKey
from stoker.domain.node import Allocation, Gpu, Node

from .needs import Needs


class Holding(Struct, frozen=True):
    """What a live attempt holds, from place to finish."""

    attempt: str
    key: TaskKey
    owner: str
    queue: str
    needs: Needs
    allocations: tuple[Allocation, ...]
    since: datetime
    limit_s: int | None = None
    array: int = 0

    @property
    def ends(self) -> datetime | None:
        """At the latest; None: nobody knows."""
        return None if self.limit_s is None else self.since + timedelta(seconds=self.limit_s)


class CardLoad(Struct, frozen=True):
    """What was measured on a card."""

    uuid: str
    used_mib: int = 0
    utilisation: int = 0
    foreign: tuple[str, ...] = ()
    """Processes on it that are not ours."""
    foreign_mib: int = 0
    attempts: dict[str, int] = {}
    """MiB used by each of ours."""


class Card:
    """A card, who holds it, and what was measured on it."""

    __slots__ = ("gpu", "holders", "load", "slots_taken")

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.holders: dict[str, Holding] = {}
        self.slots_taken: dict[str, int] = {}
        """Which slot each exclusive holder has."""
        self.load = CardLoad(gpu.uuid)

    @property
    def is_free(self) -> bool:
        """For an exclusive task: nobody is on it, or only others in their slots."""
        if self.load.foreign:
            return False
        holders = len(self.holders)
        return holders == 0 or (holders == len(self.slots_taken) < self.gpu.slots)

    @property
    def free_slot(self) -> int:
        taken = self.slots_taken.values()
        return next(slot for slot in range(self.gpu.slots) if slot not in taken)

    @property
    def free_mib(self) -> int:
        """What is neither reserved nor measured, whichever is more, nor used by strangers."""
        measured = self.load.attempts
        ours = sum(
            max(holding.needs.gpu_memory_mib, measured.get(attempt, 0))
            for attempt, holding in self.holders.items()
        )
        return self.gpu.memory_mib - ours - self.load.foreign_mib

    @property
    def is_exclusive(self) -> bool:
        return bool(self.slots_taken)

    def is_open_to(self, owner: str, *, any_owner: bool) -> bool:
        """For reuse: nobody else holds it exclusively."""
        return any_owner or all(self.holders[one].owner == owner for one in self.slots_taken)


class Room:
    """A node as planning sees it."""

    __slots__ = (
        "_releases", "_shares", "by_model", "cards", "cpus_held", "drained", "glances", "holdings", "memory_held_mib",
        "node", "totals", "up",
    )  # fmt: skip

    def __init__(self, node: Node) -> None:
        self._releases: list[Holding] | None = None
        self._shares: dict[str, list[int]] | None = None
        self.glances: dict[object, object] = {}
        """What was found out about it; forgotten whenever it changes."""
        self.up = True
        self.drained = ""
        """Why nothing new starts here; "" = it may."""
        self.holdings: dict[str, Holding] = {}
        self.cpus_held = self.memory_held_mib = 0
        self.equip(node, {})

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def usable(self) -> bool:
        return self.up and not self.drained

    @property
    def cpus_free(self) -> int:
        return self.node.cpus - self.cpus_held

    @property
    def memory_free_mib(self) -> int:
        return self.node.memory_mib - self.memory_held_mib

    def equip(self, node: Node, loads: dict[str, CardLoad]) -> None:
        """The node has these cards now; what is held of them stays held."""
        self.node = node
        self.cards = {gpu.uuid: Card(gpu) for gpu in sorted(node.gpus, key=lambda g: g.index)}
        self.totals = Counter(gpu.model for gpu in node.gpus)
        for uuid, load in loads.items():
            if uuid in self.cards:
                self.cards[uuid].load = load
        holdings, self.holdings = self.holdings, {}
        self.cpus_held = self.memory_held_mib = 0
        for holding in holdings.values():
            self.hold(holding)
        self._recount()

    def hold(self, holding: Holding) -> None:
        self.holdings[holding.attempt] = holding
        self._releases = None
        for allocation in holding.allocations:
            if allocation.node != self.node.name:
                continue
            self.cpus_held += allocation.cpus
            self.memory_held_mib += allocation.memory_mib
            for gpu in allocation.gpus:
                card = self.cards.get(gpu.uuid)
                if card is None:
                    continue
                card.holders[holding.attempt] = holding
                if holding.needs.mode == "exclusive":
                    card.slots_taken[holding.attempt] = gpu.slot
        self._recount()

    def release(self, attempt: str) -> None:
        holding = self.holdings.pop(attempt)
        self._releases = None
        for allocation in holding.allocations:
            if allocation.node != self.node.name:
                continue
            self.cpus_held -= allocation.cpus
            self.memory_held_mib -= allocation.memory_mib
            for gpu in allocation.gpus:
                card = self.cards.get(gpu.uuid)
                if card is not None:
                    card.holders.pop(attempt, None)
                    card.slots_taken.pop(attempt, None)
        self._recount()

    def load(self, loads: Iterable[CardLoad]) -> None:
        for load in loads:
            if load.uuid in self.cards:
                self.cards[load.uuid].load = load
        self._recount()

    def loads(self) -> dict[str, CardLoad]:
        return {uuid: card.load for uuid, card in self.cards.items()}

    def releases(self) -> list[Holding]:
        """Holdings in the order in which they are expected to end; those nobody knows last."""
        if self._releases is None:
            self._releases = sorted(self.holdings.values(), key=_expected)
        return self._releases

    def without(self, attempts: Iterable[str]) -> Room:
        """A copy in which these have ended."""
        copy = Room(self.node)
        copy.load(self.loads().values())
        gone = set(attempts)
        for attempt, holding in self.holdings.items():
            if attempt not in gone:
                copy.hold(holding)
        return copy

    def free_gpus(self) -> list[Gpu]:
        """Cards that an exclusive task could have, by index."""
        return [card.gpu for card in self.cards.values() if card.is_free]

    def shares(self) -> dict[str, list[int]]:
        """By model: what is left of each card that is not held exclusively, in MiB, ascending."""
        if self._shares is None:
            self._shares = {}
            for card in self.cards.values():
                if not card.is_exclusive:
                    self._shares.setdefault(card.gpu.model, []).append(card.free_mib)
            for left in self._shares.values():
                left.sort()
        return self._shares

    def _recount(self) -> None:
        """How many cards of each model are free."""
        self._shares = None
        self.glances.clear()
        counts: dict[str, int] = {}
        for card in self.cards.values():
            model = card.gpu.model
            counts[model] = counts.get(model, 0) + card.is_free
        self.by_model = counts


_NEVER = datetime.max.replace(tzinfo=UTC)


def _expected(holding: Holding) -> tuple[bool, datetime, int, TaskKey]:
    ends = holding.ends
    if ends is None:
        return True, _NEVER, -holding.needs.gpus, holding.key
    return False, ends, 0, holding.key
