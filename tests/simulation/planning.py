"""Every plan looked at when it is made: nobody was passed who must not be, nothing kept was taken.

The checks are one-sided. They say only what is wrong for certain from the plan and the view it was
made of; that plans are exact is shown elsewhere, against a reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from stoker.domain.key import TaskKey
from stoker.domain.node import Allocation
from stoker.scheduler.line import Waiting
from stoker.scheduler.needs import Sign, matches
from stoker.scheduler.plan import Placement, Plan
from stoker.scheduler.policy import Policy
from stoker.scheduler.reserve import Reservation
from stoker.scheduler.room import Card
from stoker.scheduler.state import BaseView

Broken = Callable[[str, str], None]
FOREVER = 1 << 60
EVERY, MOST_SIGNS = 4, 6
"""What waits in vain goes on waiting: a look now and then is enough to see it."""


class Audit:
    def __init__(self, broken: Broken) -> None:
        self._broken = broken
        self._plans = 0

    def plan(self, view: BaseView, now: datetime, made: Plan) -> None:
        self._plans += 1
        looks = self._plans % EVERY == 0
        if not made.placements and not looks:
            return
        limits = _Limits(view, made.placements)
        left = list(_left(view, made))
        free = [entry for entry in left if not limits.stop(entry.sign)]
        # Nobody passes an owner of negative weight who has to wait; that owner's own tasks go on,
        # until perhaps a limit is reached.
        before = _Limits(view, ())
        first = {
            entry.sign.owner
            for entry in left
            if self._stops(view.policy, entry.sign) and not before.stop(entry.sign)
        }
        kept = list(_still_kept(view, made, now))
        negative = {owner for owner, weight in view.policy.weights.items() if weight < 0}
        # Without backfill (only benchmarks) a queue that has stopped hides who waits in it.
        free_for_all = view.policy.backfill or not negative
        for placement in made.placements:
            for held in kept:
                self._kept(view, placement, held, now)
            own, owner = view.waiting(placement.key), placement.sign.owner
            for entry in free:
                if entry.sign.owner == owner or (free_for_all and owner not in first):
                    self._passed(view, placement, own, entry)
        if looks and view.policy.backfill and not first:
            self._idle(view, made, free)

    def _idle(self, view: BaseView, made: Plan, free: Sequence[Waiting]) -> None:
        """R8: nothing that fits waits, on nodes of which nothing is kept for others."""
        seen: set[Sign] = set()
        for entry in free:
            if entry.sign in seen or len(seen) >= MOST_SIGNS:
                continue
            seen.add(entry.sign)
            kept = {
                part.node
                for held in made.reservations.values()
                for part in held.kept
                if held.key != entry.key
            }
            node = _Space(view, made).room_for(entry.sign, kept)
            if node:
                self._broken("R8", f"{entry.key} waits, and fits on {node}")

    def newcomer(
        self, view: BaseView, waiting: Waiting, now: datetime, where: Sequence[Allocation]
    ) -> None:
        """A task that starts at once, without having been in line."""
        placement = Placement(waiting.key, waiting.version, waiting.sign, tuple(where))
        limits = _Limits(view, ())
        for held in view.reservations.values():
            self._kept(view, placement, held, now)
        ready = [entry for entry in view.entries() if view.ready(entry.key) is not None]
        free = [entry for entry in ready if not limits.stop(entry.sign)]
        if any(
            e.sign.owner == waiting.sign.owner and self._stops(view.policy, e.sign) for e in free
        ):
            return
        for entry in free:
            self._passed(view, placement, waiting, entry)

    def _kept(self, view: BaseView, placement: Placement, held: Reservation, now: datetime) -> None:
        """Backfill never delays the foreseen start of a reserved task."""
        sign, entry = placement.sign, view.ready(held.key)
        if entry is None or entry.key in (placement.key, TaskKey(placement.key.id)):
            return
        if _goes_before(view.policy, sign, entry.sign):
            return
        kept = {uuid for part in held.kept for uuid in part.uuids}
        used = {gpu.uuid for part in placement.allocations for gpu in part.gpus}
        if not kept & used:
            return
        if held.start is None:
            waited = held.since is None or (now - held.since).total_seconds() < view.policy.keep_s
            if waited and held.since not in (None, now):
                self._broken("kept", f"{placement.key} takes cards kept for {held.key}")
        elif sign.limit_s is None or now + timedelta(seconds=sign.limit_s) > held.start:
            self._broken("kept", f"{placement.key} delays {held.key}, which starts {held.start}")

    def _passed(
        self, view: BaseView, placement: Placement, own: Waiting | None, entry: Waiting
    ) -> None:
        """Whether `entry`, which waits on, should have gone before what was placed."""
        sign, other, policy = placement.sign, entry.sign, view.policy
        if self._has_its_cards(view, placement, other):
            return
        if self._stops(policy, other) and not self._stops(policy, sign):
            behind = other.owner != sign.owner and not _goes_before(policy, sign, other)
            if behind and _later(policy, sign, other):
                self._broken("negative", f"{placement.key} passes {entry.key} of {other.owner}")
                return
        alike = sign.needs == other.needs and sign.queue == other.queue
        if not alike or sign.needs.mode == "reuse" or _limit(other) > _limit(sign):
            return
        if _level(policy, other) < _level(policy, sign):
            self._broken("order", f"{placement.key} of {sign.owner} goes before {entry.key}")
        elif sign == other and not sign.array and own is not None and entry.order < own.order:
            self._broken("order", f"{placement.key} goes before its like {entry.key}")

    def _stops(self, policy: Policy, sign: Sign) -> bool:
        """Of two owners of negative weight the first stops the other, and its own go on."""
        return policy.order != "fifo" and policy.backfill and policy.weight(sign.owner) < 0

    def _has_its_cards(self, view: BaseView, placement: Placement, other: Sign) -> bool:
        """A task that cards are kept for is the first of its level."""
        held = view.reservations.get(placement.sign.queue)
        return (
            held is not None
            and held.key in (placement.key, TaskKey(placement.key.id))
            and not _goes_before(view.policy, other, placement.sign)
        )


class _Limits:
    """What people hold, with what was just planned."""

    def __init__(self, view: BaseView, placements: Sequence[Placement]) -> None:
        self._policy = view.policy
        self._held: list[tuple[str, str, int, int]] = [
            (h.owner, h.queue, h.needs.cards, h.array) for h in view.taken().values()
        ]
        self._held += [
            (p.sign.owner, p.sign.queue, p.sign.needs.cards, p.sign.array) for p in placements
        ]

    def stop(self, sign: Sign) -> bool:
        """Whether a limit of its own keeps it back."""
        if sign.cap is not None and sum(a == sign.array for *_, a in self._held) >= sign.cap:
            return True
        cards = sign.needs.cards
        if not cards:
            return False
        queue = self._policy.queue(sign.queue)
        mine = sum(c for o, _, c, _ in self._held if o == sign.owner)
        here = sum(c for _, q, c, _ in self._held if q == sign.queue)
        both = sum(c for o, q, c, _ in self._held if (o, q) == (sign.owner, sign.queue))
        teams = self._policy.teams
        team = teams.get(sign.owner, "")
        ours = sum(c for o, _, c, _ in self._held if teams.get(o) == team)
        pairs = (
            (mine, self._policy.quotas.get(sign.owner)),
            (ours, self._policy.team_quotas.get(team)),
            (here, queue.most_cards),
            (both, queue.most_cards_each),
        )
        return any(most is not None and held + cards > most for held, most in pairs)


class _Space:
    """What is free once the plan is carried out, reckoned once more."""

    def __init__(self, view: BaseView, made: Plan) -> None:
        self._view = view
        self._held = [(h.owner, h.needs, h.attempt, h.allocations) for h in view.taken().values()]
        self._held += [(p.sign.owner, p.sign.needs, "", p.allocations) for p in made.placements]

    def room_for(self, sign: Sign, kept: set[str]) -> str:
        """A node where it fits, other than these; "" = none."""
        needs, queue = sign.needs, self._view.policy.queue(sign.queue)
        for name, room in self._view.rooms.items():
            admitted = needs.node in ("", name) and (queue.nodes is None or name in queue.nodes)
            if name in kept or not room.up or room.drained or not admitted:
                continue
            parts = [p for *_, parts in self._held for p in parts if p.node == name]
            if needs.cpus > room.node.cpus - sum(part.cpus for part in parts):
                continue
            if needs.memory_mib > room.node.memory_mib - sum(part.memory_mib for part in parts):
                continue
            cards = {card.gpu.index for card in room.cards.values() if self._is_open(sign, card)}
            if len(cards) >= needs.gpus and set(needs.gpu_ids) <= cards:
                return name
        return ""

    def _is_open(self, sign: Sign, card: Card) -> bool:
        needs, queue, gpu, load = (
            sign.needs,
            self._view.policy.queue(sign.queue),
            card.gpu,
            card.load,
        )
        if not (matches(needs.models, gpu.model) and matches(queue.models, gpu.model)):
            return False
        here = [
            (owner, theirs, attempt)
            for owner, theirs, attempt, parts in self._held
            if any(held.uuid == gpu.uuid for part in parts for held in part.gpus)
        ]
        exclusive = [owner for owner, theirs, _ in here if theirs.mode == "exclusive"]
        if needs.mode == "exclusive":
            return not load.foreign and len(exclusive) == len(here) < gpu.slots
        if 100 - load.utilisation < needs.gpu_free_percent:
            return False
        if needs.mode == "reuse":
            return self._view.policy.reuse_any or set(exclusive) <= {sign.owner}
        used = sum(max(n.gpu_memory_mib, load.attempts.get(attempt, 0)) for _, n, attempt in here)
        return not exclusive and gpu.memory_mib - used - load.foreign_mib >= needs.gpu_memory_mib


def _left(view: BaseView, made: Plan) -> Iterator[Waiting]:
    """Ready tasks that go on waiting."""
    entries = list(view.entries())
    keys = {entry.key for entry in entries}
    started: dict[TaskKey, int] = {}
    for placement in made.placements:
        # an element that came back has an entry of its own, the others have their array's
        key = placement.key if placement.key in keys else TaskKey(placement.key.id)
        started[key] = started.get(key, 0) + 1
    for entry in entries:
        most = 1 if entry.folded is None else len(entry.folded)
        if view.ready(entry.key) is not None and started.get(entry.key, 0) < most:
            yield entry


def _still_kept(view: BaseView, made: Plan, now: datetime) -> Iterator[Reservation]:
    """What was kept before this plan, and goes on being kept as it was. What was kept idle for too
    long everybody may use once, before it is kept anew."""
    longest = timedelta(seconds=view.policy.keep_s)
    started = {TaskKey(placement.key.id) for placement in made.placements}
    for queue, held in made.reservations.items():
        before = view.reservations.get(queue)
        if held.key in started:  # an array: for one element it is over, for the next it is new
            continue
        if before is None or (before.key, before.kept) != (held.key, held.kept):
            continue
        if before.start is not None or before.since is None or now - before.since < longest:
            yield held


def _later(policy: Policy, sign: Sign, other: Sign) -> bool:
    """Whether the first comes after the second whatever anybody holds."""
    if sign.queue != other.queue:
        mine, theirs = policy.queue(sign.queue), policy.queue(other.queue)
        return (-mine.priority, mine.name) > (-theirs.priority, theirs.name)
    if _level(policy, sign) != _level(policy, other):
        return _level(policy, sign) > _level(policy, other)
    return policy.weight(sign.owner) > policy.weight(other.owner)


def _goes_before(policy: Policy, sign: Sign, other: Sign) -> bool:
    if sign.queue != other.queue:
        mine, theirs = policy.queue(sign.queue), policy.queue(other.queue)
        return (-mine.priority, mine.name) < (-theirs.priority, theirs.name)
    return _level(policy, sign) < _level(policy, other)


def _level(policy: Policy, sign: Sign) -> tuple[bool, int]:
    """Urgent ones first; then weights below 0, of 0, above 0. Only `fifo` looks at no weights."""
    weight = policy.weight(sign.owner)
    sign_of_weight = 0 if policy.order == "fifo" else (weight > 0) - (weight < 0)
    return not sign.urgent, sign_of_weight


def _limit(sign: Sign) -> int:
    return FOREVER if sign.limit_s is None else sign.limit_s
