"""After every event of any history the indexed view, the scanning view and the reference agree."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from stoker.domain.indices import Indices
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.task import TaskSpec
from stoker.scheduler.plan import Plan
from stoker.scheduler.policy import Policy

from .lab import Lab
from .strategies import (
    ELEMENTS,
    HOUR,
    MINUTE,
    NODES,
    OTHER_NODES,
    SWEPT,
    TEAMS,
    arrays,
    loads,
    outcomes,
    owners,
    policies,
    rarely,
    soon,
    specs,
)


class Histories(RuleBasedStateMachine):
    """Everything that can happen to a lab, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.lab = Lab()
        self.last_id = 0
        self.planned: Plan | None = None
        self.held: dict[TaskKey, tuple[str, TaskSpec, dict[str, Any]]] = {}

    @initialize(policy=policies(), up=st.lists(st.sampled_from(NODES), unique_by=lambda n: n.name))
    def begin(self, policy: Policy, up: list[Any]) -> None:
        self.lab.set_policy(policy)
        for node in up:
            self.lab.node_up(node)

    @invariant()
    def all_agree(self) -> None:
        self.planned = self.lab.check()

    @invariant()
    def teams_are_counted(self) -> None:
        for team in TEAMS:
            assert self.lab.view.cards_of_team(team) == self.lab.scanning.cards_of_team(team)

    # ---- who waits

    @rule(owner=owners, spec=specs(), data=st.data())
    def submit(self, owner: str, spec: TaskSpec, data: st.DataObject) -> None:
        self.last_id += 1
        after: tuple[str, ...] = ()
        if self.last_id > 1 and data.draw(rarely(True, False)):
            other = data.draw(st.integers(1, self.last_id - 1))
            after = (f"{other}{data.draw(st.sampled_from([':ok', ':notok', '', ':any']))}",)
        at = data.draw(rarely(soon(self.lab.now), None).flatmap(_drawn))
        spec = structs.replace(spec, after=after, start_after=at.isoformat() if at else "")
        self.lab.enqueue(TaskKey(self.last_id), owner, spec, position=10 * self.last_id)

    @rule(owner=owners, spec=arrays())
    def submit_array(self, owner: str, spec: TaskSpec) -> None:
        self.last_id += 1
        folded = Indices.only(*(SWEPT if spec.sweep else ELEMENTS)[spec.array])
        self.lab.enqueue(
            TaskKey(self.last_id), owner, spec, position=10 * self.last_id, folded=folded
        )

    @precondition(lambda self: self.lab.specs)
    @rule(data=st.data(), spec=specs())
    def edit(self, data: st.DataObject, spec: TaskSpec) -> None:
        key = self._someone(data)
        old = self.lab.specs[key][1]
        same = {"array": old.array, "sweep": old.sweep, "after": old.after}
        self.lab.again(key, spec=structs.replace(spec, **same))

    @precondition(lambda self: self.lab.specs)
    @rule(data=st.data(), position=st.integers(-20, 200))
    def move(self, data: st.DataObject, position: int) -> None:
        self.lab.again(self._someone(data), position=position)

    @precondition(lambda self: self.lab.specs)
    @rule(data=st.data())
    def run_anyway(self, data: st.DataObject) -> None:
        self.lab.again(self._someone(data), anyway=True)

    @precondition(lambda self: self.lab.specs)
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        key = self._someone(data)
        entry = self.lab.world.entries[key]
        folded = None if entry.folded is None else Indices.only(*entry.folded)
        facts = {"position": entry.position, "since": entry.since, "folded": folded}
        self.held[key] = (*self.lab.specs[key], facts)
        self.lab.dequeue(key)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        owner, spec, facts = self.held.pop(key)
        self.lab.enqueue(key, owner, spec, version=7, **facts)

    @precondition(lambda self: self._arrays())
    @rule(data=st.data(), spec=specs())
    def edit_element(self, data: st.DataObject, spec: TaskSpec) -> None:
        """An element becomes a task of its own, in line beside its array."""
        array = data.draw(st.sampled_from(self._arrays()))
        entry = self.lab.world.entries[array]
        key = TaskKey(array.id, data.draw(st.sampled_from(entry.folded or ())))
        owner, old = self.lab.specs[array]
        self.lab.unfold(key)
        if not self.lab.world.entries[array].folded and data.draw(st.booleans()):
            self.lab.dequeue(array)
        spec = data.draw(st.sampled_from([old, spec]))
        spec = structs.replace(spec, array=old.array, sweep=old.sweep)
        self.lab.enqueue(key, owner, spec, position=entry.position, since=entry.since)

    @precondition(lambda self: self._arrays())
    @rule(data=st.data())
    def refused_record(self, data: st.DataObject) -> None:
        """An element was about to start, but its record was refused."""
        array = data.draw(st.sampled_from(self._arrays()))
        folded = self.lab.world.entries[array].folded or ()
        key = TaskKey(array.id, data.draw(st.sampled_from(folded)))
        self.lab.unfold(key)
        self.lab.check()
        self.lab.fold(key)

    @precondition(lambda self: self.last_id)
    @rule(data=st.data(), outcome=outcomes)
    def settle(self, data: st.DataObject, outcome: str) -> None:
        key = TaskKey(data.draw(st.integers(1, self.last_id)))
        if key not in self.lab.world.ended:
            self.lab.dequeue(key)
            self.held.pop(key, None)
            self.lab.settle(key, outcome)

    # ---- who runs

    @precondition(lambda self: self.planned and self.planned.placements)
    @rule(data=st.data(), reserve=st.booleans())
    def carry_out_some(self, data: st.DataObject, reserve: bool) -> None:
        assert self.planned is not None
        count = data.draw(st.integers(1, len(self.planned.placements)))
        self.lab.carry_out(self.planned, count, reserve=reserve)

    @precondition(lambda self: self.planned)
    @rule()
    def carry_out(self) -> None:
        assert self.planned is not None
        self.lab.carry_out(self.planned)

    @precondition(lambda self: self.lab.world.runs)
    @rule(data=st.data())
    def started(self, data: st.DataObject) -> None:
        self.lab.started(self._attempt(data))

    @precondition(lambda self: self.lab.world.runs)
    @rule(data=st.data(), limit_s=st.sampled_from([None, MINUTE, HOUR, 5 * HOUR]))
    def extended(self, data: st.DataObject, limit_s: int | None) -> None:
        """A person has given it another time limit."""
        self.lab.extended(self._attempt(data), limit_s)

    @precondition(lambda self: self.lab.world.runs)
    @rule(data=st.data(), outcome=outcomes)
    def finish(self, data: st.DataObject, outcome: str) -> None:
        attempt = self._attempt(data)
        key = TaskKey(*self.lab.world.runs[attempt].key)
        self.lab.free(attempt)
        if key not in self.lab.world.ended:
            self.lab.settle(key, outcome)

    @precondition(lambda self: self.lab.world.runs)
    @rule(data=st.data(), spec=specs())
    def requeue(self, data: st.DataObject, spec: TaskSpec) -> None:
        """It comes back to the line, tried again a little later."""
        attempt = self._attempt(data)
        run = self.lab.world.runs[attempt]
        key = TaskKey(*run.key)
        self.lab.free(attempt)
        if key in self.lab.specs or key in self.lab.world.ended or key.element != PLAIN:
            return
        later = data.draw(st.one_of(st.none(), soon(self.lab.now)))
        spec = structs.replace(spec, queue=run.queue)
        self.lab.enqueue(key, run.owner, spec, position=10 * key.id, version=4, not_before=later)

    # ---- nodes, samples, time, policy

    @rule(node=st.sampled_from(NODES))
    def node_up(self, node: Any) -> None:
        self.lab.node_up(node)

    @rule(node=st.sampled_from(OTHER_NODES))
    def node_up_changed(self, node: Any) -> None:
        if node.name in self.lab.world.machines:
            self.lab.node_up(node)

    @rule(node=st.sampled_from(NODES))
    def node_down(self, node: Any) -> None:
        if node.name in self.lab.world.machines:
            self.lab.node_down(node.name)

    @rule(node=st.sampled_from(NODES), why=st.sampled_from(["broken", ""]))
    def drain(self, node: Any, why: str) -> None:
        if node.name in self.lab.world.machines:
            self.lab.drain(node.name, why)

    @rule(data=st.data(), node=st.sampled_from(NODES))
    def sample(self, data: st.DataObject, node: Any) -> None:
        if node.name not in self.lab.world.machines:
            return
        self.lab.sample(node.name, data.draw(loads(node, self.lab.on_cards(node.name))))

    @rule(seconds=st.sampled_from([1, MINUTE, 10 * MINUTE, HOUR, 2 * HOUR, 24 * HOUR]))
    def time_passes(self, seconds: int) -> None:
        self.lab.passes(seconds)

    @rule(policy=policies())
    def policy(self, policy: Policy) -> None:
        self.lab.set_policy(policy)

    @rule(owner=owners, weight=st.sampled_from([-1, 0, 1, 3]))
    def weight(self, owner: str, weight: int) -> None:
        old = self.lab.view.policy
        self.lab.set_policy(structs.replace(old, weights={**old.weights, owner: weight}))

    @rule(
        owner=owners, cost=st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1), Fraction(5)])
    )
    def foreign(self, owner: str, cost: Fraction) -> None:
        """Programs of theirs use cards outside of any task."""
        self.lab.foreign(owner, cost)

    @rule(owner=owners, most=st.sampled_from([None, 0, 1, 3]))
    def quota(self, owner: str, most: int | None) -> None:
        old = self.lab.view.policy
        quotas = {who: cards for who, cards in old.quotas.items() if who != owner}
        if most is not None:
            quotas[owner] = most
        self.lab.set_policy(structs.replace(old, quotas=quotas))

    @rule(owner=owners, team=st.sampled_from([None, *TEAMS]))
    def join_team(self, owner: str, team: str | None) -> None:
        """Somebody joins, changes or leaves a team, with all he holds."""
        old = self.lab.view.policy
        teams = {who: other for who, other in old.teams.items() if who != owner}
        if team is not None:
            teams[owner] = team
        self.lab.set_policy(structs.replace(old, teams=teams))

    @rule(team=st.sampled_from(TEAMS), most=st.sampled_from([None, 0, 1, 3]))
    def team_quota(self, team: str, most: int | None) -> None:
        old = self.lab.view.policy
        quotas = {other: cards for other, cards in old.team_quotas.items() if other != team}
        if most is not None:
            quotas[team] = most
        self.lab.set_policy(structs.replace(old, team_quotas=quotas))

    # ---- choices

    def _someone(self, data: st.DataObject) -> TaskKey:
        return data.draw(st.sampled_from(sorted(self.lab.specs)))

    def _attempt(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.lab.world.runs)))

    def _arrays(self) -> list[TaskKey]:
        entries = self.lab.world.entries
        return [key for key in sorted(self.lab.specs) if entries[key].folded]


def _drawn(value: Any) -> st.SearchStrategy[Any]:
    return value if isinstance(value, st.SearchStrategy) else st.just(value)


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    stateful_step_count=30,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),  # explaining is too slow
)
