"""What the scheduler knows: who waits, who holds what, what is free. Changed by events only.

Two kinds of view stand on it and answer the same few questions: `scan.ScanningView` looks through
everything each time and is obviously right; `view.View` keeps indices and is fast. Taking and
freeing are exact opposites and may be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from heapq import heappop, heappush

from msgspec import structs

from stoker.domain.dependency import comes_true
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.node import Node

from .fit import Bars, Terms
from .line import Group, Waiting, refolded
from .needs import Needs
from .policy import TICK_S, Number, Policy, decayed
from .reserve import Reservation
from .room import CardLoad, Holding, Room

Line = tuple[bool, str, list[Group]]
"""Urgent or not, owner, what that owner has in line."""
MOST_TICKS = 5000
"""Older use is nothing after so many."""
BEFORE_ALL = datetime.min.replace(tzinfo=UTC)
"""Until somebody says what time it is."""
LONGEST_PAUSE = timedelta(seconds=600)
"""Before a task is tried again."""


class BaseView:
    """Everything that both kinds keep, and the events that change it."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.rooms: dict[str, Room] = {}
        self.reservations: dict[str, Reservation] = {}
        """By queue."""
        self.openings = 0
        """Counts everything that may have made room: while it stands, what waited still waits."""
        self.use: dict[str, int] = {}
        """What everybody has used, decayed; for `fairshare`."""
        self._entries: dict[TaskKey, Waiting] = {}
        self._ready: dict[TaskKey, Waiting] = {}
        self._timers: list[tuple[datetime, TaskKey]] = []
        self._refer: dict[TaskKey, dict[TaskKey, None]] = {}
        self._settled: dict[TaskKey, str] = {}
        self._taken: dict[str, Holding] = {}
        self._cost_of: dict[str, Number] = {}
        self._cost: dict[str, Number] = {}
        self._foreign: dict[str, Number] = {}
        """What people use of cards outside of any task, in cards."""
        self._cards: dict[tuple[str, str], int] = {}
        self._team_cards: dict[str, int] = {}
        self._live: dict[int, int] = {}
        self._now = BEFORE_ALL
        self._ticks: int | None = None
        self._reported: dict[str, Node] = {}
        """Nodes as they introduced themselves, without slots that the lab adds."""
        self._sharers = 0
        """Entries that look at what was measured."""

    # ---- questions; the two kinds answer them in their own way

    def lines(self, queue: str) -> Iterable[Line]:
        """Who has ready tasks in this queue."""
        raise NotImplementedError

    def queues(self) -> set[str]:
        """Queues in which somebody is ready."""
        raise NotImplementedError

    def ranked(self, terms: Terms, bars: Bars) -> Iterator[Room]:
        """Nodes that may have room, in the order in which they are to be tried."""
        raise NotImplementedError

    def changed(self) -> Iterable[Room]:
        """Nodes that may look better than when reservations were last made."""
        raise NotImplementedError

    # ---- who waits

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> Iterator[Waiting]:
        return iter(self._entries.values())

    def waiting(self, key: TaskKey) -> Waiting | None:
        """Its entry in line; of a folded element the array's."""
        found = self._entries.get(key)
        if found is None and key.element != PLAIN:
            array = self._entries.get(TaskKey(key.id))
            if array is not None and array.folded is not None and key.element in array.folded:
                return array
        return found

    def ready(self, key: TaskKey) -> Waiting | None:
        """Its entry, if nothing but room keeps it from starting."""
        return self._ready.get(key)

    def enqueue(self, waiting: Waiting) -> None:
        """Put a QUEUED task in line, or an array; again, when something about it has changed."""
        key = waiting.key
        if key in self._entries:
            self._drop(key)
        self._entries[key] = waiting
        self._sharers += waiting.sign.needs.mode != "exclusive"
        for dependency in waiting.after:
            self._refer.setdefault(dependency.key, {})[key] = None
        self._judge(waiting)

    def dequeue(self, key: TaskKey) -> None:
        if key in self._entries:
            self._drop(key)
            for queue, held in list(self.reservations.items()):
                if held.key == key:
                    del self.reservations[queue]
                    self.openings += 1

    def unfold(self, key: TaskKey) -> None:
        """This element of an array is folded no longer."""
        self._refold(key, folded=False)

    def fold(self, key: TaskKey) -> None:
        """It is after all: what would have made it a task of its own was not recorded."""
        self._refold(key, folded=True)

    def settle(self, key: TaskKey, outcome: str) -> None:
        """A task has ended so, or was deleted. Ignored unless somebody waits for that."""
        followers = self._refer.get(key)
        if followers is None:
            return
        self._settled[key] = outcome
        for follower in list(followers):
            self._judge(self._entries[follower])

    def unsettled(self, waiting: Waiting) -> list[tuple[TaskKey, str, str | None]]:
        """What it waits for in vain or still: (task, when, outcome or None)."""
        found = []
        for dependency in waiting.after:
            outcome = self._settled.get(dependency.key)
            if not comes_true(dependency.when, outcome):  # type: ignore[arg-type]
                found.append((dependency.key, str(dependency.when), outcome))
        return found

    def tick(self, now: datetime) -> bool:
        """Time has passed. True: that changes what may start."""
        ripe = False
        if now < self._now or self._now is BEFORE_ALL:  # set back: no pause gets longer by that
            due, self._timers = self._timers, []
        else:
            due = []
        self._now = now
        while due or (self._timers and self._timers[0][0] <= now):
            _, key = due.pop() if due else heappop(self._timers)
            waiting = self._entries.get(key)
            if waiting is not None and key not in self._ready:
                self._judge(waiting)
                ripe = ripe or key in self._ready
        return self._decay(now) or ripe

    def next_time(self) -> datetime | None:
        """When time alone may change something."""
        while self._timers:
            moment, key = self._timers[0]
            waiting = self._entries.get(key)
            if waiting is not None and waiting.not_before == moment and key not in self._ready:
                return moment
            heappop(self._timers)
        return None

    # ---- what is free

    def set_policy(self, policy: Policy) -> None:
        if policy.teams != self.policy.teams:
            self._team_cards = self._counted_by_team(policy)
        before, self.policy = self.policy, policy
        self.openings += 1
        if policy.slots != before.slots:
            for room in self.rooms.values():
                self._equip(room, self._reported[room.name])
        for room in self.rooms.values():
            room.glances.clear()
            self._room_changed(room)

    def node_up(self, node: Node) -> None:
        """The node is there, perhaps with other cards than before; what is held stays held."""
        self.openings += 1
        self._reported[node.name] = node
        room = self.rooms.get(node.name)
        if room is None:
            room = self.rooms[node.name] = Room(_with_slots(node, self.policy.slots))
            for holding in self._taken.values():
                if any(part.node == node.name for part in holding.allocations):
                    room.hold(holding)
        room.up = True
        self._equip(room, node)

    def _equip(self, room: Room, node: Node) -> None:
        """It has these cards, with as many slots as the lab wants now."""
        room.equip(_with_slots(node, self.policy.slots), room.loads())
        self._room_equipped(room)
        for holding in list(room.holdings.values()):
            self._charge(holding)
        self._room_changed(room)

    def node_down(self, name: str) -> None:
        room = self.rooms.get(name)
        if room is not None:
            room.up = False
            self._room_changed(room)

    def drain(self, name: str, why: str) -> None:
        """Nothing new starts there until `why` is ""."""
        room = self.rooms.get(name)
        if room is not None:
            room.drained = why
            self.openings += not why
            self._room_changed(room)

    def sample(self, name: str, loads: Sequence[CardLoad]) -> bool:
        """What was measured on its cards; True when that changes what may start there."""
        room = self.rooms.get(name)
        if room is None:
            return False
        before = room.loads()
        room.load(_quantised(load) for load in loads)
        after = room.loads()
        if _compared(before) == _compared(after):
            return False
        self._room_changed(room)
        matters = self._sharers > 0 or _foreign(before) != _foreign(after)
        self.openings += matters
        return matters

    def take(self, holding: Holding) -> None:
        """An attempt holds this from now on."""
        if holding.attempt in self._taken:
            return
        self._taken[holding.attempt] = holding
        self._charge(holding)
        self._count(holding, 1)
        for room in self._rooms_of(holding):
            room.hold(holding)
            self._room_changed(room)

    def started(self, attempt: str, at: datetime) -> None:
        """Its time limit counts from now."""
        holding = self._taken.get(attempt)
        if holding is None:
            return
        self._replace(structs.replace(holding, since=at))

    def extended(self, attempt: str, limit_s: int | None) -> None:
        """Its time limit is another one: what is foreseen changes, for the better or the worse."""
        holding = self._taken.get(attempt)
        if holding is None or holding.limit_s == limit_s:
            return
        self.openings += 1
        self._replace(structs.replace(holding, limit_s=limit_s))

    def free(self, attempt: str) -> None:
        """Nothing is held by it any more."""
        holding = self._taken.pop(attempt, None)
        if holding is None:
            return
        self.openings += 1
        self._count(holding, -1)
        self._add_cost(holding.owner, -self._cost_of.pop(attempt))
        for room in self._rooms_of(holding):
            room.release(attempt)
            self._room_changed(room)

    def taken(self) -> Mapping[str, Holding]:
        """Every attempt that holds something."""
        return self._taken

    def cost(self, owner: str) -> Number:
        """What the owner holds now, in cards, and uses of others outside of any task."""
        foreign = self._foreign.get(owner)
        held = self._cost.get(owner, 0)
        return held if foreign is None else held + foreign

    def foreign(self, owner: str) -> Number:
        """What the owner uses of cards outside of any task."""
        return self._foreign.get(owner, 0)

    def set_foreign(self, owner: str, cost: Number) -> bool:
        """The owner's programs that are no task use so many cards; True when that is news."""
        if cost == self._foreign.get(owner, 0):
            return False
        if cost:
            self._foreign[owner] = cost
        else:
            del self._foreign[owner]
        self.openings += 1
        return True

    def owners(self) -> set[str]:
        """Everybody who has something in line or holds something, or did not long ago."""
        waiting = {waiting.sign.owner for waiting in self._entries.values()}
        return waiting | self._cost.keys() | self._foreign.keys() | self.use.keys()

    def cards_of(self, owner: str = "", queue: str = "") -> int:
        """Cards held by an owner, in a queue, or by an owner in a queue."""
        return self._cards.get((owner, queue), 0)

    def cards_of_team(self, team: str) -> int:
        """Cards that the present members of a team hold together."""
        return self._team_cards.get(team, 0)

    def live_of(self, array: int) -> int:
        """Elements of this array that hold something."""
        return self._live.get(array, 0)

    def reserve(self, reservations: Mapping[str, Reservation]) -> None:
        """What the last plan keeps for whom."""
        self.reservations = dict(reservations)

    @contextmanager
    def trial(self) -> Iterator[list[str]]:
        """What is taken in here, and named in the list, is given back at the end."""
        openings, taken = self.openings, list[str]()
        try:
            yield taken
        finally:
            for attempt in reversed(taken):
                self.free(attempt)
            self.openings = openings

    # ---- inside

    def _joined(self, waiting: Waiting) -> None:
        """It has become ready."""

    def _left(self, waiting: Waiting) -> None:
        """It is ready no longer."""

    def _room_equipped(self, room: Room) -> None:
        """A node that was not known, or has other cards than before."""

    def _room_changed(self, room: Room) -> None:
        """Something about it is not as it was."""

    def _judge(self, waiting: Waiting) -> None:
        """Ready or not?"""
        key = waiting.key
        ready = (
            (waiting.folded is None or bool(waiting.folded))
            and not self._is_early(waiting)
            and not self.unsettled(waiting)
        )
        if ready and key not in self._ready:
            self._ready[key] = waiting
            self.openings += bool(waiting.after) or waiting.not_before is not None
            self._joined(waiting)
        elif not ready and key in self._ready:
            self._left(self._ready.pop(key))
        if waiting.not_before is not None and self._is_early(waiting):
            heappush(self._timers, (waiting.not_before, key))

    def _is_early(self, waiting: Waiting) -> bool:
        """Its time has not come. A pause that is longer than any was given by another clock."""
        if waiting.not_before is None or waiting.not_before <= self._now:
            return False
        if self._now is BEFORE_ALL:
            return True
        return not (waiting.tries and waiting.not_before - self._now > LONGEST_PAUSE)

    def _drop(self, key: TaskKey) -> None:
        waiting = self._entries.pop(key)
        self._sharers -= waiting.sign.needs.mode != "exclusive"
        if key in self._ready:
            self._left(self._ready.pop(key))
        for dependency in waiting.after:
            followers = self._refer.get(dependency.key)
            if followers is not None:
                followers.pop(key, None)
                if not followers:
                    del self._refer[dependency.key]
                    self._settled.pop(dependency.key, None)

    def _refold(self, key: TaskKey, *, folded: bool) -> None:
        array = self._entries.get(TaskKey(key.id))
        if array is None or array.folded is None or key.element == PLAIN:
            return
        indices = array.folded.also(key.element) if folded else array.folded.without(key.element)
        changed = self._entries[array.key] = refolded(array, indices)
        if array.key in self._ready:
            self._left(self._ready.pop(array.key))
        self._judge(changed)

    def _rooms_of(self, holding: Holding) -> list[Room]:
        names = dict.fromkeys(part.node for part in holding.allocations)
        return [self.rooms[name] for name in names if name in self.rooms]

    def _replace(self, holding: Holding) -> None:
        """The same attempt with the same room, but for when it ends."""
        self._taken[holding.attempt] = holding
        for room in self._rooms_of(holding):
            room.release(holding.attempt)
            room.hold(holding)
            self._room_changed(room)

    def _charge(self, holding: Holding) -> None:
        """What it costs its owner; known exactly once its nodes are."""
        cost = cost_of(holding.needs, holding, self.rooms)
        self._add_cost(holding.owner, cost - self._cost_of.get(holding.attempt, 0))
        self._cost_of[holding.attempt] = cost

    def _add_cost(self, owner: str, cost: Number) -> None:
        total = self._cost.get(owner, 0) + cost
        if total:
            self._cost[owner] = total
        else:
            self._cost.pop(owner, None)

    def _count(self, holding: Holding, sign: int) -> None:
        cards = sign * sum(len(part.gpus) for part in holding.allocations)
        if cards:
            owner, queue = holding.owner, holding.queue
            for whose in ((owner, ""), ("", queue), (owner, queue)):
                _add(self._cards, whose, cards)
            team = self.policy.teams.get(owner)
            if team is not None:
                _add(self._team_cards, team, cards)
        if holding.array:
            _add(self._live, holding.array, sign)

    def _counted_by_team(self, policy: Policy) -> dict[str, int]:
        """Whoever joins or leaves a team brings or takes along what he holds."""
        found: dict[str, int] = {}
        for owner, team in policy.teams.items():
            _add(found, team, self.cards_of(owner))
        return found

    def _decay(self, now: datetime) -> bool:
        ticks = int(now.timestamp()) // TICK_S
        if self._ticks is None or ticks <= self._ticks:
            self._ticks = ticks if self._ticks is None else self._ticks
            return False
        for _ in range(min(ticks - self._ticks, MOST_TICKS)):
            owners = dict.fromkeys((*self.use, *self._cost, *self._foreign))
            for owner in owners:
                use = self.use.get(owner, 0)
                self.use[owner] = decayed(use, self.cost(owner), self.policy.half_life_s)
        self.use = {owner: use for owner, use in self.use.items() if use}
        self._ticks = ticks
        return self.policy.order == "fairshare"


