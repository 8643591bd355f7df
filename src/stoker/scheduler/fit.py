"""Does a task fit? Three answers: it fits here, it waits (why), it never fits (why).

The same code plans, explains a wait and refuses a submit, so that they cannot disagree. NeverFits
looks at what nodes have, whether or not they are up; an unknown fleet refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from stoker.domain.node import Allocation, Gpu, HeldGpu, Node

from .view import Needs, Room


class Reason(Struct, frozen=True):
    """Why not: a code for `text/` and its values."""

    code: str
    values: dict[str, object]


class Fits(Struct, frozen=True):
    allocation: Allocation


class Waits(Struct, frozen=True):
    reasons: tuple[Reason, ...]


class Never(Struct, frozen=True):
    reasons: tuple[Reason, ...]


def fit_node(needs: Needs, room: Room) -> Fits | Waits:
    """Whether `needs` fit into what is free of one node now."""
    name = room.node.name
    if not room.up:
        return Waits((Reason("node_down", {"node": name}),))
    if room.drained:
        return Waits((Reason("node_drained", {"node": name, "why": room.drained}),))
    reasons: list[Reason] = []
    free = room.free_gpus()
    chosen = _choose(needs, free)
    if chosen is None:
        reasons.append(_gpu_reason(needs, room, free))
    cpus = room.node.cpus - room.cpus_held
    if needs.cpus > cpus:
        reasons.append(
            Reason("cpus_busy", {"node": name, "need": needs.cpus, "free": max(cpus, 0)})
        )
    memory = room.node.memory_mib - room.memory_held_mib
    if needs.memory_mib > memory:
        reasons.append(
            Reason("memory_busy", {"node": name, "need": needs.memory_mib, "free": max(memory, 0)})
        )
    if chosen is None or reasons:
        return Waits(tuple(reasons))
    return Fits(
        Allocation(
            node=name,
            gpus=tuple(HeldGpu(gpu.index, gpu.uuid) for gpu in chosen),
            cpus=needs.cpus,
            memory_mib=needs.memory_mib,
        )
    )


def fit(needs: Needs, rooms: Iterable[Room]) -> Fits | Waits | Never:
    """The first node that has room; else why none has."""
    reasons: list[Reason] = []
    impossible: list[Reason] = []
    seen = False
    for room in rooms:
        seen = True
        never = never_on(needs, room.node)
        if never is not None:
            impossible.append(never)
            continue
        answer = fit_node(needs, room)
        if isinstance(answer, Fits):
            return answer
        reasons.extend(answer.reasons)
    if not seen:
        return Waits((Reason("no_nodes", {}),))
    return Waits(tuple(reasons)) if reasons else Never(tuple(impossible))


def never_on(needs: Needs, node: Node) -> Reason | None:
    """Why this node could not run it even when empty."""
    have = {gpu.index for gpu in node.gpus}
    missing = [index for index in needs.gpu_ids if index not in have]
    if missing:
        return Reason(
            "no_such_gpu", {"node": node.name, "gpu": missing[0], "have": _listed(sorted(have))}
        )
    if needs.gpus > len(node.gpus):
        return Reason("too_many_gpus", {"node": node.name, "need": needs.gpus, "have": len(have)})
    if needs.cpus > node.cpus:
        return Reason("too_many_cpus", {"node": node.name, "need": needs.cpus, "have": node.cpus})
    if needs.memory_mib > node.memory_mib:
        return Reason(
            "too_much_memory",
            {"node": node.name, "need": needs.memory_mib, "have": node.memory_mib},
        )
    return None


def _choose(needs: Needs, free: list[Gpu]) -> list[Gpu] | None:
    """The forced cards, then the lowest free ones; None when there are not enough."""
    by_index = {gpu.index: gpu for gpu in free}
    if len(free) < needs.gpus or any(index not in by_index for index in needs.gpu_ids):
        return None
    forced = [by_index[index] for index in needs.gpu_ids]
    others = [gpu for gpu in free if gpu.index not in needs.gpu_ids]
    return forced + others[: needs.gpus - len(forced)]


def _gpu_reason(needs: Needs, room: Room, free: list[Gpu]) -> Reason:
    foreign = [gpu.index for gpu in room.node.gpus if room.foreign.get(gpu.uuid)]
    values: dict[str, object] = {
        "node": room.node.name, "need": needs.gpus, "free": len(free), "have": len(room.node.gpus),
    }  # fmt: skip
    busy = [index for index in needs.gpu_ids if index not in {gpu.index for gpu in free}]
    if busy:
        return Reason("gpu_ids_busy", values | {"gpus": _listed(busy)})
    if foreign:
        return Reason("gpus_foreign", values | {"gpus": _listed(foreign)})
    return Reason("gpus_busy", values)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(str(number) for number in numbers)
