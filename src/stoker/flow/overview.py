"""What people look at that is not in the records: nodes, why a task waits, arrays, health."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from stoker.domain.errors import UnknownTask
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import LIVE, WAITING, State, Task
from stoker.domain.node import Gpu
from stoker.domain.sweep import is_array
from stoker.engines.base import CardUse
from stoker.lab.queues import labels_of
from stoker.scheduler import explain as explaining
from stoker.scheduler.explain import Estimate, Explanation, Suggestion
from stoker.scheduler.fit import Reason
from stoker.scheduler.reserve import Reservation
from stoker.scheduler.room import Room
from stoker.wire import ArrayCounts, CardView, Health, NodeView

from .arrays import find
from .context import Flow, Restoring
from .follow import waiting_for
from .pause import while_paused

OUTCOMES = ("succeeded", "failed", "cancelled", "timed_out", "lost")


def nodes(flow: Flow) -> list[NodeView]:
    """Every node that has ever introduced itself since the start, by name."""
    kept = {
        uuid: held
        for held in flow.view.reservations.values()
        for part in held.kept
        for uuid in part.uuids
    }
    return [_node(flow, name, flow.view.rooms[name], kept) for name in sorted(flow.view.rooms)]


async def task(flow: Flow, key: TaskKey) -> Task | None:
    """A task; an element that nothing has happened to yet as one of version 0."""
    try:
        return (await find(flow, key)).task
    except UnknownTask:
        return None


def explain(flow: Flow, task: Task) -> Explanation:
    """Why a waiting task does not run; empty for one that does not wait."""
    if task.state not in WAITING:
        return Explanation(None, ())
    array = flow.arrays.get(task.id) if is_array(task.spec) else None
    held = task.state is State.HELD or (array is not None and array.state is State.HELD)
    entry = flow.view.waiting(task.key) or waiting_for(flow, task)
    if held:  # what became of the tasks it waits for is looked up when it is released
        entry = structs.replace(entry, after=())
    told = while_paused(flow, explaining.explain(flow.view, entry, flow.clock.now()))
    if flow.restoring is not None:
        told = _until_nodes_have_told(told, flow.restoring)
    if not held:
        return told
    doubted = task.key in flow.doubted or TaskKey(task.id) in flow.doubted
    return for_a_person(told, [Reason("attempt_in_doubt", {})] if doubted else (), "", held=True)


def _until_nodes_have_told(told: Explanation, state: Restoring) -> Explanation:
    """Nothing is placed meanwhile."""
    nodes = ", ".join(sorted(state.asked))
    others = [reason for reason in told.reasons if reason.code != "next_moment"]
    waits = Reason("restored", {"nodes": nodes, "made_at": state.made_at})
    return structs.replace(
        told, starts=None, reasons=(waits, *others), estimate=Estimate(None, waits)
    )


def for_a_person(
    told: Explanation, reasons: Sequence[Reason], suggestion: str, *, held: bool
) -> Explanation:
    """The same for one that does not start before a person does something."""
    if held:
        reasons, suggestion = [Reason("held", {}), *reasons], suggestion or "try_release"
    others = [reason for reason in told.reasons if reason.code != "next_moment"]
    return structs.replace(
        told,
        starts=None,
        reasons=(*reasons, *others),
        estimate=Estimate(None, Reason("estimate_person", {})),
        suggestions=(Suggestion(suggestion, {}, {}), *told.suggestions),
    )


def array_counts(flow: Flow, id: int) -> ArrayCounts | None:
    """How the elements of an array that has not ended stand; None: it is none of those."""
    state = flow.arrays.get(id)
    if state is None:
        return None
    live = sum(at in LIVE for at in state.open.values())
    ended = {name: state.outcomes.get(name, 0) for name in OUTCOMES}
    waiting = state.size - live - sum(ended.values())
    return ArrayCounts(size=state.size, waiting=waiting, live=live, **ended)


def unconfirmed(flow: Flow, task: Task) -> bool:
    """Its node is out of reach: what we show is what was last known."""
    if task.state not in LIVE or task.node is None:
        return False
    room = flow.view.rooms.get(task.node)
    return room is None or not room.up


def health(flow: Flow) -> Health:
    problems = []
    store_problem = flow.store_problem or flow.store.failing
    if store_problem:
        problems.append(f"store: {store_problem}")
    if flow.restoring is not None:
        nodes = ", ".join(sorted(flow.restoring.asked))
        problems.append(f"restored from a backup: nothing starts until {nodes} told what ran since")
    if flow.book.pause is not None:
        problems.append("scheduling is paused: nothing new starts, what runs goes on")
    strangers = sum(bool(cards) for _, cards in flow.strangers.values())
    if strangers:
        problems.append(f"attempts that the records do not know hold cards: {strangers}")
    if not flow.view.rooms:
        problems.append("no node has introduced itself yet")
    problems += [
        f"node {name} is out of reach: {flow.nodes[name].why}"
        for name, room in flow.view.rooms.items()
        if not room.up
    ]
    problems += [
        f"node {name} takes no new tasks: {room.drained}"
        for name, room in flow.view.rooms.items()
        if room.drained
    ]
    return Health(
        status="degraded" if problems else "ok",
        problems=tuple(problems),
        waiting=len(flow.view),
        live=len(flow.live),
        notices=(f"no root: everybody's tasks run as the account {flow.shared_account}",)
        if flow.shared_account
        else (),
    )


def _node(flow: Flow, name: str, room: Room, kept: dict[str, Reservation]) -> NodeView:
    state = flow.nodes[name]
    sample = state.sample
    use = {card.uuid: card for card in sample.cards} if sample else {}
    return NodeView(
        name=name,
        up=room.up,
        since=state.since,
        why=room.drained or state.why,
        drained=room.drained or None,
        labels=labels_of(flow.book, room.node.name),
        cpus=room.node.cpus,
        cpus_held=room.cpus_held,
        memory_mib=room.node.memory_mib,
        memory_held_mib=room.memory_held_mib,
        memory_available_mib=sample.memory_available_mib if sample else None,
        load1=sample.load1 if sample else None,
        disk_free_mib=sample.disk_free_mib if sample else None,
        limits=room.node.limits,
        gpu_error=room.node.gpu_error,
        cards=tuple(
            _card(room, gpu, use.get(gpu.uuid), kept.get(gpu.uuid)) for gpu in room.node.gpus
        ),
    )


def _card(room: Room, gpu: Gpu, use: CardUse | None, kept: Reservation | None) -> CardView:
    tasks = tuple(str(holding.key) for holding in room.cards[gpu.uuid].holders.values())
    return CardView(
        gpu=gpu,
        task=tasks[0] if tasks else None,
        tasks=tasks,
        busy=bool(tasks),
        kept_for=None if kept is None else str(kept.key),
        kept_since=None if kept is None else kept.since,
        memory_used_mib=use.memory_used_mib if use else None,
        utilisation=use.utilisation if use else None,
        temperature_c=use.temperature_c if use else None,
        power_w=use.power_w if use else None,
        foreign=use.foreign if use else (),
    )