def cost_of(needs: Needs, holding: Holding, rooms: Mapping[str, Room]) -> Number:
    """In cards: 1 each, the share of memory in mode shared; of cores for a task without cards."""
    cost: Number = 0
    for part in holding.allocations:
        room = rooms.get(part.node)
        if not part.gpus:
            cost += Fraction(part.cpus, room.node.cpus) if room is not None else 1
        elif needs.mode != "shared" or room is None:
            cost += len(part.gpus)
        else:
            for gpu in part.gpus:
                card = room.cards.get(gpu.uuid)
                cost += Fraction(needs.gpu_memory_mib, card.gpu.memory_mib) if card else 1
    return cost


def _with_slots(node: Node, slots: int) -> Node:
    if slots == 1:
        return node
    gpus = (gpu if gpu.slots > 1 else structs.replace(gpu, slots=slots) for gpu in node.gpus)
    return structs.replace(node, gpus=tuple(gpus))


QUANTUM_MIB = 256
QUANTUM_PERCENT = 5


def _quantised(load: CardLoad) -> CardLoad:
    """Coarse, so that noise changes no plan. Memory in use is rounded up, idleness down."""
    return structs.replace(
        load,
        utilisation=min(100, -(-load.utilisation // QUANTUM_PERCENT) * QUANTUM_PERCENT),
        foreign_mib=-(-load.foreign_mib // QUANTUM_MIB) * QUANTUM_MIB,
        attempts={
            attempt: -(-used // QUANTUM_MIB) * QUANTUM_MIB
            for attempt, used in load.attempts.items()
        },
    )


def _compared(loads: Mapping[str, CardLoad]) -> list[tuple[object, ...]]:
    """What of a load planning looks at."""
    return [
        (uuid, load.utilisation, bool(load.foreign), load.foreign_mib, load.attempts)
        for uuid, load in loads.items()
    ]


def _foreign(loads: Mapping[str, CardLoad]) -> set[str]:
    return {uuid for uuid, load in loads.items() if load.foreign}


def _add(counts: dict, key: object, number: int) -> None:  # type: ignore[type-arg]
    total = counts.get(key, 0) + number
    if total:
        counts[key] = total
    else:
        counts.pop(key, None)
