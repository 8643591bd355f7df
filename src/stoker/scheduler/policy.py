"""What the lab has decided: who goes first, who may have how much. Plain values.

Keys are integers and fractions, never floats: equal shares are equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from msgspec import Struct, field

from stoker.domain.queue import Queue

from .needs import DEFAULT_QUEUE

Order = Literal["balance", "fifo", "fairshare"]
Number = int | Fraction

NEGATIVE, ZERO, POSITIVE = 0, 1, 2
"""Classes of owners by the sign of their weight: the first goes first."""
CLASSES = 3


class Policy(Struct, frozen=True, kw_only=True):
    """Who goes first, and what everybody may have."""

    order: Order = "balance"
    weights: Mapping[str, int] = field(default_factory=dict)
    """A person's share; 1 unless said. 0 goes before positive ones, negative before all."""
    queues: Mapping[str, Queue] = field(
        default_factory=lambda: {DEFAULT_QUEUE: Queue(name=DEFAULT_QUEUE)}
    )
    quotas: Mapping[str, int] = field(default_factory=dict)
    """The most cards a person may hold."""
    teams: Mapping[str, str] = field(default_factory=dict)
    """The team of a person; who is not named is in none."""
    team_quotas: Mapping[str, int] = field(default_factory=dict)
    """The most cards that the members of a team may hold together."""
    admins: frozenset[str] = frozenset()
    """Who may use every queue."""
    backfill: bool = True
    """Whether others may start past a task that has to wait."""
    keep_s: int = 2 * 3600
    """How long cards are kept idle for a start that cannot be foreseen."""
    patient_s: int = 24 * 3600
    """A task that has waited so long may keep them without bound."""
    reuse_any: bool = False
    """Mode reuse also takes cards that another owner holds exclusively."""
    slots: int = 1
    """Exclusive tasks that may use one card side by side, where its node does not say."""
    urgent_each: int = 1
    """Unfinished urgent tasks per person."""
    most_waiting_each: int = 0
    """Tasks of one person that may wait, in all queues together; 0 = any number."""
    half_life_s: int = 7 * 24 * 3600
    """Of past use, with `fairshare`."""

    @property
    def has_limits(self) -> bool:
        """Whether anybody could be stopped by a quota or a queue's maximum."""
        return bool(self.quotas or self.team_quotas) or any(
            queue.most_cards is not None or queue.most_cards_each is not None
            for queue in self.queues.values()
        )

    @property
    def limits_waiting(self) -> bool:
        """Whether anybody could have too many tasks in line."""
        return self.most_waiting_each > 0 or any(
            queue.most_waiting is not None for queue in self.queues.values()
        )

    def weight(self, owner: str) -> int:
        return self.weights.get(owner, 1)

    def queue(self, name: str) -> Queue:
        """A queue that was taken away keeps its tasks, on usual terms."""
        return self.queues.get(name) or Queue(name=name)

    def may_use(self, owner: str, queue: Queue) -> bool:
        """A queue that names nobody is everybody's."""
        return (
            not (queue.people or queue.teams)
            or owner in queue.people
            or self.teams.get(owner, "") in queue.teams
            or owner in self.admins
        )

    def level(self, urgent: bool, owner: str) -> int:
        """Lower goes first, whatever anybody holds."""
        return (0 if urgent else CLASSES) + self.class_of(owner)

    def class_of(self, owner: str) -> int:
        if self.order == "fifo":
            return POSITIVE
        weight = self.weight(owner)
        return POSITIVE if weight > 0 else ZERO if weight == 0 else NEGATIVE

    def key(self, owner: str, cost: Number, use: int) -> Number:
        """Within a level the owner with the smallest key is next."""
        if self.order == "fifo":
            return 0
        weight = self.weight(owner)
        if weight <= 0:
            return weight
        share = cost + Fraction(use, USE_UNIT) if self.order == "fairshare" else cost
        return share if weight == 1 else Fraction(share, weight)


USE_UNIT = 1000 * 3600
"""Decayed use is counted in thousandths of a card second; a card hour weighs like a card now."""
TICK_S = 600
"""Use decays at these moments only, so that shares stand still between them."""


def decayed(use: int, cost: Number, half_life_s: int) -> int:
    """Use after one more tick in which `cost` was held."""
    return (use + int(cost * TICK_S * 1000)) * _kept_per_tick(half_life_s) >> 20


def _kept_per_tick(half_life_s: int) -> int:
    """Of 2**20. Whole numbers from here on: the same on every machine."""
    return int((1 << 20) * math.pow(0.5, TICK_S / half_life_s))
