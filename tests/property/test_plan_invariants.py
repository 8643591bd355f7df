"""Whatever the line and the nodes look like, a plan keeps these promises.

Checked without the reference where that is possible: each is said here once more, in a few lines.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.node import Allocation
from stoker.domain.queue import Queue
from stoker.domain.task import TaskSpec
from stoker.scheduler.claim import unsettles
from stoker.scheduler.fit import never_fits
from stoker.scheduler.limits import is_limited
from stoker.scheduler.line import Waiting
from stoker.scheduler.needs import matches
from stoker.scheduler.plan import Placement, Plan, place_one, plan
from stoker.scheduler.policy import Policy
from stoker.scheduler.room import Holding
from tests.helpers.builders import a_spec
from tests.helpers.scheduling import a_node, holding_of

from . import world
from .lab import Lab
from .reference import could_start
from .situations import labs, settle, settled_labs, submit, with_arrays
from .strategies import OWNERS, memberships, owners, specs


def weighted(*weights: int) -> st.SearchStrategy[Policy]:
    """Balance, one queue, no limits: only weights count."""
    shares = st.fixed_dictionaries({owner: st.sampled_from(weights) for owner in OWNERS})
    return st.builds(Policy, weights=shares)


SIMPLE = specs(modes=("exclusive",), gangs=False, queues=("",), pinned=False)


# ---- what is given


@given(labs())
def test_every_task_gets_what_it_asked_for(lab: Lab) -> None:
    for placement in lab.plan().placements:
        needs, nodes = placement.sign.needs, [part.node for part in placement.allocations]
        assert len(set(nodes)) == len(nodes) == needs.nodes
        for part in placement.allocations:
            indices = [gpu.index for gpu in part.gpus]
            assert len(set(indices)) == len(indices) == needs.gpus
            assert set(needs.gpu_ids) <= set(indices)
            assert (part.cpus, part.memory_mib) == (needs.cpus, needs.memory_mib)
            assert needs.node in ("", part.node)
            assert all(matches(needs.models, _model(lab, part.node, gpu.uuid)) for gpu in part.gpus)


@given(labs())
def test_only_nodes_that_are_up_and_not_drained_and_in_the_queue(lab: Lab) -> None:
    for placement in lab.plan().placements:
        nodes = lab.view.policy.queue(placement.sign.queue).nodes
        for part in placement.allocations:
            assert part.node not in lab.world.down | lab.world.drained
            assert nodes is None or part.node in nodes


@given(labs())
def test_cards_are_alone_or_in_slots_or_shared_within_their_memory(lab: Lab) -> None:
    planned = lab.plan()
    fresh = {gpu.uuid for p in planned.placements for part in p.allocations for gpu in part.gpus}
    lab.carry_out(planned)

    for machine in lab.world.machines.values():
        on = lab.on_cards(machine.name)
        for card in machine.cards:
            if card.uuid in fresh:
                _check_card(lab, machine.name, card, [lab.world.runs[a] for a in on[card.uuid]])


def _check_card(lab: Lab, node: str, card: world.Card, runs: list[world.Run]) -> None:
    load = lab.world.loads.get(card.uuid, world.Load())
    modes = Counter(run.mode for run in runs)
    if modes["exclusive"] and not modes["reuse"]:
        slots = [slot for run in runs for uuid, slot in run.part(node).cards if uuid == card.uuid]
        assert not modes["shared"]
        assert len(set(slots)) == len(slots) <= card.slots
    if modes["shared"] and not modes["reuse"]:
        used = sum(max(r.part(node).gpu_memory, load.attempts.get(r.attempt, 0)) for r in runs)
        measured_too_much = sum(load.attempts.values()) + load.foreign_memory > card.memory
        assert used + load.foreign_memory <= card.memory or measured_too_much
    if modes["reuse"] and not lab.view.policy.reuse_any:
        owners_alone = {run.owner for run in runs if run.mode == "exclusive"}
        reusing = [run for run in runs if run.mode == "reuse"]
        assert all(owners_alone <= {run.owner} for run in reusing)


@given(labs(trouble=False))
def test_cores_and_memory_of_a_node_are_never_given_twice(lab: Lab) -> None:
    lab.carry_out(lab.plan())

    for machine in lab.world.machines.values():
        parts = [run.part(machine.name) for run in lab.world.runs.values()]
        assert sum(part.cpus for part in parts) <= machine.cpus
        assert sum(part.memory for part in parts) <= machine.memory


@given(labs())
def test_quotas_and_the_maxima_of_queues_and_arrays_hold_for_whoever_starts(lab: Lab) -> None:
    planned, policy = lab.plan(), lab.view.policy
    lab.carry_out(planned)
    runs = list(lab.world.runs.values())

    for placement in planned.placements:
        sign = placement.sign
        queue = policy.queue(sign.queue)
        mine = [run for run in runs if run.owner == sign.owner]
        here = [run for run in runs if run.queue == sign.queue]
        team = policy.teams.get(sign.owner, "")
        ours = [run for run in runs if policy.teams.get(run.owner) == team]
        if sign.needs.gpus:
            assert _cards(mine) <= policy.quotas.get(sign.owner, 1000)
            assert _cards(ours) <= policy.team_quotas.get(team, 1000)
            assert _cards(here) <= (queue.most_cards or 1000)
            both = [run for run in mine if run in here]
            assert _cards(both) <= (queue.most_cards_each or 1000)
        if sign.cap is not None:
            assert sum(run.array == sign.array for run in runs) <= sign.cap


@given(labs(), st.sampled_from(OWNERS), st.integers(0, 5))
def test_the_view_counts_what_people_hold(lab: Lab, owner: str, quota: int) -> None:
    lab.carry_out(lab.plan())
    lab.set_policy(structs.replace(lab.view.policy, quotas={owner: quota}))

    assert lab.view.cards_of(owner) == _cards(
        [run for run in lab.world.runs.values() if run.owner == owner]
    )
    for placement in lab.plan().placements:
        assert placement.sign.owner != owner or not placement.sign.needs.gpus or quota


@given(labs(), memberships, st.integers(0, 5))
def test_who_joins_a_team_brings_along_what_he_holds(
    lab: Lab, teams: dict[str, str], quota: int
) -> None:
    lab.carry_out(lab.plan())
    policy = structs.replace(lab.view.policy, teams=teams, team_quotas={"red": quota})
    lab.set_policy(policy)
    red = [run for run in lab.world.runs.values() if teams.get(run.owner) == "red"]

    for view in (lab.view, lab.scanning):
        assert view.cards_of_team("red") == _cards(red)
    for placement in lab.plan().placements:
        if teams.get(placement.sign.owner) == "red" and placement.sign.needs.gpus:
            assert _cards(red) < quota


@given(labs())
def test_a_task_stopped_by_its_own_limit_blocks_nobody(lab: Lab) -> None:
    """Others start as they would if it were not there, and nothing is kept for it."""
    lab.carry_out(lab.plan())
    stopped = [one for one in lab.view.entries() if is_limited(lab.view, one.sign)]
    planned = lab.plan()
    for entry in stopped:
        lab.dequeue(entry.key)

    assert not {held.key for held in planned.reservations.values()} & {e.key for e in stopped}
    assert _told(lab.plan()) == _told(planned)


@given(st.sampled_from(["pack", "spread"]), st.integers(1, 3))
def test_a_queue_packs_or_spreads_whatever_the_others_do(rank: Any, count: int) -> None:
    """Three equal nodes: as many tasks of one card go to one, or to as many as there are."""
    other: Any = "spread" if rank == "pack" else "pack"
    queues = {"default": Queue(name="default", rank=other), "fast": Queue(name="fast", rank=rank)}
    lab = Lab(Policy(queues=queues))
    for number in range(3):
        lab.node_up(a_node(f"m{number}", 3))
    submit(lab, [("ana", a_spec(gpus=1, queue="fast"))] * count)

    used = [part.node for placement in lab.plan().placements for part in placement.allocations]
    assert len(used) == count
    assert len(set(used)) == (1 if rank == "pack" else count)


# ---- who is served


@given(labs())
def test_no_card_stays_idle_while_somebody_fits_who_is_not_held_back(lab: Lab) -> None:
    planned = lab.plan()
    lab.carry_out(planned)
    if planned.wake_at == lab.now:
        lab.carry_out(lab.plan())

    assert could_start(lab.world, lab.now) == set()


@given(labs())
def test_planning_comes_to_an_end(lab: Lab) -> None:
    assert settle(lab)


@given(labs())
def test_planning_twice_gives_the_same_and_changes_nothing(lab: Lab) -> None:
    before = _seen(lab)
    first = lab.plan()

    assert lab.plan() == first
    assert _seen(lab) == before


@given(labs())
def test_when_nothing_happens_nothing_starts_before_the_plan_wakes(lab: Lab) -> None:
    assert settle(lab)
    wake_at = lab.plan().wake_at
    if wake_at is None:
        lab.passes(400 * 24 * 3600)
    else:
        assert wake_at > lab.now
        lab.passes(max(0, int((wake_at - lab.now) / timedelta(seconds=1)) - 1))

    assert lab.plan().placements == ()


@given(labs(weighted(-2, -1, 0, 1), SIMPLE))
def test_nobody_passes_a_waiting_owner_of_negative_weight(lab: Lab) -> None:
    """Only whoever has the reservation may start before its turn."""
    planned, policy = lab.plan(), lab.view.policy
    reserved = {promise.key for promise in lab.world.promises.values()}
    lab.carry_out(planned)

    def standing(who: Any) -> tuple[bool, int]:
        return not who.urgent, policy.weight(who.owner)

    waiting = [e for e in lab.world.entries.values() if policy.weight(e.owner) < 0]
    first = min(map(standing, waiting), default=None)
    first_owners = {entry.owner for entry in waiting if standing(entry) == first}
    for placement in planned.placements:
        is_before = first is None or standing(placement.sign) <= first
        is_one_of_them = placement.sign.owner in first_owners
        assert is_before or is_one_of_them or placement.key in reserved


@given(labs(weighted(-1, 0, 1, 2), SIMPLE))
def test_urgent_then_negative_then_zero_then_positive(lab: Lab) -> None:
    signs = [placement.sign for placement in lab.plan().placements]
    weights = [lab.view.policy.weight(sign.owner) for sign in signs]
    groups = [(weight > 0) - (weight < 0) for weight in weights]
    levels = [(not sign.urgent, group) for sign, group in zip(signs, groups, strict=True)]

    assert levels == sorted(levels)


@given(labs(weighted(0, 1, 2), SIMPLE))
def test_weight_zero_goes_before_everybody_positive(lab: Lab) -> None:
    """When the first positive one starts, nobody of weight zero who fits is left waiting."""
    planned, policy = lab.plan(), lab.view.policy
    signs = [placement.sign for placement in planned.placements]
    before = [sign.urgent or policy.weight(sign.owner) == 0 for sign in signs]
    lab.carry_out(planned, before.index(False) if False in before else len(before))

    left = [lab.world.entries[key].owner for key in could_start(lab.world, lab.now)]
    assert all(policy.weight(owner) > 0 for owner in left)


# ---- newcomers


@given(settled_labs(), owners, with_arrays())
def test_a_newcomer_placed_at_once_is_placed_as_a_plan_would(
    lab: Lab, owner: str, spec: TaskSpec
) -> None:
    """Others start with it only if it has unsettled what was planned before."""
    waiting = _newcomer(lab, owner, spec)
    at_once = place_one(lab.view, waiting, lab.now)
    others = bool(lab.world.entries)
    lab.view.enqueue(waiting)
    planned = plan(lab.view, lab.now)
    lab.view.dequeue(waiting.key)

    if at_once is not None:
        told = _told(planned)
        assert (waiting.key, at_once) in told
        lab.take(_holding(lab, waiting, at_once))
        assert len(told) == 1 or unsettles(lab.view, waiting.sign, at_once)
    elif not others and waiting.folded is None:
        assert planned.placements == ()


@given(settled_labs(), st.lists(st.tuples(owners, specs()), min_size=1, max_size=3))
def test_who_is_placed_at_once_changes_nothing_for_others_or_a_plan_is_asked_for(
    lab: Lab, newcomers: list[tuple[str, TaskSpec]]
) -> None:
    for owner, spec in newcomers:
        before = lab.plan()
        waiting = _newcomer(lab, owner, spec)
        where = place_one(lab.view, waiting, lab.now)
        if where is None:
            continue
        lab.take(_holding(lab, waiting, where))
        if unsettles(lab.view, waiting.sign, where):
            return
        after = lab.plan()
        assert (_told(after), _kept(after)) == ([], _kept(before))


@given(settled_labs(), owners, specs())
def test_what_can_never_fit_is_never_placed(lab: Lab, owner: str, spec: TaskSpec) -> None:
    """Refused for good means: not on all nodes well and empty either."""
    queue = lab.view.policy.queue(spec.queue or "default")
    waiting = _newcomer(lab, owner, spec)
    never = never_fits(waiting.sign.needs, lab.view.rooms, queue)
    empty = Lab(
        structs.replace(
            lab.view.policy, quotas={}, team_quotas={}, reuse_any=False, queues=_open(lab)
        )
    )
    for name in lab.view.rooms:
        empty.node_up(lab.view.rooms[name].node)
    submit(empty, [(owner, spec)])

    assert (never is not None) == (empty.plan().placements == ())


# ---- words


def _open(lab: Lab) -> dict[str, Any]:
    """The queues without their maxima."""
    return {
        name: structs.replace(queue, most_cards=None, most_cards_each=None)
        for name, queue in lab.view.policy.queues.items()
    }


def _newcomer(lab: Lab, owner: str, spec: TaskSpec) -> Waiting:
    [key] = submit(lab, [(owner, spec)])
    waiting = lab.view.waiting(key)
    assert waiting is not None
    lab.dequeue(key)
    return waiting


def _holding(lab: Lab, waiting: Waiting, where: tuple[Allocation, ...]) -> Holding:
    placement = Placement(waiting.key, waiting.version, waiting.sign, where)
    return holding_of(placement, "newcomer-" + str(waiting.key), lab.now)


def _kept(planned: Plan) -> dict[str, Any]:
    """For whom, what, from when."""
    return {
        queue: (held.key, held.kept, held.start) for queue, held in planned.reservations.items()
    }


def _told(planned: Plan) -> list[tuple[Any, tuple[Allocation, ...]]]:
    return [(placement.key, placement.allocations) for placement in planned.placements]


def _cards(runs: list[world.Run]) -> int:
    return sum(run.cards for run in runs)


def _model(lab: Lab, node: str, uuid: str) -> str:
    return next(c.model for c in lab.world.machines[node].cards if c.uuid == uuid)


def _seen(lab: Lab) -> dict[str, object]:
    """What anybody can see of a view."""
    view = lab.view
    return {
        "line": sorted(view.entries(), key=lambda waiting: waiting.key),
        "taken": dict(view.taken()),
        "reservations": dict(view.reservations),
        "use": dict(view.use),
        "openings": view.openings,
        "free": {name: room.free_gpus() for name, room in view.rooms.items()},
        "held": {name: (r.cpus_held, r.memory_held_mib) for name, r in view.rooms.items()},
        "length": len(view),
    }
