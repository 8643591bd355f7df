"""Who starts now, and where: `plan(view, now)`.

First-fit in order: the line is walked once, each task starts on the first node that has room for
it, and those that do not fit are passed. Needs that failed once are not tried again in a pass:
room only shrinks while planning. The view is not changed: placements are tried out on copies.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, structs

from stoker.domain.key import TaskKey
from stoker.domain.node import Allocation

from .fit import Fits, fit
from .view import Needs, Room, View


class Placement(Struct, frozen=True):
    key: TaskKey
    version: int
    """Of the task when it was planned: if it has moved since, drop this."""
    allocation: Allocation


def plan(view: View, now: datetime) -> list[Placement]:
    """Every task of the line that can start now."""
    rooms = [_copy(room) for room in view.rooms.values() if room.up]
    placements: list[Placement] = []
    failed: set[Needs] = set()
    for waiting in view.line():
        if not rooms:
            break
        if waiting.needs in failed:
            continue
        answer = fit(waiting.needs, rooms)
        if not isinstance(answer, Fits):
            failed.add(waiting.needs)
            continue
        placements.append(Placement(waiting.key, waiting.version, answer.allocation))
        _take(rooms, answer.allocation)
    return placements


def _copy(room: Room) -> Room:
    return structs.replace(room, held=dict(room.held))


def _take(rooms: list[Room], allocation: Allocation) -> None:
    room = next(room for room in rooms if room.node.name == allocation.node)
    for gpu in allocation.gpus:
        room.held[gpu.uuid] = "planned"
    room.cpus_held += allocation.cpus
    room.memory_held_mib += allocation.memory_mib
