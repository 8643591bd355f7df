"""The obvious view: looks through everything, every time. What tests compare the fast one with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from typing_extensions import override

from .fit import Bars, Terms, free_for
from .line import Group, GroupKey, group_key
from .room import Room
from .state import BaseView, Line


class ScanningView(BaseView):
    """Looks through everything, every time."""

    @override
    def lines(self, queue: str) -> Iterable[Line]:
        groups: dict[GroupKey, Group] = {}
        for waiting in self._ready.values():
            if waiting.sign.queue == queue:
                key = group_key(waiting)
                groups.setdefault(key, Group(key[0])).join(waiting)
        lines: dict[tuple[bool, str], list[Group]] = {}
        for group in groups.values():
            lines.setdefault((group.sign.urgent, group.sign.owner), []).append(group)
        return [(urgent, owner, found) for (urgent, owner), found in lines.items()]

    @override
    def cards_of_team(self, team: str) -> int:
        return sum(
            len(part.gpus)
            for holding in self._taken.values()
            if self.policy.teams.get(holding.owner) == team
            for part in holding.allocations
        )

    @override
    def queues(self) -> set[str]:
        return {waiting.sign.queue for waiting in self._ready.values()}

    @override
    def ranked(self, terms: Terms, bars: Bars) -> Iterator[Room]:
        return scanned(self.rooms.values(), terms, bars)

    @override
    def changed(self) -> Iterable[Room]:
        return self.rooms.values()


def scanned(rooms: Iterable[Room], terms: Terms, bars: Bars) -> Iterator[Room]:
    """The nodes that could give it enough cards, by how many they could give and by name."""
    sign = 1 if terms.queue.rank == "pack" else -1
    found = []
    for room in rooms:
        name = room.node.name
        if room.usable and terms.admits(name):
            free = free_for(terms, room, bars.get(name))
            if free >= terms.needs.gpus:
                found.append((sign * free, name, room))
    found.sort(key=lambda one: one[:2])
    return (room for _, _, room in found)
