"""Who starts now, and where: `plan(view, now)`. One policy loop, whatever kind of view.

Queues by priority; in each the levels (urgent first, then by the sign of the owner's weight); in
each level again and again the owner with the smallest key; of that owner the first task. What does
not fit is passed over, and the first of them gets a reservation that the others respect. Room only
shrinks during a pass, so needs that failed once are not tried again. What is planned is taken on
trial and given back at the end: the view is as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace

from msgspec import Struct, structs

from stoker.domain.key import TaskKey
from stoker.domain.node import Allocation
from stoker.domain.queue import Queue

from .claim import find, in_time, merged, place_one, turn_of
from .fit import Bars, Terms, candidates
from .limits import is_limited
from .line import Group, OwnerLine, Waiting, element_of
from .needs import Needs, Sign
from .policy import CLASSES, NEGATIVE, TICK_S, Number
from .reserve import (
    Outlook,
    Reservation,
    bars_of,
    choose,
    named,
    reservation,
    taken_from,
    together,
)
from .room import Holding
from .state import BaseView

__all__ = ["Placement", "Plan", "place_one", "plan"]

FOREVER = 1 << 62
"""The limit of a task that has none."""


class Placement(Struct, frozen=True):
    """This task starts here."""

    key: TaskKey
    version: int
    """Of the task when it was planned (of a folded element: of its array): if it has moved since,
    drop this."""
    sign: Sign
    allocations: tuple[Allocation, ...]


class Plan(Struct, frozen=True):
    placements: tuple[Placement, ...]
    reservations: Mapping[str, Reservation]
    """By queue: what is kept from now on."""
    wake_at: datetime | None
    """When time alone may change something; None: it will not."""


def plan(view: BaseView, now: datetime) -> Plan:
    """Everything that starts now, and what is kept for whom."""
    view.tick(now)
    with view.trial() as trial:
        done = _Pass(view, now, trial)
        done.run()
        return Plan(tuple(done.placements), done.reservations, done.wake_at())


class _Active:
    """A reservation that binds in this pass."""

    def __init__(self, entry: Waiting, level: int, turn: int, looks: tuple[Outlook, ...]) -> None:
        self.entry, self.level, self.turn = entry, level, turn
        self.is_anew = False
        """It begins with this pass, whatever was kept before."""
        self.held = reservation(entry.key, entry.sign.queue, looks)
        self.bars = bars_of(entry.sign.needs, looks)


class _Pass:
    """One walk along the line."""

    def __init__(self, view: BaseView, now: datetime, trial: list[str]) -> None:
        self.view, self.now, self.policy = view, now, view.policy
        self.placements: list[Placement] = []
        self.reservations: dict[str, Reservation] = {}
        self._trial = trial
        self._used: dict[TaskKey, int] = {}
        self._failed: dict[tuple[int, Needs, str], int] = {}
        self._active: list[_Active] = []
        self.behind = ""
        """The owner of negative weight whom nobody else may pass."""

    def run(self) -> None:
        policy, view = self.policy, self.view
        names = view.queues() | set(view.reservations)
        queues = sorted(map(policy.queue, names), key=turn_of)
        for turn, queue in enumerate(queues):
            _QueuePass(self, queue, turn).run()
        for active in self._active:
            self._keep(active)

    def wake_at(self) -> datetime | None:
        moments = [self.view.next_time()]
        if self.behind and self.placements:
            # What its owner was given may have brought the task that all wait for to a limit.
            moments.append(self.now)
        for held in self.reservations.values():
            entry = self.view.ready(held.key)
            if held.start is None and held.since is not None and entry is not None:
                moment = held.since + timedelta(seconds=self.policy.keep_s)
                moments.append(moment if moment > self.now else None)
        if self.policy.order == "fairshare" and len(self.view):
            ticks = int(self.now.timestamp()) // TICK_S + 1
            moments.append(datetime.fromtimestamp(ticks * TICK_S, self.now.tzinfo))
        return min((moment for moment in moments if moment is not None), default=None)

    def attempt(self, entry: Waiting, queue: Queue, level: int, turn: int) -> bool:
        """Start the next task of this entry, if it fits."""
        sign = entry.sign
        terms = Terms.of(sign.needs, sign.owner, queue, self.policy)
        bars = self._bars(entry, level, turn)
        allocations = find(self.view, terms, bars)
        if allocations is None:
            self._note_failure(sign, terms, turn, bars)
            return False
        number = self._used.get(entry.key, 0)
        self._used[entry.key] = number + 1
        key = element_of(entry, number)
        self.placements.append(Placement(key, entry.version, sign, allocations))
        held = Holding(
            f"planned {key}", key, sign.owner, sign.queue, sign.needs, allocations, self.now,
            sign.limit_s, sign.array,
        )  # fmt: skip
        self.view.take(held)
        self._trial.append(held.attempt)
        for active in self._active:
            if not in_time(sign, active.held, self.now):
                for part in allocations:
                    if part.node in active.bars:
                        taken_from(active.bars[part.node], part)
        return True

    def has_failed(self, entry: Waiting, turn: int) -> bool:
        """Whether the like of it has failed before in this pass."""
        limit = FOREVER if entry.sign.limit_s is None else entry.sign.limit_s
        return limit >= self._failed.get(_alike(entry.sign, turn), FOREVER + 1)

    def replace(self, old: _Active | None, new: _Active) -> None:
        """Another reservation binds for a queue."""
        if old is not None:
            self._active.remove(old)
        self._active.append(new)

    def used(self, entry: Waiting) -> int:
        return self._used.get(entry.key, 0)

    def line(self, groups: list[Group]) -> OwnerLine:
        return OwnerLine(groups, self._used)

    def failed_from(self, entry: Waiting, turn: int) -> int:
        """The like of it that ask for so long, or longer, have failed."""
        return self._failed[_alike(entry.sign, turn)]

    def _note_failure(self, sign: Sign, terms: Terms, turn: int, bars: Bars) -> None:
        """A shorter one may fit where something is kept, but not where nothing is free."""
        limit = FOREVER if sign.limit_s is None else sign.limit_s
        if not bars or find(self.view, terms, {}) is None:
            limit = 0
        alike = _alike(sign, turn)
        self._failed[alike] = min(limit, self._failed.get(alike, FOREVER))

    def _keep(self, active: _Active) -> None:
        """Its reservation goes on after this pass."""
        before = self.view.reservations.get(active.entry.sign.queue)
        is_same = before is not None and before.key == active.entry.key
        known = before.since if before is not None and is_same and not active.is_anew else None
        idle = not active.entry.sign.needs.gpus or self._keeps_from_others(active)
        since = (known or self.now) if idle else None
        self.reservations[active.held.queue] = structs.replace(active.held, since=since)

    def _keeps_from_others(self, active: _Active) -> bool:
        """Whether one of its cards could be used now."""
        sign = active.entry.sign
        terms = Terms.of(sign.needs, sign.owner, self.policy.queue(sign.queue), self.policy)
        return any(
            card.gpu.uuid in kept.uuids
            for kept in active.held.kept
            for card in candidates(terms, self.view.rooms[kept.node], None)
        )

    def _bars(self, entry: Waiting, level: int, turn: int) -> Bars:
        """What is kept from it."""
        bars: Bars = {}
        for active in self._active:
            ignores = active.turn == turn and level < active.level
            if ignores or active.entry.key == entry.key:
                continue
            if not in_time(entry.sign, active.held, self.now):
                bars = active.bars if not bars else merged(bars, active.bars)
        return bars


class _QueuePass:
    """The turn of one queue."""

    def __init__(self, whole: _Pass, queue: Queue, turn: int) -> None:
        self._whole, self._queue, self._turn = whole, queue, turn
        self._view, self._policy, self._now = whole.view, whole.policy, whole.now
        self._mine: _Active | None = None
        """What is kept for a task of this queue."""
        self._first: tuple[Waiting, int] | None = None
        """The first that did not fit, while nothing is kept on purpose."""
        self._pausing: Waiting | None = None
        """Whose cards everybody may use once, because they were kept too long."""
        self._held: tuple[Reservation, Waiting, int] | None = None
        """What was kept until now, for whom, and that one's level, as long as it has not come."""
        self._stopped = False

    def run(self) -> None:
        self._resume()
        levels: dict[int, list[tuple[str, list[Group]]]] = {}
        for urgent, owner, groups in self._view.lines(self._queue.name):
            levels.setdefault(self._policy.level(urgent, owner), []).append((owner, groups))
        for level in sorted(levels):
            self._try_reserved(level)
            if not self._stopped:
                self._walk(level, levels[level])
        self._begin_again()

    # ---- the line

    def _walk(self, level: int, owners: list[tuple[str, list[Group]]]) -> None:
        lines = {owner: self._whole.line(groups) for owner, groups in owners}
        heap = [
            place
            for owner in lines
            if self._may(owner) and (place := self._place(owner, lines[owner], level))
        ]
        heapify(heap)
        while heap:
            owner = heap[0][3]
            line = lines[owner]
            failed_from = self._start(line.next(), level)
            if failed_from is None:
                line.advance()
            else:
                line.skip(failed_from)
            if self._stopped:
                return
            if self._whole.behind:
                heap = heap[:1]  # nobody passes this owner, whose own tasks may go on
            place = self._place(owner, line, level)
            if place is None:
                heappop(heap)
            else:
                heapreplace(heap, place)

    def _place(
        self, owner: str, line: OwnerLine, level: int
    ) -> tuple[Number, int, TaskKey, str] | None:
        """Where the owner stands: key, then the oldest task that was not passed over."""
        if line.is_plain and self._failure_is_nothing(level):
            # Known failures are passed over at once: without priorities the order of the others
            # is the same as if each had had its turn.
            has_failed, turn = self._whole.has_failed, self._turn
            while line and has_failed(line.next(), turn):
                line.skip(self._whole.failed_from(line.next(), turn))
        if not line:
            return None
        view, (position, key) = self._view, line.oldest()
        share = self._policy.key(owner, view.cost(owner), view.use.get(owner, 0))
        return share, position, key, owner

    def _start(self, entry: Waiting, level: int) -> int | None:
        """None: it starts. Else the limit from which on the like of it do not."""
        whole, turn = self._whole, self._turn
        if is_limited(self._view, entry.sign):
            return 0
        if not whole.has_failed(entry, turn) and whole.attempt(entry, self._queue, level, turn):
            return None
        self._blocked(entry, level)
        return whole.failed_from(entry, turn)

    def _blocked(self, entry: Waiting, level: int) -> None:
        """It does not fit: the first of them gets a reservation."""
        if self._is_negative(level):
            self._whole.behind = entry.sign.owner
        if not self._policy.backfill:
            self._stopped = True
        if self._pausing is not None:
            self._first = self._first or (entry, level)
        elif self._mine is None or level < self._mine.level:
            self._reserve(entry, level)

    def _may(self, owner: str) -> bool:
        return self._whole.behind in ("", owner)

    def _is_negative(self, level: int) -> bool:
        """Nothing is backfilled past a waiting owner of negative weight."""
        return level % CLASSES == NEGATIVE and self._policy.order != "fifo"

    def _failure_is_nothing(self, level: int) -> bool:
        """Whether one more task that does not fit changes nothing."""
        return (
            self._mine is not None
            and level >= self._mine.level
            and self._policy.backfill
            and not self._is_negative(level)
        )

    # ---- the reservation

    def _resume(self) -> None:
        """Whose cards were kept until now."""
        held = self._view.reservations.get(self._queue.name)
        entry = None if held is None else self._view.ready(held.key)
        if held is None or entry is None or entry.sign.queue != self._queue.name:
            return
        if self._kept_too_long(held, entry):
            self._pausing = entry
        else:
            self._held = held, entry, self._policy.level(entry.sign.urgent, entry.sign.owner)

    def _looks(self, held: Reservation, entry: Waiting) -> tuple[Outlook, ...] | None:
        """The cards it has, or strictly better ones."""
        view, now = self._view, self._now
        terms = self._terms(entry)
        mine = named(terms, held, view.rooms, now)
        if mine is None:
            return choose(terms, view.rooms.values(), now)
        value = together(mine)
        all_anew = terms.needs.nodes > 1 or value > held.value
        best = choose(terms, view.rooms.values() if all_anew else view.changed(), now)
        return best if best is not None and together(best) < value else mine

    def _try_reserved(self, level: int) -> None:
        """The task that cards are kept for is the first of its level; better ones ignored it."""
        if self._held is None or self._held[2] != level:
            return
        (held, entry, _), self._held = self._held, None
        if self._mine is not None or is_limited(self._view, entry.sign):
            return
        may = self._may(entry.sign.owner) and not self._stopped
        if not may or not self._whole.attempt(entry, self._queue, level, self._turn):
            looks = self._looks(held, entry)
            if looks is not None:
                self._keep(entry, level, looks)

    def _reserve(self, entry: Waiting, level: int) -> None:
        looks = choose(self._terms(entry), self._view.rooms.values(), self._now)
        if looks is not None:
            self._keep(entry, level, looks)

    def _keep(self, entry: Waiting, level: int, looks: tuple[Outlook, ...]) -> None:
        """From here on in this pass."""
        kept = _Active(entry, level, self._turn, looks)
        self._whole.replace(self._mine, kept)
        self._mine = kept

    def _begin_again(self) -> None:
        """After everybody could use the cards once, they are kept anew."""
        if self._pausing is None:
            return
        entry = self._pausing
        most = 1 if entry.folded is None else len(entry.folded)
        if self._whole.used(entry) < most and not is_limited(self._view, entry.sign):
            self._reserve(entry, self._policy.level(entry.sign.urgent, entry.sign.owner))
        if self._mine is None and self._first is not None:
            self._reserve(*self._first)
        if self._mine is not None:
            self._mine.is_anew = True

    def _kept_too_long(self, held: Reservation, entry: Waiting) -> bool:
        policy, now = self._policy, self._now
        if held.start is not None or held.since is None:
            return False
        if now - entry.since >= timedelta(seconds=policy.patient_s):
            return False
        return now - held.since >= timedelta(seconds=policy.keep_s)

    def _terms(self, entry: Waiting) -> Terms:
        return Terms.of(entry.sign.needs, entry.sign.owner, self._queue, self._policy)


def _alike(sign: Sign, turn: int) -> tuple[int, Needs, str]:
    """Tasks for which a failure means the same. Only reuse asks who the owner is."""
    return turn, sign.needs, sign.owner if sign.needs.mode == "reuse" else ""
