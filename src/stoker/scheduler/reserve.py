"""Cards that are kept for a task that has to wait, so that smaller ones do not starve it (EASY).

One task per queue holds a reservation: named cards, and when they are expected to be free. It is
recomputed only for the better. An end that nobody knows counts as never: then the nodes with the
fewest holders in the way are taken, and nobody can be let in meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from heapq import nsmallest
from typing import NamedTuple, cast

from msgspec import Struct

from stoker.domain.key import TaskKey
from stoker.domain.node import Allocation

from .fit import Bar, Terms, allocate, never_on
from .needs import Needs
from .room import Room

Value = tuple[bool, datetime, int]
"""Unforeseen, start, holders in the way: the smaller the better."""
_NO_MOMENT = datetime.min.replace(tzinfo=UTC)
_PLENTY = 1 << 40


class Kept(Struct, frozen=True):
    """What is kept on one node."""

    node: str
    uuids: tuple[str, ...]


class Reservation(Struct, frozen=True, kw_only=True):
    """For whom cards are kept, and until when."""

    key: TaskKey
    queue: str
    kept: tuple[Kept, ...]
    start: datetime | None
    """When all of it is free at the latest; None: nobody knows."""
    holders: int
    """Attempts of unknown end that are in the way."""
    since: datetime | None = None
    """Since when one of its cards has been idle for it; None: none is."""

    @property
    def value(self) -> Value:
        return self.start is None, self.start or _NO_MOMENT, self.holders


class Outlook(NamedTuple):
    """When a task could start on one node, and on what."""

    value: Value
    room: Room
    uuids: tuple[str, ...]
    gone: frozenset[str]
    """Attempts that have to end first."""


def outlook(
    terms: Terms, room: Room, now: datetime, only: frozenset[str] | None = None
) -> Outlook | None:
    """The earliest start on this node, on these cards `only`. None: it has no way in here."""
    if not room.usable or never_on(terms, room.node) is not None:
        return None
    bar = None
    if only is not None:
        others = frozenset(uuid for uuid in room.cards if uuid not in only)
        bar = Bar(others, _PLENTY, _PLENTY)
    trial, moment, unknown, gone = room.without(()), now, 0, list[str]()
    found = allocate(terms, trial, bar)
    left = iter(room.releases())
    while found is None:
        holding = next(left, None)
        if holding is None:
            return None
        trial.release(holding.attempt)
        gone.append(holding.attempt)
        if holding.ends is None:
            unknown += 1
        else:
            moment = max(moment, holding.ends)
        found = allocate(terms, trial, bar)
    value = (True, _NO_MOMENT, unknown) if unknown else (False, moment, 0)
    return Outlook(value, room, tuple(gpu.uuid for gpu in found.gpus), frozenset(gone))


def choose(terms: Terms, rooms: Iterable[Room], now: datetime) -> tuple[Outlook, ...] | None:
    """The nodes where it can start first; None when there are not enough."""
    needs = terms.needs
    is_plain = needs.mode == "exclusive" and not needs.gpu_ids
    values = []
    for room in rooms:
        value = _glance(terms, room, now) if is_plain else _value(terms, room, now)
        if value is not None:
            values.append((value, room.node.name, room))
    if len(values) < needs.nodes:
        return None
    best = nsmallest(needs.nodes, values, key=lambda one: one[:2])
    looks = [look for _, _, room in best if (look := outlook(terms, room, now)) is not None]
    return tuple(looks) if len(looks) == needs.nodes else None


def together(looks: Iterable[Outlook]) -> Value:
    """Of all nodes of a gang: it starts when the last of them is free."""
    values = [look.value for look in looks]
    if any(unforeseen for unforeseen, _, _ in values):
        return True, _NO_MOMENT, sum(holders for _, _, holders in values)
    return False, max(start for _, start, _ in values), 0


def reservation(key: TaskKey, queue: str, looks: Iterable[Outlook]) -> Reservation:
    looks = tuple(looks)
    unforeseen, start, holders = together(looks)
    return Reservation(
        key=key,
        queue=queue,
        kept=tuple(Kept(look.room.node.name, look.uuids) for look in looks),
        start=None if unforeseen else start,
        holders=holders,
    )


def named(
    terms: Terms, held: Reservation, rooms: dict[str, Room], now: datetime
) -> tuple[Outlook, ...] | None:
    """How the cards it holds look now; None: not all of them can be had any more."""
    looks = []
    for kept in held.kept:
        room = rooms.get(kept.node)
        look = outlook(terms, room, now, frozenset(kept.uuids)) if room is not None else None
        if look is None:
            return None
        looks.append(look)
    return tuple(looks)


def bars_of(needs: Needs, looks: Iterable[Outlook]) -> dict[str, Bar]:
    """What others have to leave alone: its cards, and as much of the rest as it needs then."""
    looks = tuple(looks)
    if not looks:
        return {}
    unforeseen, start, _ = together(looks)
    gone = frozenset[str]().union(*(look.gone for look in looks))
    bars = {}
    for look in looks:
        room = look.room
        cpus, memory = room.cpus_free - needs.cpus, room.memory_free_mib - needs.memory_mib
        for holding in room.holdings.values():
            known = holding.ends is not None and (unforeseen or holding.ends <= start)
            if known or holding.attempt in gone:
                for part in holding.allocations:
                    if part.node == room.node.name:
                        cpus, memory = cpus + part.cpus, memory + part.memory_mib
        bars[room.node.name] = Bar(frozenset(look.uuids), cpus, memory)
    return bars


def taken_from(bar: Bar, allocation: Allocation) -> None:
    """Somebody who will still be there has taken this of the node."""
    bar.cpus -= allocation.cpus
    bar.memory_mib -= allocation.memory_mib


def _value(terms: Terms, room: Room, now: datetime) -> Value | None:
    look = outlook(terms, room, now)
    return None if look is None else look.value


_Glance = tuple[int, datetime] | None
"""Holders of unknown end in the way, the last known end."""


def _glance(terms: Terms, room: Room, now: datetime) -> Value | None:
    """The value of `outlook` for whole cards, without trying anything out. Remembered."""
    if not room.usable:
        return None
    key = (terms.needs, terms.queue.name)
    if key in room.glances:
        found = cast("_Glance", room.glances[key])
    else:
        found = room.glances[key] = _look(terms, room)
    if found is None:
        return None
    unknown, moment = found
    return (True, _NO_MOMENT, unknown) if unknown else (False, max(now, moment), 0)


def _look(terms: Terms, room: Room) -> _Glance:
    needs, node = terms.needs, room.node
    if not terms.admits(node.name):
        return None
    free = total = 0
    for model, count in room.by_model.items():
        if terms.suits_model(model):
            free += count
            total += room.totals[model]
    if total < needs.gpus or node.cpus < needs.cpus or node.memory_mib < needs.memory_mib:
        return None
    short, cpus, memory = needs.gpus - free, room.cpus_free, room.memory_free_mib
    moment, unknown = _NO_MOMENT, 0
    left = iter(room.releases())
    while short > 0 or cpus < needs.cpus or memory < needs.memory_mib:
        holding = next(left, None)
        if holding is None:
            return None
        ends = holding.ends
        unknown += ends is None
        moment = moment if ends is None else max(moment, ends)
        for part in holding.allocations:
            if part.node == node.name:
                freed = _freed(terms, room, part)
                if freed is None:
                    return _slowly(terms, room)
                short, cpus, memory = short - freed, cpus + part.cpus, memory + part.memory_mib
    return unknown, moment


def _slowly(terms: Terms, room: Room) -> _Glance:
    look = outlook(terms, room, _NO_MOMENT)
    return None if look is None else (look.value[2], look.value[1])


def _freed(terms: Terms, room: Room, part: Allocation) -> int | None:
    """How many cards of use this gives back; None: others may still be on them."""
    count = 0
    for gpu in part.gpus:
        card = room.cards.get(gpu.uuid)
        if card is None or len(card.holders) > 1 or card.gpu.slots > 1:
            return None
        count += not card.load.foreign and terms.suits_model(card.gpu.model)
    return count
