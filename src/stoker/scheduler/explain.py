"""Why a task waits, in full: every reason, who holds what, its place, when, and what would help.

Uses the code that plans, so that it cannot tell another story. Works for a task in line and for
one that nobody has handed over yet. What cannot be known is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace

from msgspec import Struct, structs

from stoker.domain.key import TaskKey
from stoker.domain.node import Allocation

from .claim import behind, fits_now, kept_from
from .fit import Bars, Reason, Terms, listed, never_fits, never_on, why_not
from .limits import free_of, own_limits
from .line import Group, OwnerLine, Waiting
from .needs import Needs, Sign
from .policy import Number
from .reserve import choose, together
from .room import Holding, Room
from .state import BaseView

MOST_AHEAD = 1000
"""Beyond so many, the place in line is told as "at least"."""
MOST_HOLDERS = 100
LEAST_LIMIT_S = 60
"""A shorter time limit is not worth suggesting."""
LEAST_SHARE_MIB = 1024


class Holder(Struct, frozen=True):
    """Who has something that it could use."""

    task: TaskKey
    owner: str
    node: str
    gpus: tuple[int, ...]
    ends: datetime | None
    """At the latest, by its time limit."""


class Place(Struct, frozen=True):
    ahead: int
    more: bool
    """There are at least so many."""
    waiting: int
    """Tasks in its queue that could start, if there were room."""


class Estimate(Struct, frozen=True):
    at: datetime | None
    basis: Reason


class Suggestion(Struct, frozen=True):
    """A change with which it would start now."""

    code: str
    values: dict[str, object]
    options: dict[str, object]
    """Fields of its spec."""


class Explanation(Struct, frozen=True):
    starts: tuple[Allocation, ...] | None
    """Where it starts, if it starts now."""
    reasons: tuple[Reason, ...]
    holders: tuple[Holder, ...] = ()
    place: Place | None = None
    estimate: Estimate = Estimate(None, Reason("estimate_unknown", {}))
    suggestions: tuple[Suggestion, ...] = ()


def explain(view: BaseView, waiting: Waiting, now: datetime) -> Explanation:
    """All about one wait."""
    if waiting.folded is not None and not waiting.folded:
        return Explanation(None, (Reason("all_started", {}),))
    told = _Wait(view, waiting, now)
    blockers = list(told.blockers())
    if blockers:
        return Explanation(
            None,
            tuple(blockers),
            estimate=told.when_unblocked(blockers),
            suggestions=tuple(_anyway(blockers)),
        )
    starts = fits_now(view, waiting, now)
    place = _place(view, waiting)
    if starts is not None:
        estimate = Estimate(now, Reason("estimate_now", {}))
        return Explanation(starts, (Reason("next_moment", {}),), place=place, estimate=estimate)
    return Explanation(
        None,
        tuple(told.reasons()),
        holders=tuple(told.holders()),
        place=place,
        estimate=told.estimate(),
        suggestions=tuple(told.suggestions()),
    )


class _Wait:
    def __init__(self, view: BaseView, waiting: Waiting, now: datetime) -> None:
        self.view, self.waiting, self.now = view, waiting, now
        self.sign = waiting.sign
        self.terms = self._terms(self.sign)
        self.bars: Bars = kept_from(view, waiting, now)

    # ---- why

    def blockers(self) -> Iterator[Reason]:
        """What has nothing to do with room."""
        for key, when, outcome in self.view.unsettled(self.waiting):
            values: dict[str, object] = {"task": str(key), "when": when}
            if outcome is None:
                yield Reason("after_pending", values)
            elif outcome == "deleted":
                yield Reason("after_deleted", values)
            else:
                yield Reason("after_failed", values | {"outcome": outcome})
        moment = self.waiting.not_before
        if moment is not None and moment > self.now:
            if self.waiting.tries:
                yield Reason("backing_off", {"at": moment, "tries": self.waiting.tries})
            else:
                yield Reason("not_before", {"at": moment})

    def reasons(self) -> Iterator[Reason]:
        view = self.view
        limits = list(own_limits(view, self.sign))
        yield from limits
        owner = behind(view, self.waiting)
        if owner:
            yield Reason("behind_owner", {"owner": owner})
        if not view.rooms:
            yield Reason("no_nodes", {})
        able = roomy = 0
        for room in self._able():
            found = self._on(room)
            able, roomy = able + 1, roomy + (not found)
            yield from found
        if able < self.sign.needs.nodes:
            yield from self._never()
        if not limits and not owner and 0 < roomy < self.sign.needs.nodes:
            yield Reason("too_few_nodes", {"need": self.sign.needs.nodes, "fit": roomy})

    def _never(self) -> Iterator[Reason]:
        """It was accepted, but a node has changed since."""
        never = never_fits(self.sign.needs, self.view.rooms, self.terms.queue)
        if never is not None:
            yield never.reasons[0]

    def _on(self, room: Room) -> list[Reason]:
        """What stands in its way there: others, or what is kept for others."""
        found = why_not(self.terms, room, None)
        bar = self.bars.get(room.node.name)
        if found or bar is None or not why_not(self.terms, room, bar):
            return found
        held = next(
            held
            for held in self.view.reservations.values()
            if any(kept.node == room.node.name for kept in held.kept)
        )
        gpus = [card.gpu.index for uuid, card in room.cards.items() if uuid in bar.uuids]
        values: dict[str, object] = {
            "node": room.node.name,
            "gpus": listed(gpus),
            "task": str(held.key),
            "since": held.since,
        }
        return [Reason("gpus_kept", values)]

    def _able(self) -> Iterator[Room]:
        """Nodes that could run it when empty, by name."""
        for name in sorted(self.view.rooms):
            room = self.view.rooms[name]
            if never_on(self.terms, room.node) is None:
                yield room

    def holders(self) -> list[Holder]:
        """Who has cards, or cores, that it could use; the first to end first."""
        found: dict[tuple[str, str], tuple[Holding, Holder]] = {}
        for room in self._able():
            for holding in room.holdings.values():
                gpus = tuple(
                    gpu.index
                    for part in holding.allocations
                    if part.node == room.node.name
                    for gpu in part.gpus
                    if gpu.uuid in room.cards and self.terms.suits(room.cards[gpu.uuid].gpu)
                )
                if gpus or not self.sign.needs.gpus:
                    holder = Holder(holding.key, holding.owner, room.node.name, gpus, holding.ends)
                    found[holding.attempt, room.node.name] = holding, holder
        ordered = sorted(found.values(), key=lambda one: _by_end(one[1]))
        return [holder for _, holder in ordered[:MOST_HOLDERS]]

    # ---- when

    def when_unblocked(self, blockers: list[Reason]) -> Estimate:
        if all(reason.code in ("not_before", "backing_off") for reason in blockers):
            at = self.waiting.not_before
            return Estimate(at, Reason("estimate_at", {"at": at}))
        return Estimate(None, Reason("estimate_person", {}))

    def estimate(self) -> Estimate:
        """Only what limits promise: an end that nobody knows makes no guess."""
        unknown = Estimate(None, Reason("estimate_unknown", {}))
        limits = list(own_limits(self.view, self.sign))
        if limits:
            moments = [free_of(self.view, self.sign, limit) for limit in limits]
            if None in moments:
                return unknown
            latest = max(moment for moment in moments if moment is not None)
            return Estimate(max(self.now, latest), Reason("estimate_limits", {}))
        held = self.view.reservations.get(self.sign.queue)
        if held is not None and held.key == self.waiting.key and held.start is not None:
            return Estimate(max(self.now, held.start), Reason("estimate_reserved", {}))
        looks = choose(self.terms, self.view.rooms.values(), self.now)
        if looks is None:  # down, drained, or taken by strangers
            return Estimate(None, Reason("estimate_node", {}))
        unforeseen, start, _ = together(looks)
        if unforeseen or start <= self.now:
            return unknown
        return Estimate(start, Reason("estimate_limits", {}))

    # ---- what would help

    def suggestions(self) -> Iterator[Suggestion]:
        """Each was tried: with it the task starts now."""
        needs = self.sign.needs
        if needs.gpus and not needs.gpu_ids:
            yield from self._fewer_gpus(needs)
        if needs.models:
            yield from self._other_model(needs)
        if needs.node and self._starts(needs=structs.replace(needs, node="")):
            yield Suggestion("try_any_node", {}, {"node": ""})
        if needs.gpus and needs.mode == "exclusive" and not needs.gpu_ids:
            yield from self._share(needs)
        yield from self._shorter()
        yield from self._other_queue()

    def _fewer_gpus(self, needs: Needs) -> Iterator[Suggestion]:
        for gpus in range(needs.gpus - 1, 0, -1):
            if self._starts(needs=structs.replace(needs, gpus=gpus)):
                yield Suggestion("try_fewer_gpus", {"gpus": gpus}, {"gpus": gpus})
                return

    def _other_model(self, needs: Needs) -> Iterator[Suggestion]:
        starts = self._starts(needs=structs.replace(needs, models=()))
        if starts:
            room = self.view.rooms[starts[0].node]
            model = room.cards[starts[0].gpus[0].uuid].gpu.model
            if self._starts(needs=structs.replace(needs, models=(model,))):
                yield Suggestion("try_model", {"model": model}, {"gpu_model": [model]})
            else:
                yield Suggestion("try_any_model", {}, {"gpu_model": []})

    def _share(self, needs: Needs) -> Iterator[Suggestion]:
        """With as much memory as the best cards have left."""
        most = 0
        for room in self._able():
            cards = [c for c in room.cards.values() if self.terms.suits(c.gpu)]
            free = sorted((0 if c.is_exclusive else c.free_mib for c in cards), reverse=True)
            if room.usable and len(free) >= needs.gpus:
                most = max(most, free[needs.gpus - 1])
        most -= most % LEAST_SHARE_MIB
        shared = structs.replace(needs, mode="shared", gpu_memory_mib=most)
        if most and self._starts(needs=shared):
            options: dict[str, object] = {"mode": "shared", "gpu_memory_mib": most}
            yield Suggestion("try_shared", {"memory_mib": most}, options)

    def _shorter(self) -> Iterator[Suggestion]:
        """Short enough to be gone before those come whom cards are kept for."""
        starts = sorted(
            held.start for held in self.view.reservations.values() if held.start is not None
        )
        for start in reversed(starts):
            limit = (start - self.now) // timedelta(seconds=1)
            if limit >= LEAST_LIMIT_S and self._starts(limit_s=limit):
                yield Suggestion("try_time_limit", {"limit_s": limit}, {"time_limit_s": limit})
                return

    def _other_queue(self) -> Iterator[Suggestion]:
        for name in sorted(self.view.policy.queues):
            queue = self.view.policy.queue(name)
            limit = self.sign.limit_s
            fits = queue.longest_s is None or (limit is not None and limit <= queue.longest_s)
            may = fits and self.view.policy.may_use(self.sign.owner, queue)
            if name != self.sign.queue and may and self._starts(queue=name):
                yield Suggestion("try_queue", {"queue": name}, {"queue": name})

    def _starts(self, **changes: object) -> tuple[Allocation, ...] | None:
        sign = structs.replace(self.sign, **changes)
        return fits_now(self.view, structs.replace(self.waiting, sign=sign), self.now)

    def _terms(self, sign: Sign) -> Terms:
        policy = self.view.policy
        return Terms.of(sign.needs, sign.owner, policy.queue(sign.queue), policy)


def _anyway(blockers: list[Reason]) -> Iterator[Suggestion]:
    if any(reason.code in ("after_failed", "after_deleted") for reason in blockers):
        yield Suggestion("try_anyway", {}, {})


def _place(view: BaseView, waiting: Waiting) -> Place:
    """How many would start before it if there were room for everybody."""
    policy, sign = view.policy, waiting.sign
    mine = policy.level(sign.urgent, sign.owner)
    ahead = entries = 0
    level: dict[str, list[Group]] = {}
    for urgent, owner, groups in view.lines(sign.queue):
        entries += sum(map(len, groups))
        theirs = policy.level(urgent, owner)
        if theirs < mine:
            ahead += sum(map(len, groups))
        elif theirs == mine:
            level[owner] = groups
    if view.ready(waiting.key) is None:
        newcomer = Group(sign)
        newcomer.join(waiting)
        level[sign.owner] = [*level.get(sign.owner, []), newcomer]
        entries += len(newcomer)
    for name in view.queues() - {sign.queue}:
        if policy.queue(name).priority > policy.queue(sign.queue).priority:
            ahead += sum(len(group) for _, _, groups in view.lines(name) for group in groups)
    if ahead < MOST_AHEAD:
        ahead += _ahead_in_level(view, level, waiting)
    return Place(min(ahead, MOST_AHEAD), ahead > MOST_AHEAD, entries)


def _ahead_in_level(view: BaseView, level: dict[str, list[Group]], waiting: Waiting) -> int:
    """Let everybody start in turn until it is this one's; gives up beyond MOST_AHEAD."""
    used: dict[TaskKey, int] = {}
    lines = {owner: OwnerLine(groups, used) for owner, groups in level.items()}
    cost: dict[str, Number] = {owner: view.cost(owner) for owner in lines}
    alone = len(lines) == 1

    def place(owner: str) -> tuple[Number, int, TaskKey, str]:
        if alone:  # whoever has no rival is always next
            return 0, 0, waiting.key, owner
        key = view.policy.key(owner, cost[owner], view.use.get(owner, 0))
        return key, *lines[owner].oldest(), owner

    heap = [place(owner) for owner in lines]
    heapify(heap)
    for ahead in range(MOST_AHEAD + 1):
        owner = heap[0][3]
        entry = lines[owner].next()
        if entry.key == waiting.key:
            return ahead
        used[entry.key] = used.get(entry.key, 0) + 1
        cost[owner] += entry.sign.needs.cards or 1
        lines[owner].advance()
        if lines[owner]:
            heapreplace(heap, place(owner))
        else:
            heappop(heap)
    return MOST_AHEAD + 1


def _by_end(holder: Holder) -> tuple[bool, float, TaskKey]:
    if holder.ends is None:
        return True, 0.0, holder.task
    return False, holder.ends.timestamp(), holder.task
