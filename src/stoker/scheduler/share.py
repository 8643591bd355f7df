"""Where a person stands among the others, and why: the same keys as the plan goes by. Pure.

Among those who have something ready in line; queues, priorities and urgent tasks come before any
of this and are not looked at here. Who has nothing in line stands where one more task would put him.
"""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct

from stoker.domain.key import TaskKey

from .policy import USE_UNIT, Number, Order
from .state import BaseView

AFTER_ALL = (1 << 62, TaskKey(1 << 62))
"""Nobody has come later than who has not come yet."""


class Standing(Struct, frozen=True, kw_only=True):
    """One person, in the values that decide who is next."""

    owner: str
    weight: int
    cost: Number
    """Cards held and used, as the policy counts them."""
    cards: int
    """Held by tasks."""
    foreign: Number
    """Of `cost`: used outside of any task."""
    used: Number
    """What past use counts, in cards; 0 unless the policy looks at it."""
    level: int
    key: Number
    """Among those of one level the smallest is next."""
    ready: int
    """Tasks that only wait for room; an array counts once."""
    oldest: tuple[int, TaskKey] = AFTER_ALL

    @property
    def order(self) -> tuple[int, Number, tuple[int, TaskKey], str]:
        return self.level, self.key, self.oldest, self.owner


class Share(Struct, frozen=True, kw_only=True):
    """Where somebody stands."""

    policy: Order
    mine: Standing
    place: int
    """1 = next."""
    of: int
    """How many compete, with this one."""
    ahead: tuple[Standing, ...]
    """Who is before, the next one first."""
    everybody: tuple[Standing, ...]
    """In the order in which they are next; then those who have nothing in line, by what they hold."""


def share(view: BaseView, owner: str) -> Share:
    """As of now: any start, end or newcomer may change it."""
    ready: dict[str, list[tuple[int, TaskKey]]] = {}
    for queue in view.queues():
        for _, who, groups in view.lines(queue):
            orders = [one.order for group in groups for one in group.tasks]
            ready.setdefault(who, []).extend(orders)
    owners = sorted(view.owners() | {owner})
    found = {who: _standing(view, who, ready.get(who, [])) for who in owners}
    competing = sorted((s for s in found.values() if s.ready), key=lambda s: s.order)
    idle = [s for s in found.values() if not s.ready]
    mine = found[owner]
    ahead = tuple(s for s in competing if s.order < mine.order)
    return Share(
        policy=view.policy.order,
        mine=mine,
        place=len(ahead) + 1,
        of=len(competing) + (not mine.ready),
        ahead=ahead,
        everybody=(*competing, *sorted(idle, key=lambda s: (-s.cost, s.owner))),
    )


def _standing(view: BaseView, owner: str, ready: list[tuple[int, TaskKey]]) -> Standing:
    policy, cost = view.policy, view.cost(owner)
    use = view.use.get(owner, 0)
    return Standing(
        owner=owner,
        weight=policy.weight(owner),
        cost=cost,
        cards=view.cards_of(owner),
        foreign=view.foreign(owner),
        used=Fraction(use, USE_UNIT) if policy.order == "fairshare" else 0,
        level=policy.class_of(owner),
        key=policy.key(owner, cost, use),
        ready=len(ready),
        oldest=min(ready, default=AFTER_ALL),
    )
