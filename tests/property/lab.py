"""One history, told three times: to the indexed view, to the scanning view and to the reference.

`Lab.check` compares what the three would do now. Every event goes through here, so that a test
that draws events need not know who has to hear of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from msgspec import structs
from typing_extensions import override

from stoker.domain.indices import Indices
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.node import Node
from stoker.domain.task import TaskSpec
from stoker.scheduler.line import waiting_of
from stoker.scheduler.plan import Plan, plan
from stoker.scheduler.policy import USE_UNIT, Policy
from stoker.scheduler.room import CardLoad, Holding
from stoker.scheduler.scan import ScanningView
from stoker.scheduler.share import share
from stoker.scheduler.view import View
from tests.helpers.builders import NOON, a_spec
from tests.helpers.scheduling import holding_of

from .reference import Decision, Placed, decide
from .world import (
    Ask,
    Card,
    Entry,
    Key,
    Line,
    Load,
    Machine,
    Part,
    Promise,
    Rules,
    Run,
    World,
)


class Lab:
    """Who waits and what is free, three times over, and a clock."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.now = NOON
        self.view = View(policy or Policy())
        self.scanning = ScanningView(policy or Policy())
        self.world = World(rules=rules_of(policy or Policy()))
        self.specs: dict[TaskKey, tuple[str, TaskSpec]] = {}
        """Of everything that waits: owner and spec."""
        self.seen: set[TaskKey] = set()
        """Everything that ever waited."""
        self.nodes: dict[str, Node] = {}
        """As they introduced themselves."""
        self.attempts = 0
        self.story = [f"policy {policy or Policy()}"]
        """What happened, for whoever reads a failing example."""
        self.passes(0)

    # ---- events

    def set_policy(self, policy: Policy) -> None:
        self.story.append(f"policy {policy}")
        self._tell(lambda view: view.set_policy(policy))
        self.world.rules = rules_of(policy)
        for name, node in self.nodes.items():
            machine = self.world.machines[name]
            self.world.machines[name] = replace(machine, cards=cards_of(node, policy))

    def enqueue(self, key: TaskKey, owner: str, spec: TaskSpec, **facts: Any) -> None:
        """`facts`: position, and what else `waiting_of` wants to know."""
        facts = {"version": 1, "since": self.now, **facts}
        self.story.append(f"{key} of {owner} waits: {_said(spec)} {facts}")
        self._tell(lambda view: view.enqueue(waiting_of(key, owner, spec, **facts)))
        self.world.entries[key] = entry_of(key, owner, spec, **facts)
        self.specs[key] = (owner, spec)
        self.seen.add(key)
        for who, _ in self.world.entries[key].after:
            if who in self.world.ended:
                self._settled(TaskKey(*who), self.world.ended[who])

    def again(self, key: TaskKey, **changes: Any) -> None:
        """Its entry has changed: edited, moved, tried in vain."""
        entry = self.world.entries[key]
        owner, spec = self.specs[key]
        owner, spec = changes.pop("owner", owner), changes.pop("spec", spec)
        facts = {
            "position": entry.position, "version": entry.version + 1, "since": entry.since,
            "folded": None if entry.folded is None else Indices.only(*entry.folded), **changes,
        }  # fmt: skip
        self.enqueue(key, owner, spec, **facts)

    def dequeue(self, key: TaskKey) -> None:
        """It waits no longer, so nothing is kept for it."""
        self.story.append(f"{key} leaves the line")
        self._tell(lambda view: view.dequeue(key))
        self.world.entries.pop(key, None)
        self.specs.pop(key, None)
        promises = self.world.promises.items()
        self.world.promises = {queue: made for queue, made in promises if made.key != key}

    def unfold(self, key: TaskKey) -> None:
        self.story.append(f"{key} unfolded")
        self._tell(lambda view: view.unfold(key))
        array = self.world.entries[key.id, PLAIN]
        left = tuple(index for index in array.folded or () if index != key.element)
        self.world.entries[array.key] = replace(array, folded=left)

    def fold(self, key: TaskKey) -> None:
        self.story.append(f"{key} folded")
        self._tell(lambda view: view.fold(key))
        array = self.world.entries[key.id, PLAIN]
        self.world.entries[array.key] = replace(array, folded=(*(array.folded or ()), key.element))

    def settle(self, key: TaskKey, outcome: str) -> None:
        """Recorded for ever: a task that comes later may wait for it too."""
        self.story.append(f"{key} {outcome}")
        self._settled(key, outcome)
        self.world.ended[key] = outcome

    def take(self, holding: Holding) -> None:
        self.story.append(f"{holding.attempt} = {holding.key} holds {_briefly(holding)}")
        self._tell(lambda view: view.take(holding))
        self.world.runs[holding.attempt] = run_of(holding)

    def started(self, attempt: str) -> None:
        self.story.append(f"{attempt} started")
        self._tell(lambda view: view.started(attempt, self.now))
        self.world.runs[attempt] = replace(self.world.runs[attempt], since=self.now)

    def extended(self, attempt: str, limit_s: int | None) -> None:
        self.story.append(f"{attempt} may run for {limit_s}")
        self._tell(lambda view: view.extended(attempt, limit_s))
        self.world.runs[attempt] = replace(self.world.runs[attempt], limit=limit_s)

    def foreign(self, owner: str, cost: Fraction) -> None:
        """Programs of theirs that are no task."""
        self.story.append(f"{owner} uses {cost} cards outside")
        self._tell(lambda view: view.set_foreign(owner, cost))
        self.world.foreign[owner] = cost

    def free(self, attempt: str) -> None:
        self.story.append(f"{attempt} ended")
        self._tell(lambda view: view.free(attempt))
        del self.world.runs[attempt]

    def node_up(self, node: Node) -> None:
        self.story.append(f"{node.name} up, {len(node.gpus)} cards")
        self._tell(lambda view: view.node_up(node))
        self.nodes[node.name] = node
        cards = cards_of(node, self.view.policy)
        before = self.world.machines.get(node.name, Machine(node.name, 0, 0, ()))
        for uuid in {card.uuid for card in before.cards} - {card.uuid for card in cards}:
            self.world.loads.pop(uuid, None)  # nothing is known of a card that was away
        self.world.machines[node.name] = Machine(node.name, node.cpus, node.memory_mib, cards)
        self.world.down.discard(node.name)

    def node_down(self, name: str) -> None:
        self.story.append(f"{name} down")
        self._tell(lambda view: view.node_down(name))
        self.world.down.add(name)

    def drain(self, name: str, why: str) -> None:
        self.story.append(f"{name} drained: {why!r}")
        self._tell(lambda view: view.drain(name, why))
        (self.world.drained.add if why else self.world.drained.discard)(name)

    def sample(self, name: str, loads: Sequence[CardLoad]) -> None:
        self.story.append(f"{name} measured: {loads}")
        self._tell(lambda view: view.sample(name, loads))
        known = {card.uuid for card in self.world.machines[name].cards}
        for load in (load for load in loads if load.uuid in known):
            self.world.loads[load.uuid] = Load(
                load.utilisation, bool(load.foreign), load.foreign_mib, load.attempts
            )

    def passes(self, seconds: int) -> None:
        self.story.append(f"{seconds} s pass")
        self.now += timedelta(seconds=seconds)
        self._tell(lambda view: view.tick(self.now))

    def reserve(self, planned: Plan) -> None:
        self.story.append(f"kept: {planned.reservations}")
        self._tell(lambda view: view.reserve(planned.reservations))
        self.world.promises = promises_of(planned)

    def carry_out(self, planned: Plan, count: int | None = None, *, reserve: bool = True) -> None:
        """Some of what was planned becomes true, the first ones; the reservations, if so."""
        for placement in planned.placements[:count]:
            if self.world.entries.get(placement.key) is None:
                self.unfold(placement.key)
            else:
                self.dequeue(placement.key)
            self.attempts += 1
            self.take(holding_of(placement, f"a{self.attempts:04}", self.now))
        if reserve:
            self.reserve(planned)

    # ---- what follows

    def on_cards(self, name: str) -> dict[str, list[str]]:
        """Attempts by card of a node."""
        on: dict[str, list[str]] = {}
        for run in self.world.runs.values():
            for uuid in run.part(name).uuids:
                on.setdefault(uuid, []).append(run.attempt)
        return on

    def plan(self) -> Plan:
        return plan(self.view, self.now)

    def decide(self) -> Decision:
        assert self.view.use == self.scanning.use
        self.world.use = {owner: Fraction(use, USE_UNIT) for owner, use in self.view.use.items()}
        return decide(self.world, self.now)

    def check(self) -> Plan:
        """All three agree; planning again says the same and has changed nothing."""
        indexed, scanned = self.plan(), plan(self.scanning, self.now)
        assert indexed == scanned, f"indexed: {indexed}\nscanned: {scanned}"
        decided, placed, promises = self.decide(), placed_by(indexed), promises_of(indexed)
        assert placed == decided.placed, f"planned: {placed}\nexpected: {decided.placed}"
        assert promises == decided.promises, f"kept: {promises}\nexpected: {decided.promises}"
        assert plan(self.view, self.now) == indexed, "planning has changed the view"
        assert dict(self.view.taken()) == dict(self.scanning.taken())
        for owner in ("nobody", *self.view.owners()):
            assert share(self.view, owner) == share(self.scanning, owner)
        return indexed

    def copy(self) -> Lab:
        return copy.deepcopy(self)

    @override
    def __repr__(self) -> str:
        return "\n  ".join(["Lab:", *self.story])

    def _settled(self, key: TaskKey, outcome: str) -> None:
        self._tell(lambda view: view.settle(key, outcome))

    def _tell(self, say: Callable[[View | ScanningView], object]) -> None:
        said = [say(view) for view in (self.view, self.scanning)]
        assert said[0] == said[1]


