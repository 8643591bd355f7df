"""The policy once more: slow, obvious, from the words of the design, over plain values.

`decide(world, now)` says who starts, where, and for whom cards are kept. It has no index, keeps
nothing between calls and looks at everything each time. The scheduler must agree with it after
every event. Change it when the design changes, never to agree with the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction

from .world import (
    Ask,
    Card,
    Entry,
    Key,
    Load,
    Machine,
    Part,
    Promise,
    Run,
    World,
    came_true,
    cost_of,
    matches,
)

Level = tuple[int, int]
"""(0 urgent | 1 normal, class of the owner's weight)."""


@dataclass(frozen=True)
class Placed:
    key: Key
    version: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Decision:
    placed: tuple[Placed, ...]
    promises: Mapping[str, Promise]


@dataclass(frozen=True)
class Offer:
    """Cards a task could have later: when, and how many runs without a known end must go."""

    cards: tuple[tuple[str, tuple[str, ...]], ...]
    start: datetime | None
    unknown: int
    gone: frozenset[str]

    @property
    def quality(self) -> tuple[bool, float, int]:
        """Smaller is better: foreseen, then earlier, then fewer in the way."""
        return self.start is None, self.start.timestamp() if self.start else 0, self.unknown


@dataclass(frozen=True)
class Kept:
    """A reservation that binds those who come later in this pass."""

    entry: Entry
    offer: Offer


def decide(world: World, now: datetime) -> Decision:
    """Everything that starts now, in order, and the reservations afterwards."""
    return _Pass(world, now).decide()


def could_start(world: World, now: datetime) -> set[Key]:
    """Who waits although there is room for it that is neither kept nor denied to it.

    For the moment after a plan was carried out, when there should be nobody. Whoever stands behind
    an owner of negative weight who waits is left out, and so is everybody without backfill.
    """
    return _Pass(world, now).could_start() if world.rules.backfill else set()


class _Pass:
    def __init__(self, world: World, now: datetime) -> None:
        self.world, self.rules, self.now = world, world.rules, now
        self.runs = dict(world.runs)
        self.entries = dict(world.entries)
        self.failed: set[tuple[object, ...]] = set()
        self.blocker: str | None = None
        """The owner of negative weight behind whom nobody else starts."""
        self.kept: list[Kept] = []
        self.misfits: dict[str, list[Entry]] = {}
        """By queue: those that do not fit, in order."""
        self.placed: list[Placed] = []
        self.promises = {
            queue: promise
            for queue, promise in world.promises.items()
            if self._is_ripe(promise.key) and self.entries[promise.key].queue == queue
        }
        self.settled: set[str] = set()
        """Queues whose reservation was looked at in this pass."""
        self.renewed: set[str] = set()
        """Queues whose reservation is over: used, or kept too long and open to all in this pass."""

    def decide(self) -> Decision:
        names = {entry.queue for entry in self.entries.values()}
        for queue in sorted(names, key=self._rank):
            self._walk(queue)
            holder = self._reserving(queue)
            if holder is not None and queue not in self.settled:
                self._reserve(holder)  # it had no turn, and still binds those behind it
        self._begin_anew()
        promises = {queue: self._with_since(promise) for queue, promise in self.promises.items()}
        return Decision(tuple(self.placed), promises)

    def could_start(self) -> set[Key]:
        for promise in self.promises.values():
            offer = self._offer(self.entries[promise.key], dict(promise.cards))
            assert offer is not None, "cards are kept that it cannot have"
            self.kept.append(Kept(self.entries[promise.key], offer))
        waiting = [entry for entry in self.entries.values() if self._is_ripe(entry.key)]
        waiting = [entry for entry in waiting if self._is_allowed(entry)]
        wall = [
            self._standing(entry)
            for entry in waiting
            if self.rules.order != "fifo" and self.rules.weight(entry.owner) < 0
        ]
        first = min(wall, default=None)
        return {
            entry.key
            for entry in waiting
            if (first is None or self._standing(entry) < first) and self._fit(entry) is not None
        }

    def _standing(self, entry: Entry) -> tuple[object, ...]:
        return self._rank(entry.queue), self._level(entry), min(0, self.rules.weight(entry.owner))

    # ---- the order

    def _rank(self, queue: str) -> tuple[int, str]:
        return -self.rules.line(queue).priority, queue

    def _walk(self, queue: str) -> None:
        levels = {self._level(entry) for entry in self.entries.values() if entry.queue == queue}
        for level in sorted(levels):
            first = self._reserving(queue)
            if first is not None and self._level(first) == level:
                self._try_first(first)
            while (entry := self._next(queue, level)) is not None:
                if not self._try(entry):
                    return

    def _next(self, queue: str, level: Level) -> Entry | None:
        """The best task of the owner whose turn it is."""
        owners: dict[str, list[Entry]] = {}
        for entry in self.entries.values():
            here = entry.queue == queue and self._level(entry) == level
            if here and self._is_ripe(entry.key) and entry.sign not in self.failed:
                owners.setdefault(entry.owner, []).append(entry)
        if not owners:
            return None

        def turn(owner: str) -> tuple[Fraction, tuple[int, Key]]:
            return self._share(owner), min((e.position, e.key) for e in owners[owner])

        mine = owners[min(owners, key=turn)]
        return min(mine, key=lambda entry: (-entry.priority, entry.position, entry.key))

    def _level(self, entry: Entry) -> Level:
        weight = self.rules.weight(entry.owner)
        group = 0 if self.rules.order == "fifo" else (weight >= 0) + (weight > 0)
        return (0 if entry.urgent else 1), group

    def _share(self, owner: str) -> Fraction:
        weight = self.rules.weight(owner)
        if self.rules.order == "fifo" or weight == 0:
            return Fraction(0)
        if weight < 0:
            return Fraction(weight)
        mine = [run for run in self.runs.values() if run.owner == owner]
        cost = sum((cost_of(run, self.world.machines) for run in mine), Fraction(0))
        cost += self.world.foreign.get(owner, Fraction(0))
        if self.rules.order == "fairshare":
            cost += self.world.use.get(owner, Fraction(0))
        return cost / weight

    # ---- one task

    def _try_first(self, entry: Entry) -> None:
        """Whoever has the reservation may start before its turn, and stops nobody before it."""
        if not self._is_allowed(entry):
            del self.promises[entry.queue]
        elif self.blocker in (None, entry.owner):
            parts = self._fit(entry)
            if parts is not None:
                self._place(entry, parts)
            else:
                self._reserve(entry)

    def _try(self, entry: Entry) -> bool:
        """Places it or not; False when its queue stops here."""
        if not self._is_allowed(entry):
            self.failed.add(entry.sign)
            return True
        if self.blocker not in (None, entry.owner):
            self.failed.add(entry.sign)
            return True
        parts = self._fit(entry)
        if parts is not None:
            self._place(entry, parts)
            return True
        self.failed.add(entry.sign)
        self.misfits.setdefault(entry.queue, []).append(entry)
        self._reserve(entry)
        if self.rules.order != "fifo" and self.rules.weight(entry.owner) < 0:
            self.blocker = entry.owner
        return self.rules.backfill

    def _place(self, entry: Entry, parts: tuple[Part, ...]) -> None:
        key = entry.next_key
        self.placed.append(Placed(key, entry.version, parts))
        attempt = f"planned {key[0]}" + (f"_{key[1]}" if key[1] >= 0 else "")
        self.runs[attempt] = Run(
            attempt, key, entry.owner, entry.queue, entry.ask.mode, parts, self.now, entry.limit,
            entry.array,
        )  # fmt: skip
        if self._reserving(entry.queue) == entry:
            del self.promises[entry.queue]
            self.renewed.add(entry.queue)
            self.kept = [one for one in self.kept if one.entry.queue != entry.queue]
        left = tuple(index for index in entry.folded or () if index != key[1])
        if left:
            self.entries[entry.key] = replace(entry, folded=left)
        else:
            del self.entries[entry.key]

    def _is_ripe(self, key: Key) -> bool:
        """It waits, its time has come and its predecessors ended as they should."""
        entry = self.entries.get(key)
        return (
            entry is not None
            and (entry.folded is None or len(entry.folded) > 0)
            and (entry.not_before is None or entry.not_before <= self.now)
            and all(came_true(when, self.world.ended.get(who)) for who, when in entry.after)
        )

    def _is_allowed(self, entry: Entry) -> bool:
        """Quotas, the queue's maxima and the array's cap."""
        need = entry.ask.gpus * entry.ask.nodes
        line = self.rules.line(entry.queue)
        mine = [run for run in self.runs.values() if run.owner == entry.owner]
        here = [run for run in self.runs.values() if run.queue == entry.queue]
        mine_here = [run for run in mine if run.queue == entry.queue]
        team = self.rules.teams.get(entry.owner)
        ours = [run for run in self.runs.values() if self.rules.teams.get(run.owner) == team]
        elements = [run for run in self.runs.values() if entry.array and run.array == entry.array]
        return (
            _within(mine, need, self.rules.quotas.get(entry.owner))
            and (team is None or _within(ours, need, self.rules.team_quotas.get(team)))
            and _within(here, need, line.most_cards)
            and _within(mine_here, need, line.most_cards_each)
            and (entry.cap is None or len(elements) < entry.cap)
        )

    # ---- what fits

    def _fit(self, entry: Entry) -> tuple[Part, ...] | None:
        spread = self.rules.line(entry.queue).spread
        found = []
        for machine in self._machines(entry):
            part = self._part(entry, machine, frozenset(), self._binding(entry))
            if part is not None:
                free = self._free_for(entry, machine)
                found.append((-free if spread else free, machine.name, part))
        if len(found) < entry.ask.nodes:
            return None
        return tuple(part for _, _, part in sorted(found)[: entry.ask.nodes])

    def _free_for(self, entry: Entry, machine: Machine) -> int:
        """How many cards it could have there; for one that wants none any empty one counts."""
        if entry.ask.gpus:
            return len(self._cards(entry, machine, frozenset(), self._binding(entry)))
        kept = _cards_of(self._binding(entry))
        empty = [card for card in machine.cards if self._is_empty(card, machine, frozenset())]
        return sum(card.uuid not in kept for card in empty)

    def _machines(self, entry: Entry) -> Iterator[Machine]:
        """Where it may run at all."""
        line = self.rules.line(entry.queue)
        for name, machine in sorted(self.world.machines.items()):
            there = name not in self.world.down and name not in self.world.drained
            mine = entry.ask.node in ("", name) and (line.nodes is None or name in line.nodes)
            if there and mine:
                yield machine

    def _part(
        self,
        entry: Entry,
        machine: Machine,
        gone: frozenset[str],
        binding: list[Kept],
        only: tuple[str, ...] | None = None,
    ) -> Part | None:
        """What it would hold there, once `gone` are gone; of cards `only` these."""
        ask = entry.ask
        cards = self._cards(entry, machine, gone, binding)
        if only is not None:
            cards = [card for card in cards if card.uuid in only]
        by_index = {card.index: card for card in cards}
        if len(cards) < ask.gpus or any(index not in by_index for index in ask.ids):
            return None
        staying = [run.part(machine.name) for run in self._here(machine) if run.attempt not in gone]
        if not _has_room(machine, staying, [ask]):
            return None
        if not all(self._leaves_room(entry, machine, one) for one in binding):
            return None
        forced = [by_index[index] for index in ask.ids]
        chosen = (forced + [card for card in cards if card not in forced])[: ask.gpus]
        held = tuple((card.uuid, self._slot(ask, card, machine, gone)) for card in chosen)
        reserved = ask.gpu_memory if ask.mode == "shared" else 0
        return Part(machine.name, held, ask.cpus, ask.memory, reserved)

    def _cards(
        self, entry: Entry, machine: Machine, gone: frozenset[str], binding: list[Kept]
    ) -> list[Card]:
        """Those it could have, best first."""
        kept = _cards_of(binding)
        cards = [
            card
            for card in machine.cards
            if card.uuid not in kept and self._is_usable(entry, card, machine, gone)
        ]
        spread = self.rules.line(entry.queue).spread

        def worth(card: Card) -> tuple[int, ...]:
            if entry.ask.mode == "shared":
                free = self._free_memory(card, machine, gone)
                return (-free if spread else free), card.index
            if entry.ask.mode == "reuse":
                free = self._free_memory(card, machine, gone)
                return -free, len(self._on(card, machine, gone)), card.index
            return (card.index,)

        return sorted(cards, key=worth)

    def _is_usable(self, entry: Entry, card: Card, machine: Machine, gone: frozenset[str]) -> bool:
        ask = entry.ask
        if not matches(ask.models, card.model):
            return False
        if not matches(self.rules.line(entry.queue).models, card.model):
            return False
        exclusive = [run for run in self._on(card, machine, gone) if run.mode == "exclusive"]
        if ask.mode != "exclusive" and self._idle(card, machine, gone) < ask.free_percent:
            return False
        if ask.mode == "shared":
            return not exclusive and self._free_memory(card, machine, gone) >= ask.gpu_memory
        if ask.mode == "reuse":
            others = [run for run in exclusive if run.owner != entry.owner]
            return self.rules.reuse_any or not others
        return self._is_empty(card, machine, gone)

    def _is_empty(self, card: Card, machine: Machine, gone: frozenset[str]) -> bool:
        """A card for oneself, or a slot beside others who are content with one."""
        runs = self._on(card, machine, gone)
        mild = all(run.mode == "exclusive" for run in runs)
        return not self._load(card).foreign and mild and len(runs) < card.slots

    def _free_memory(self, card: Card, machine: Machine, gone: frozenset[str]) -> int:
        load = self._load(card)
        held = sum(
            max(run.part(machine.name).gpu_memory, load.attempts.get(run.attempt, 0))
            for run in self._on(card, machine, gone)
        )
        return card.memory - held - load.foreign_memory

    def _idle(self, card: Card, machine: Machine, gone: frozenset[str]) -> int:
        """Percent, as measured; a card will be idle once the last one on it has gone."""
        before, after = self._on(card, machine, frozenset()), self._on(card, machine, gone)
        if before and not after and not self._load(card).foreign:
            return 100
        return 100 - self._load(card).utilisation

    def _slot(self, ask: Ask, card: Card, machine: Machine, gone: frozenset[str]) -> int:
        """The lowest free one; only exclusive tasks have slots."""
        if ask.mode != "exclusive":
            return 0
        parts = [run.part(machine.name) for run in self._on(card, machine, gone)]
        taken = {slot for part in parts for uuid, slot in part.cards if uuid == card.uuid}
        return min(set(range(card.slots)) - taken)

    def _load(self, card: Card) -> Load:
        return self.world.loads.get(card.uuid, Load())

    def _here(self, machine: Machine) -> list[Run]:
        return [
            run
            for run in self.runs.values()
            if any(part.node == machine.name for part in run.parts)
        ]

    def _on(self, card: Card, machine: Machine, gone: frozenset[str]) -> list[Run]:
        return [
            run
            for run in self._here(machine)
            if run.attempt not in gone and card.uuid in run.part(machine.name).uuids
        ]

    # ---- reservations

    def _reserving(self, queue: str) -> Entry | None:
        promise = self.promises.get(queue)
        return None if promise is None else self.entries[promise.key]

    def _binding(self, entry: Entry) -> list[Kept]:
        """Reservations it has to respect: of those before it, unless it is over in time."""
        mine = (self._rank(entry.queue), self._level(entry))
        return [
            one
            for one in self.kept
            if one.entry.key != entry.key
            and (self._rank(one.entry.queue), self._level(one.entry)) <= mine
            and not self._is_over_before(entry, one.offer.start)
        ]

    def _is_over_before(self, entry: Entry, start: datetime | None) -> bool:
        if start is None or entry.limit is None:
            return False
        return self.now + timedelta(seconds=entry.limit) <= start

    def _leaves_room(self, entry: Entry, machine: Machine, kept: Kept) -> bool:
        """Cores and memory that the reservation needs there stay enough at its start."""
        if all(node != machine.name for node, _ in kept.offer.cards):
            return True
        staying = [run.part(machine.name) for run in self._here(machine) if _stays(run, kept.offer)]
        return _has_room(machine, staying, [entry.ask, kept.entry.ask])

    def _reserve(self, entry: Entry) -> None:
        """`entry` may start and does not fit: it keeps, takes over or begins a reservation."""
        holder = self._reserving(entry.queue)
        if holder is not None and holder != entry and self._level(holder) <= self._level(entry):
            return
        if holder == entry and entry.queue in self.settled:
            return
        offer = self._offer(entry)
        if holder == entry:
            offer = self._keep(entry, offer)
        if offer is not None:
            self._promise(entry, offer)

    def _keep(self, entry: Entry, better: Offer | None) -> Offer | None:
        """The cards it has been promised, unless there are strictly better ones."""
        promise = self.promises.pop(entry.queue)
        self.settled.add(entry.queue)
        old = self._offer(entry, dict(promise.cards))
        if old is None or (better is not None and better.quality < old.quality):
            old = better
        if old is None:
            return None
        self.promises[entry.queue] = promise
        if self._is_kept_too_long(promise, entry, old.start):
            self.renewed.add(entry.queue)
            return None
        return old

    def _is_kept_too_long(self, promise: Promise, entry: Entry, start: datetime | None) -> bool:
        waited = self.now - entry.since
        return (
            start is None
            and promise.since is not None
            and promise.since + timedelta(seconds=self.rules.keep_s) <= self.now
            and waited < timedelta(seconds=self.rules.patient_s)
        )

    def _promise(self, entry: Entry, offer: Offer) -> None:
        old = self.world.promises.get(entry.queue)
        since = old.since if old is not None and old.key == entry.key else None
        if entry.queue in self.renewed:
            since = None  # another one begins
        self.promises[entry.queue] = Promise(entry.key, offer.cards, offer.start, since)
        self.settled.add(entry.queue)
        self.kept = [one for one in self.kept if one.entry.queue != entry.queue]
        self.kept.append(Kept(entry, offer))

    def _begin_anew(self) -> None:
        """Cards that were kept for too long and given to anybody are chosen once more."""
        for queue in sorted(self.renewed & set(self.promises)):
            entry = self.entries[self.promises.pop(queue).key]
            for one in [entry, *self.misfits.get(queue, ())]:
                offer = self._offer(one) if self._is_allowed(one) else None
                if offer is not None:
                    self._promise(one, offer)
                    break

    def _with_since(self, promise: Promise) -> Promise:
        """Since when one of the cards is idle for the task (cores, of one without cards)."""
        entry = self.entries[promise.key]
        idle = not entry.ask.gpus or any(
            card.uuid in uuids and self._is_usable(entry, card, machine, frozenset())
            for node, uuids in promise.cards
            if (machine := self.world.machines.get(node)) is not None
            for card in machine.cards
        )
        return replace(promise, since=(promise.since or self.now) if idle else None)

    def _offer(
        self, entry: Entry, only: Mapping[str, tuple[str, ...]] | None = None
    ) -> Offer | None:
        """The best nodes for it, as many as it wants; `only`: exactly these cards."""
        offers = []
        for machine in self._machines(entry):
            if only is None or machine.name in only:
                cards = None if only is None else only[machine.name]
                offer = self._offer_on(entry, machine, cards)
                if offer is not None:
                    offers.append((offer.quality, machine.name, offer))
        if len(offers) < entry.ask.nodes:
            return None
        best = [offer for _, _, offer in sorted(offers, key=lambda o: o[:2])[: entry.ask.nodes]]
        starts = [offer.start for offer in best if offer.start is not None]
        return Offer(
            cards=tuple(sorted(cards for offer in best for cards in offer.cards)),
            start=max(starts) if len(starts) == len(best) else None,
            unknown=sum(offer.unknown for offer in best),
            gone=frozenset().union(*(offer.gone for offer in best)),
        )

    def _offer_on(
        self, entry: Entry, machine: Machine, only: tuple[str, ...] | None
    ) -> Offer | None:
        """Let those who hold something there end one after another until it fits."""
        here = self._here(machine)
        gone, moment = frozenset[str](), self.now
        part = self._part(entry, machine, gone, [], only)
        for end, _, attempt in sorted((run.end, run.key, run.attempt) for run in here if run.end):
            if part is not None:
                break
            gone, moment = gone | {attempt}, max(moment, end)
            part = self._part(entry, machine, gone, [], only)
        if part is not None:
            return Offer(((machine.name, _names(part)),), moment, 0, gone)
        endless = [run for run in here if run.end is None]
        endless.sort(key=lambda run: (-len(run.part(machine.name).cards), run.key))
        for number, run in enumerate(endless, start=1):
            gone |= {run.attempt}
            part = self._part(entry, machine, gone, [], only)
            if part is not None:
                return Offer(((machine.name, _names(part)),), None, number, gone)
        return None


def _within(runs: list[Run], need: int, most: int | None) -> bool:
    """A task without cards is not limited by their number."""
    return most is None or not need or sum(run.cards for run in runs) + need <= most


def _has_room(machine: Machine, staying: list[Part], asks: list[Ask]) -> bool:
    cpus = sum(part.cpus for part in staying) + sum(ask.cpus for ask in asks)
    memory = sum(part.memory for part in staying) + sum(ask.memory for ask in asks)
    return cpus <= machine.cpus and memory <= machine.memory


def _cards_of(kept: list[Kept]) -> set[str]:
    return {uuid for one in kept for _, uuids in one.offer.cards for uuid in uuids}


def _stays(run: Run, offer: Offer) -> bool:
    """Whether it is still there at the start; one that nobody foresees comes after all ends."""
    if run.end is not None:
        return offer.start is not None and run.end > offer.start
    return run.attempt not in offer.gone


def _names(part: Part) -> tuple[str, ...]:
    return tuple(sorted(part.uuids))
