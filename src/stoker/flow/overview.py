"""What people look at that is not in the records: nodes, why a task waits, health."""

from __future__ import annotations

from stoker.domain.lifecycle import LIVE, State, Task
from stoker.domain.node import Gpu
from stoker.engines.base import CardUse
from stoker.scheduler.fit import Fits, Reason, fit
from stoker.scheduler.view import Room, needs_of
from stoker.wire import CardView, Health, NodeView

from .context import Flow


def nodes(flow: Flow) -> list[NodeView]:
    """Every node that has ever introduced itself since the start, by name."""
    return [_node(flow, name, flow.view.rooms[name]) for name in sorted(flow.view.rooms)]


def waits(flow: Flow, task: Task) -> list[Reason]:
    """Why a waiting task does not run; empty for one that does not wait."""
    if task.state is State.HELD:
        return [Reason("held", {})]
    if task.state is not State.QUEUED:
        return []
    answer = fit(needs_of(task.spec), flow.view.rooms.values())
    if isinstance(answer, Fits):
        return [Reason("next_moment", {})]
    return list(answer.reasons)


def unconfirmed(flow: Flow, task: Task) -> bool:
    """Its node is out of reach: what we show is what was last known."""
    if task.state not in LIVE or task.node is None:
        return False
    room = flow.view.rooms.get(task.node)
    return room is None or not room.up


def health(flow: Flow) -> Health:
    problems = []
    if flow.store_problem:
        problems.append(f"store: {flow.store_problem}")
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
    )


def _node(flow: Flow, name: str, room: Room) -> NodeView:
    state = flow.nodes[name]
    sample = state.sample
    use = {card.uuid: card for card in sample.cards} if sample else {}
    return NodeView(
        name=name,
        up=room.up,
        since=state.since,
        why=room.drained or state.why,
        cpus=room.node.cpus,
        cpus_held=room.cpus_held,
        memory_mib=room.node.memory_mib,
        memory_held_mib=room.memory_held_mib,
        memory_available_mib=sample.memory_available_mib if sample else None,
        load1=sample.load1 if sample else None,
        disk_free_mib=sample.disk_free_mib if sample else None,
        limits=room.node.limits,
        gpu_error=room.node.gpu_error,
        cards=tuple(_card(flow, room, gpu, use.get(gpu.uuid)) for gpu in room.node.gpus),
    )


def _card(flow: Flow, room: Room, gpu: Gpu, use: CardUse | None) -> CardView:
    live = flow.live.get(room.held.get(gpu.uuid, ""))
    return CardView(
        gpu=gpu,
        task=str(live.task.key) if live else None,
        memory_used_mib=use.memory_used_mib if use else None,
        utilisation=use.utilisation if use else None,
        temperature_c=use.temperature_c if use else None,
        power_w=use.power_w if use else None,
        foreign=use.foreign if use else (),
    )
