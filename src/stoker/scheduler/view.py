"""What the scheduler sees: waiting tasks in order, nodes, and who holds what.

Kept by flow, changed by events only. A waiting task is a small record (its spec stays on disk), so
that a long line costs little memory. Taking and freeing are exact opposites and may be repeated.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from msgspec import Struct

from stoker.domain.key import TaskKey
from stoker.domain.node import Allocation, Gpu, Node
from stoker.domain.task import TaskSpec


class Needs(Struct, frozen=True, cache_hash=True):
    """What a task asks of a node. Equal needs are one object: see `View.intern`."""

    gpus: int = 0
    gpu_ids: tuple[int, ...] = ()
    cpus: int = 0
    memory_mib: int = 0


def needs_of(spec: TaskSpec) -> Needs:
    """A task that asks for no card and no number of cores counts as one core."""
    return Needs(
        gpus=spec.gpus,
        gpu_ids=spec.gpu_ids,
        cpus=spec.cpus if spec.cpus is not None else int(spec.gpus == 0),
        memory_mib=spec.memory_mib or 0,
    )


class Waiting(Struct, frozen=True):
    """A QUEUED task in line."""

    key: TaskKey
    needs: Needs
    position: int
    version: int

    @property
    def order(self) -> tuple[int, TaskKey]:
        return self.position, self.key


class Room(Struct):
    """A node and what is taken of it."""

    node: Node
    up: bool
    held: dict[str, str]
    """Card uuid to the attempt that holds it."""
    foreign: dict[str, tuple[str, ...]]
    """Card uuid to processes on it that are not ours."""
    cpus_held: int = 0
    memory_held_mib: int = 0
    drained: str = ""
    """Why nothing new starts here; "" = it may."""

    def free_gpus(self) -> list[Gpu]:
        """Cards without an attempt and without a foreign process, by index."""
        return [
            gpu
            for gpu in self.node.gpus
            if gpu.uuid not in self.held and not self.foreign.get(gpu.uuid)
        ]


class View:
    """Who waits and what is free."""

    def __init__(self) -> None:
        self.rooms: dict[str, Room] = {}
        self.openings = 0
        """Counts everything that may have made room: while it stands, what waited still waits."""
        self._line: list[Waiting] = []
        self._waiting: dict[TaskKey, Waiting] = {}
        self._taken: dict[str, Allocation] = {}
        self._needs: dict[Needs, Needs] = {}

    # ---- who waits

    def __len__(self) -> int:
        return len(self._line)

    def line(self) -> Iterator[Waiting]:
        """QUEUED tasks, first come first."""
        return iter(self._line)

    def waiting(self, key: TaskKey) -> Waiting | None:
        return self._waiting.get(key)

    def enqueue(self, key: TaskKey, needs: Needs, position: int, version: int) -> None:
        if key in self._waiting:
            self.dequeue(key)
        waiting = Waiting(key, self._needs.setdefault(needs, needs), position, version)
        self._waiting[key] = waiting
        if self._line and self._line[-1].position >= position:
            insort(self._line, waiting, key=lambda w: w.order)
        else:
            self._line.append(waiting)

    def dequeue(self, key: TaskKey) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            del self._line[bisect_left(self._line, waiting.order, key=lambda w: w.order)]

    # ---- what is free

    def node_up(self, node: Node) -> None:
        """The node is there, perhaps with other cards than before; what is held stays held."""
        self.openings += 1
        room = self.rooms.get(node.name)
        if room is None:
            self.rooms[node.name] = Room(node, True, {}, {})
            for attempt, taken in self._taken.items():
                if taken.node == node.name:
                    self._hold(attempt, taken)
        else:
            room.node, room.up = node, True

    def node_down(self, name: str) -> None:
        if name in self.rooms:
            self.rooms[name].up = False

    def drain(self, name: str, why: str) -> None:
        """Nothing new starts there until `why` is ""."""
        if name in self.rooms:
            self.rooms[name].drained = why
            self.openings += not why

    def foreign(self, name: str, cards: dict[str, tuple[str, ...]]) -> bool:
        """What else runs on its cards; True when that changes where something may be placed."""
        room = self.rooms.get(name)
        if room is None:
            return False
        before = {uuid for uuid, processes in room.foreign.items() if processes}
        room.foreign = cards
        changed = before != {uuid for uuid, processes in cards.items() if processes}
        self.openings += changed
        return changed

    def take(self, attempt: str, allocation: Allocation) -> None:
        if attempt not in self._taken:
            self._taken[attempt] = allocation
            self._hold(attempt, allocation)

    def free(self, attempt: str) -> None:
        taken = self._taken.pop(attempt, None)
        if taken is None or taken.node not in self.rooms:
            return
        self.openings += 1
        room = self.rooms[taken.node]
        for gpu in taken.gpus:
            room.held.pop(gpu.uuid, None)
        room.cpus_held -= taken.cpus
        room.memory_held_mib -= taken.memory_mib

    def taken(self) -> dict[str, Allocation]:
        """Every attempt that holds something."""
        return dict(self._taken)

    def _hold(self, attempt: str, allocation: Allocation) -> None:
        room = self.rooms.get(allocation.node)
        if room is None:
            return
        for gpu in allocation.gpus:
            room.held[gpu.uuid] = attempt
        room.cpus_held += allocation.cpus
        room.memory_held_mib += allocation.memory_mib
