"""Does a task fit? Three answers: it fits here, it waits (why), it never fits (why).

The same code plans, explains a wait and refuses a submit, so that they cannot disagree. Never
looks at what nodes have, whether or not they are up; an unknown fleet refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from stoker.domain.node import Allocation, Gpu, HeldGpu, Node
from stoker.domain.queue import Queue

from .needs import Needs, matches
from .policy import Policy
from .room import Card, Room


class Reason(Struct, frozen=True):
    """Why not: a code for `text/` and its values."""

    code: str
    values: dict[str, object]


class Never(Struct, frozen=True):
    reasons: tuple[Reason, ...]


class Bar(Struct):
    """What of a node is kept for others."""

    uuids: frozenset[str]
    cpus: int
    """So many of the free cores may be used: fewer than none when they are short already."""
    memory_mib: int


Bars = Mapping[str, Bar]
"""By node."""


class Terms(Struct, frozen=True):
    """On which terms a task may use a card."""

    needs: Needs
    owner: str
    queue: Queue
    reuse_any: bool = False

    @classmethod
    def of(cls, needs: Needs, owner: str, queue: Queue, policy: Policy) -> Terms:
        return cls(needs, owner, queue, policy.reuse_any)

    def admits(self, node: str) -> bool:
        """Whether this node may be asked at all."""
        pinned, nodes = self.needs.node, self.queue.nodes
        return (not pinned or pinned == node) and (nodes is None or node in nodes)

    def suits(self, gpu: Gpu) -> bool:
        return self.suits_model(gpu.model)

    def suits_model(self, model: str) -> bool:
        return matches(self.needs.models, model) and matches(self.queue.models, model)


def candidates(terms: Terms, room: Room, bar: Bar | None) -> list[Card]:
    """Cards that it could have now, the best first."""
    needs = terms.needs
    kept = bar.uuids if bar is not None else ()
    cards = [
        card
        for uuid, card in room.cards.items()
        if uuid not in kept and terms.suits(card.gpu) and _is_open(terms, card)
    ]
    if needs.mode == "shared":
        sign = 1 if terms.queue.rank == "pack" else -1
        cards.sort(key=lambda card: (sign * card.free_mib, card.gpu.index))
    elif needs.mode == "reuse":
        cards.sort(key=lambda card: (-card.free_mib, len(card.holders), card.gpu.index))
    return cards


def allocate(terms: Terms, room: Room, bar: Bar | None) -> Allocation | None:
    """What it would hold of this node, if it fits there now."""
    needs = terms.needs
    cpus, memory = room.cpus_free, room.memory_free_mib
    if bar is not None:
        cpus, memory = min(cpus, bar.cpus), min(memory, bar.memory_mib)
    if needs.cpus > cpus or needs.memory_mib > memory:
        return None
    if not needs.gpus:
        return Allocation(node=room.node.name, cpus=needs.cpus, memory_mib=needs.memory_mib)
    chosen = _choose(needs, candidates(terms, room, bar))
    if chosen is None:
        return None
    exclusive = needs.mode == "exclusive"
    return Allocation(
        node=room.node.name,
        gpus=tuple(
            HeldGpu(card.gpu.index, card.gpu.uuid, card.free_slot if exclusive else 0)
            for card in chosen
        ),
        cpus=needs.cpus,
        memory_mib=needs.memory_mib,
        gpu_memory_mib=needs.gpu_memory_mib,
    )


def free_for(terms: Terms, room: Room, bar: Bar | None) -> int:
    """How many cards it could have here: what nodes are ranked by."""
    if terms.needs.gpus:
        return len(candidates(terms, room, bar))
    kept = bar.uuids if bar is not None else ()
    return sum(card.is_free and uuid not in kept for uuid, card in room.cards.items())


def why_not(terms: Terms, room: Room, bar: Bar | None) -> list[Reason]:
    """Everything that stands in its way on this node; empty = it fits."""
    name = room.node.name
    if not room.up:
        return [Reason("node_down", {"node": name})]
    if room.drained:
        return [Reason("node_drained", {"node": name, "why": room.drained})]
    needs = terms.needs
    reasons: list[Reason] = []
    if needs.gpus and _choose(needs, candidates(terms, room, bar)) is None:
        reasons.append(_gpu_reason(terms, room, bar))
    cpus, memory = room.cpus_free, room.memory_free_mib
    if bar is not None:
        cpus, memory = min(cpus, bar.cpus), min(memory, bar.memory_mib)
    if needs.cpus > cpus:
        values = {"node": name, "need": needs.cpus, "free": max(cpus, 0)}
        reasons.append(Reason("cpus_busy", values))
    if needs.memory_mib > memory:
        values = {"node": name, "need": needs.memory_mib, "free": max(memory, 0)}
        reasons.append(Reason("memory_busy", values))
    return reasons


def never_on(terms: Terms, node: Node) -> Reason | None:
    """Why this node could not run it even when empty."""
    if not terms.admits(node.name):
        return Reason("not_in_queue", {"queue": terms.queue.name, "node": node.name})
    return _lacks_cards(terms, node) or _lacks_host(terms.needs, node)


def _lacks_cards(terms: Terms, node: Node) -> Reason | None:
    needs = terms.needs
    if not needs.gpus:
        return None
    by_index = {gpu.index: gpu for gpu in node.gpus}
    missing = [index for index in needs.gpu_ids if index not in by_index]
    if missing:
        have = listed(sorted(by_index))
        return Reason("no_such_gpu", {"node": node.name, "gpu": missing[0], "have": have})
    forced = [by_index[index] for index in needs.gpu_ids]
    suited = [gpu for gpu in node.gpus if terms.suits(gpu)]
    unsuited = [gpu for gpu in forced if not terms.suits(gpu)] or (
        [] if suited else list(node.gpus)
    )
    if unsuited:
        models = listed(sorted({gpu.model for gpu in unsuited}))
        return Reason("no_such_model", {"models": listed(needs.models), "have": models})
    if needs.gpus > len(suited):
        values = {"node": node.name, "need": needs.gpus, "have": len(suited)}
        return Reason("too_many_gpus", values)
    large = sorted((gpu.memory_mib for gpu in suited), reverse=True)
    most = min([large[needs.gpus - 1], *(gpu.memory_mib for gpu in forced)])
    if needs.mode == "shared" and needs.gpu_memory_mib > most:
        values = {"node": node.name, "need": needs.gpu_memory_mib, "have": most}
        return Reason("too_much_gpu_memory", values)
    return None


def _lacks_host(needs: Needs, node: Node) -> Reason | None:
    if needs.cpus > node.cpus:
        values = {"node": node.name, "need": needs.cpus, "have": node.cpus}
        return Reason("too_many_cpus", values)
    if needs.memory_mib > node.memory_mib:
        values = {"node": node.name, "need": needs.memory_mib, "have": node.memory_mib}
        return Reason("too_much_memory", values)
    return None


_NEAREST = {"too_many_gpus": 0, "too_much_gpu_memory": 1, "too_many_cpus": 2, "too_much_memory": 3}


def never_fits(needs: Needs, rooms: Mapping[str, Room], queue: Queue) -> Never | None:
    """Why no node that we know could ever run it; None = one could, or we know none.

    The first reason is about the node that comes nearest: what it has is the nearest request.
    """
    terms = Terms(needs, "", queue)
    if not rooms:
        return None
    if needs.node and needs.node not in rooms:
        unknown: dict[str, object] = {"node": needs.node, "have": listed(sorted(rooms))}
        return Never((Reason("no_such_node", unknown),))
    able, reasons = 0, []
    for name in sorted(rooms):
        reason = never_on(terms, rooms[name].node)
        if reason is None:
            able += 1
            if able == needs.nodes:
                return None
        elif not needs.node or needs.node == name:
            reasons.append(reason)
    if able:
        return Never((Reason("too_many_nodes", {"need": needs.nodes, "have": able}),))
    models = {gpu.model for room in rooms.values() for gpu in room.node.gpus}
    if reasons and all(reason.code == "no_such_model" for reason in reasons):
        asked: dict[str, object] = {"models": listed(needs.models), "have": listed(sorted(models))}
        return Never((Reason("no_such_model", asked),))
    return Never(tuple(sorted(reasons, key=_nearness)))


def listed(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values)


def _is_open(terms: Terms, card: Card) -> bool:
    needs = terms.needs
    if needs.mode == "exclusive":
        return card.is_free
    if 100 - card.load.utilisation < needs.gpu_free_percent:
        return False
    if needs.mode == "shared":
        return not card.is_exclusive and card.free_mib >= needs.gpu_memory_mib
    return card.is_open_to(terms.owner, any_owner=terms.reuse_any)


def _choose(needs: Needs, cards: list[Card]) -> list[Card] | None:
    """The forced cards, then the best ones; None when there are not enough."""
    if len(cards) < needs.gpus:
        return None
    if not needs.gpu_ids:
        return cards[: needs.gpus]
    by_index = {card.gpu.index: card for card in cards}
    if any(index not in by_index for index in needs.gpu_ids):
        return None
    forced = [by_index[index] for index in needs.gpu_ids]
    others = [card for card in cards if card.gpu.index not in needs.gpu_ids]
    return forced + others[: needs.gpus - len(forced)]


def _gpu_reason(terms: Terms, room: Room, bar: Bar | None) -> Reason:
    needs = terms.needs
    free = candidates(terms, room, bar)
    suited = [card for card in room.cards.values() if terms.suits(card.gpu)]
    values: dict[str, object] = {
        "node": room.node.name, "need": needs.gpus, "free": len(free), "have": len(suited),
    }  # fmt: skip
    open_to_it = {card.gpu.index for card in free}
    missing = [index for index in needs.gpu_ids if index not in open_to_it]
    if missing:
        return Reason("gpu_ids_busy", values | {"gpus": listed(missing)})
    if needs.mode == "reuse":
        return Reason("reuse_blocked", values)
    if needs.mode == "shared":
        return _shared_reason(terms, room, suited)
    foreign = [card.gpu.index for card in suited if card.load.foreign]
    if foreign:
        return Reason("gpus_foreign", values | {"gpus": listed(foreign)})
    return Reason("gpus_busy", values)


def _shared_reason(terms: Terms, room: Room, suited: list[Card]) -> Reason:
    """Which of the two it lacks, and how much the best cards have."""
    needs, name = terms.needs, room.node.name
    free = sorted((0 if card.is_exclusive else card.free_mib for card in suited), reverse=True)
    best = max(0, free[needs.gpus - 1]) if len(free) >= needs.gpus else 0
    if best < needs.gpu_memory_mib:
        values = {"node": name, "need": needs.gpu_memory_mib, "free": best}
        return Reason("gpu_memory_busy", values)
    idle = sorted((100 - card.load.utilisation for card in suited), reverse=True)
    values = {"node": name, "need": needs.gpu_free_percent, "free": idle[needs.gpus - 1]}
    return Reason("gpu_utilisation", values)


def _nearness(reason: Reason) -> tuple[int, int]:
    have = reason.values.get("have")
    return _NEAREST.get(reason.code, 9), -have if isinstance(have, int) else 0
