"""Small builders for the scheduler's tests: nodes, waiting tasks, holdings, policies, views.

A test says only what it is about; everything else has a plain default. `carry_out` does to a view
what flow does with a plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from stoker.domain.indices import Indices
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.node import Allocation, Gpu, HeldGpu, Node
from stoker.domain.queue import Queue
from stoker.domain.sweep import array_of
from stoker.scheduler.line import Waiting, waiting_of
from stoker.scheduler.needs import Needs
from stoker.scheduler.plan import Placement, Plan
from stoker.scheduler.policy import Policy
from stoker.scheduler.room import CardLoad, Holding
from stoker.scheduler.view import ScanningView, View

from .builders import NOON, a_spec

CARD_MIB = 24_000


def a_node(
    name: str = "node-a",
    gpus: int = 4,
    *,
    models: Sequence[str] = (),
    card_mib: int = CARD_MIB,
    slots: int = 1,
    cpus: int = 16,
    memory_mib: int = 64_000,
) -> Node:
    """A node; `models` says the card's models one by one and then also how many there are."""
    named = tuple(models) or ("Test GPU",) * gpus
    cards = tuple(
        Gpu(index, f"{name}-gpu-{index}", model, card_mib, slots=slots)
        for index, model in enumerate(named)
    )
    return Node(name=name, cpus=cpus, memory_mib=memory_mib, gpus=cards)


def waits(
    id: int,
    owner: str = "ana",
    *,
    element: int = PLAIN,
    position: int | None = None,
    version: int = 1,
    since: datetime = NOON,
    not_before: datetime | None = None,
    anyway: bool = False,
    folded: Indices | None = None,
    **spec: Any,
) -> Waiting:
    """A task in line; an array's row when `array` is given and no element."""
    if folded is None and element == PLAIN and (array := array_of(a_spec(**spec))):
        folded = array.indices
    return waiting_of(
        TaskKey(id, element),
        owner,
        a_spec(**spec),
        position=id if position is None else position,
        version=version,
        since=since,
        not_before=not_before,
        anyway=anyway,
        folded=folded,
    )


def held(node: str, *gpus: int, slot: int = 0, **amounts: int) -> Allocation:
    cards = tuple(HeldGpu(index, f"{node}-gpu-{index}", slot) for index in gpus)
    return Allocation(node=node, gpus=cards, **amounts)


def holds(
    attempt: str,
    *allocations: Allocation,
    owner: str = "zoe",
    id: int = 900,
    element: int = PLAIN,
    array: int = 0,
    queue: str = "default",
    since: datetime = NOON,
    limit_s: int | None = None,
    **needs: Any,
) -> Holding:
    """An attempt that runs; its needs follow from what it holds, except for `needs`."""
    first = allocations[0]
    needs = {
        "gpus": len(first.gpus), "cpus": first.cpus, "memory_mib": first.memory_mib,
        "gpu_memory_mib": first.gpu_memory_mib, "nodes": len(allocations), **needs,
    }  # fmt: skip
    return Holding(
        attempt, TaskKey(id, element), owner, queue, Needs(**needs), allocations, since, limit_s,
        array,
    )  # fmt: skip


def a_load(card: str, **measured: Any) -> CardLoad:
    """`card` is "node-a-gpu-0"; foreign processes as a tuple of their descriptions."""
    return CardLoad(card, **measured)


def a_policy(*queues: Queue, **settings: Any) -> Policy:
    named = {queue.name: queue for queue in queues}
    return Policy(queues={"default": Queue(name="default"), **named}, **settings)


def a_view(
    *things: Node | Waiting | Holding, policy: Policy | None = None, scanning: bool = False
) -> View | ScanningView:
    """A view that was told these, in this order."""
    view = (ScanningView if scanning else View)(policy or Policy())
    for thing in things:
        if isinstance(thing, Node):
            view.node_up(thing)
        elif isinstance(thing, Waiting):
            view.enqueue(thing)
        else:
            view.take(thing)
    return view


def holding_of(placement: Placement, attempt: str, now: datetime) -> Holding:
    sign = placement.sign
    return Holding(
        attempt, placement.key, sign.owner, sign.queue, sign.needs, placement.allocations, now,
        sign.limit_s, sign.array,
    )  # fmt: skip


def leave_line(view: View | ScanningView, key: TaskKey) -> None:
    """A placed task waits no longer; of an array only this element."""
    waiting = view.waiting(key)
    if waiting is not None and waiting.key != key:
        view.unfold(key)
    else:
        view.dequeue(key)


def carry_out(view: View | ScanningView, plan: Plan, now: datetime) -> None:
    """What flow does: those placed hold their cards, the reservations stand."""
    for placement in plan.placements:
        leave_line(view, placement.key)
        view.take(holding_of(placement, f"attempt-{placement.key}", now))
    view.reserve(plan.reservations)


def cards(placements: Iterable[Placement]) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """What a plan does, briefly: key to its nodes and card indices."""
    return {
        str(placement.key): [
            (allocation.node, tuple(gpu.index for gpu in allocation.gpus))
            for allocation in placement.allocations
        ]
        for placement in placements
    }