def _said(spec: TaskSpec) -> dict[str, Any]:
    """What of a spec is not as usual."""
    usual, said = structs.asdict(a_spec()), structs.asdict(spec)
    return {name: value for name, value in said.items() if value != usual[name]}


def _briefly(holding: Holding) -> str:
    return ", ".join(f"{part.node}:{[g.index for g in part.gpus]}" for part in holding.allocations)


# ---- from the scheduler's values to plain ones


def placed_by(planned: Plan) -> tuple[Placed, ...]:
    return tuple(
        Placed(placement.key, placement.version, parts_of(placement.allocations))
        for placement in planned.placements
    )


def promises_of(planned: Plan) -> dict[str, Promise]:
    return {
        queue: Promise(
            key=made.key,
            cards=tuple(sorted((kept.node, tuple(sorted(kept.uuids))) for kept in made.kept)),
            start=made.start,
            since=made.since,
        )
        for queue, made in planned.reservations.items()
    }


def parts_of(allocations: Sequence[Any]) -> tuple[Part, ...]:
    return tuple(
        Part(
            node=allocation.node,
            cards=tuple((gpu.uuid, gpu.slot) for gpu in allocation.gpus),
            cpus=allocation.cpus,
            memory=allocation.memory_mib,
            gpu_memory=allocation.gpu_memory_mib,
        )
        for allocation in allocations
    )


