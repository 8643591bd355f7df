"""The view that flow uses: the same answers as `ScanningView`, from indices kept by every event.

Nodes stand in buckets by how many cards of a model they have free; ready tasks stand in groups by
their sign, under queue and owner. A question costs what it finds, not what there is.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from typing_extensions import override

from .fit import Bars, Terms, free_for
from .line import Group, GroupKey, Waiting, group_key
from .needs import matches
from .policy import Policy
from .reserve import Reservation
from .room import Room
from .scan import ScanningView, scanned
from .state import BaseView, Line

__all__ = ["ScanningView", "View"]

Filter = tuple[tuple[str, ...], tuple[str, ...]]
"""Models a task asks for, models its queue has."""


class View(BaseView):
    """Keeps what `plan` asks for."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__(policy)
        self._lines: dict[str, dict[tuple[bool, str], dict[GroupKey, Group]]] = {}
        self._buckets: dict[Filter, _Buckets] = {}
        self._of_room: dict[str, list[_Buckets]] = {}
        """Those of them in which a node can ever have something."""
        self._changed: set[str] = set()

    @override
    def lines(self, queue: str) -> Iterable[Line]:
        for (urgent, owner), groups in self._lines.get(queue, {}).items():
            yield urgent, owner, list(groups.values())

    @override
    def queues(self) -> set[str]:
        return set(self._lines)

    @override
    def ranked(self, terms: Terms, bars: Bars) -> Iterator[Room]:
        needs, rooms = terms.needs, self.rooms
        if needs.node:
            pinned = rooms.get(needs.node)
            return scanned([] if pinned is None else [pinned], terms, bars)
        if needs.gpus and needs.mode == "shared":
            return scanned(
                (room for room in rooms.values() if _may_share(room, terms)), terms, bars
            )
        if needs.gpus and needs.mode == "reuse":
            return scanned(rooms.values(), terms, bars)
        buckets = self._bucket((needs.models, terms.queue.models) if needs.gpus else ((), ()))
        return self._from_buckets(buckets, terms, bars)

    @override
    def changed(self) -> Iterable[Room]:
        return [self.rooms[name] for name in self._changed]

    @override
    def reserve(self, reservations: Mapping[str, Reservation]) -> None:
        super().reserve(reservations)
        self._changed.clear()

    @override
    @contextmanager
    def trial(self) -> Iterator[list[str]]:
        changed = set(self._changed)
        try:
            with super().trial() as taken:
                yield taken
        finally:
            self._changed = changed

    # ---- who waits

    @override
    def _joined(self, waiting: Waiting) -> None:
        sign = waiting.sign
        owners = self._lines.setdefault(sign.queue, {})
        groups = owners.setdefault((sign.urgent, sign.owner), {})
        key = group_key(waiting)
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(key[0])
        group.join(waiting)

    @override
    def _left(self, waiting: Waiting) -> None:
        sign, key = waiting.sign, group_key(waiting)
        owners = self._lines[sign.queue]
        groups = owners[sign.urgent, sign.owner]
        groups[key].leave(waiting)
        if not groups[key].tasks:
            del groups[key]
            if not groups:
                del owners[sign.urgent, sign.owner]
                if not owners:
                    del self._lines[sign.queue]

    # ---- what is free

    def _from_buckets(self, buckets: _Buckets, terms: Terms, bars: Bars) -> Iterator[Room]:
        rooms, least = self.rooms, terms.needs.gpus
        apart: dict[int, list[str]] = {}
        for name, bar in bars.items():  # of these not all that is free is free for it
            if name in buckets.free:
                apart.setdefault(free_for(terms, rooms[name], bar), []).append(name)
        counts: Iterable[int] = range(least, len(buckets.names))
        if terms.queue.rank == "spread":
            counts = reversed(range(least, len(buckets.names)))
        for count in counts:
            names = buckets.names[count]
            if bars:
                names = sorted([n for n in names if n not in bars] + apart.get(count, []))
            for name in names:
                if terms.admits(name):
                    yield rooms[name]

    def _bucket(self, wanted: Filter) -> _Buckets:
        found = self._buckets.get(wanted)
        if found is None:
            found = self._buckets[wanted] = _Buckets(wanted)
            for name, room in self.rooms.items():
                if found.suits(room):
                    self._of_room[name].append(found)
                    found.put(room)
        return found

    @override
    def _room_changed(self, room: Room) -> None:
        self._changed.add(room.node.name)
        for buckets in self._of_room[room.node.name]:
            buckets.put(room)

    @override
    def _room_equipped(self, room: Room) -> None:
        name = room.node.name
        for buckets in self._of_room.get(name, ()):
            buckets.drop(name)
        self._of_room[name] = [one for one in self._buckets.values() if one.suits(room)]


def _may_share(room: Room, terms: Terms) -> bool:
    """Whether enough cards have enough left, whatever else there is against it."""
    least, count = terms.needs.gpu_memory_mib, 0
    for model, left in room.shares().items():
        if left[-1] >= least and terms.suits_model(model):
            count += len(left) - bisect_left(left, least)
    return count >= terms.needs.gpus


class _Buckets:
    """Usable nodes by how many free cards of a kind they have."""

    def __init__(self, wanted: Filter) -> None:
        self.names: list[list[str]] = []
        """By number of free cards; each sorted."""
        self.free: dict[str, int] = {}
        self._wanted = wanted
        self._suits: dict[str, bool] = {}

    def suits(self, room: Room) -> bool:
        """Whether a task that asks so could find anything there. Without models: anywhere."""
        ours, queues = self._wanted
        for model in room.by_model:
            self._suits[model] = matches(ours, model) and matches(queues, model)
        return not (ours or queues) or any(self._suits[model] for model in room.by_model)

    def put(self, room: Room) -> None:
        """Where it belongs now."""
        name = room.node.name
        if not room.usable:
            self.drop(name)
            return
        suits, now = self._suits, 0
        for model, free in room.by_model.items():
            if suits[model]:
                now += free
        before = self.free.get(name)
        if before == now:
            return
        if before is not None:
            self.drop(name)
        while len(self.names) <= now:
            self.names.append([])
        insort(self.names[now], name)
        self.free[name] = now

    def drop(self, name: str) -> None:
        before = self.free.pop(name, None)
        if before is not None:
            names = self.names[before]
            del names[bisect_left(names, name)]