def run_of(holding: Holding) -> Run:
    return Run(
        attempt=holding.attempt,
        key=holding.key,
        owner=holding.owner,
        queue=holding.queue,
        mode=holding.needs.mode,
        parts=parts_of(holding.allocations),
        since=holding.since,
        limit=holding.limit_s,
        array=holding.array,
    )


def cards_of(node: Node, policy: Policy) -> tuple[Card, ...]:
    """A card that has no slots of its own has as many as the lab says."""
    return tuple(
        Card(g.index, g.uuid, g.model, g.memory_mib, g.slots if g.slots > 1 else policy.slots)
        for g in node.gpus
    )


def rules_of(policy: Policy) -> Rules:
    return Rules(
        order=policy.order,
        weights=policy.weights,
        lines={
            name: Line(
                priority=queue.priority,
                nodes=queue.nodes,
                models=queue.models,
                most_cards=queue.most_cards,
                most_cards_each=queue.most_cards_each,
                spread=queue.rank == "spread",
            )
            for name, queue in policy.queues.items()
        },
        quotas=policy.quotas,
        teams=policy.teams,
        team_quotas=policy.team_quotas,
        backfill=policy.backfill,
        keep_s=policy.keep_s,
        patient_s=policy.patient_s,
        reuse_any=policy.reuse_any,
    )


def entry_of(key: TaskKey, owner: str, spec: TaskSpec, **facts: Any) -> Entry:
    """From the spec itself, without the scheduler's own reading of it."""
    times = [facts.get("not_before")]
    times.append(datetime.fromisoformat(spec.start_after) if spec.start_after else None)
    folded = facts.get("folded")
    indices, _, cap = spec.array.partition("%")
    return Entry(
        key=key,
        version=facts["version"],
        owner=owner,
        queue=spec.queue or "default",
        urgent=spec.urgent,
        priority=spec.priority,
        ask=ask_of(spec),
        limit=spec.time_limit_s,
        position=facts["position"],
        since=facts["since"],
        after=() if facts.get("anyway") else tuple(_after(text) for text in spec.after),
        not_before=max((time for time in times if time), default=None),
        array=key.id if indices or spec.sweep else 0,
        cap=int(cap) if cap else None,
        folded=None if folded is None else tuple(folded),
    )


def ask_of(spec: TaskSpec) -> Ask:
    return Ask(
        gpus=spec.gpus,
        ids=spec.gpu_ids,
        models=spec.gpu_model,
        mode=spec.mode,
        gpu_memory=spec.gpu_memory_mib or 0,
        free_percent=spec.gpu_free_percent or 0,
        cpus=int(spec.gpus == 0) if spec.cpus is None else spec.cpus,
        memory=spec.memory_mib or 0,
        nodes=spec.nodes,
        node=spec.node,
    )


def _after(text: str) -> tuple[Key, str]:
    task, _, when = text.partition(":")
    id, _, element = task.partition("_")
    return (int(id), int(element) if element else PLAIN), when or "any"
