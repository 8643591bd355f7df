"""Who starts next and where: each rule of the policy once, on both kinds of view."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from stoker.domain.key import TaskKey
from stoker.domain.node import Node
from stoker.domain.queue import Queue
from stoker.scheduler.line import Waiting
from stoker.scheduler.plan import Plan, place_one, plan
from stoker.scheduler.policy import Policy
from stoker.scheduler.room import Holding
from stoker.scheduler.view import ScanningView, View
from tests.helpers.builders import NOON, at
from tests.helpers.scheduling import (
    a_load,
    a_node,
    a_policy,
    a_view,
    cards,
    carry_out,
    held,
    holds,
    waits,
)

HOUR = 3600


def planned(*things: Node | Waiting | Holding, policy: Policy | None = None) -> Plan:
    """The plan of both kinds of view, which is one."""
    fast = plan(a_view(*things, policy=policy), NOON)
    assert fast == plan(a_view(*things, policy=policy, scanning=True), NOON)
    return fast


def order(*things: Node | Waiting | Holding, policy: Policy | None = None) -> list[str]:
    """Who starts, in order."""
    return [str(one.key) for one in planned(*things, policy=policy).placements]


# ---- order


def test_the_owner_with_the_smallest_share_is_next_after_each_start() -> None:
    line = [waits(id, "ana", gpus=1) for id in (1, 2, 3)] + [waits(4, "bo", gpus=1)]
    assert order(a_node(gpus=4), *line) == ["1", "4", "2", "3"]


def test_what_runs_counts_and_weights_divide_it() -> None:
    running = holds("a1", held("node-a", 0, 1), owner="ana")
    line = [waits(1, "ana", gpus=1), waits(2, "bo", gpus=1), waits(3, "bo", gpus=1)]
    assert order(a_node(gpus=4), running, *line) == ["2", "3"]
    heavy = a_policy(weights={"ana": 4})
    assert order(a_node(gpus=4), running, *line, policy=heavy) == ["2", "1"]


def test_weight_zero_goes_before_idle_positive_owners_and_negative_before_all() -> None:
    line = [waits(1, "ana", gpus=1), waits(2, "bo", gpus=1), waits(3, "cy", gpus=1),
            waits(4, "dee", gpus=1)]  # fmt: skip
    policy = a_policy(weights={"bo": 0, "cy": -1, "dee": -5})
    assert order(a_node(gpus=4), *line, policy=policy) == ["4", "3", "2", "1"]


def test_nothing_is_backfilled_past_an_owner_of_negative_weight_but_the_owners_own() -> None:
    line = [waits(1, "cy", gpus=4), waits(2, "ana", cpus=1), waits(3, "cy", cpus=1)]
    busy = holds("a1", held("node-a", 0))
    policy = a_policy(weights={"cy": -1})
    assert order(a_node(gpus=4), busy, *line, policy=policy) == ["3"]


def test_fifo_goes_by_position_and_an_owners_priority_only_among_the_owners_tasks() -> None:
    line = [waits(1, "ana", gpus=1), waits(2, "bo", gpus=1), waits(3, "ana", gpus=1, priority=9)]
    assert order(a_node(gpus=4), *line, policy=a_policy(order="fifo")) == ["3", "1", "2"]
    moved = waits(2, "bo", gpus=1, position=-5)
    assert order(a_node(), line[0], moved, policy=a_policy(order="fifo")) == ["2", "1"]


def test_fairshare_remembers_what_was_used() -> None:
    for scanning in (False, True):
        view = a_view(
            a_node(gpus=2), waits(1, "ana", gpus=1), waits(2, "bo", gpus=1),
            policy=a_policy(order="fairshare"), scanning=scanning,
        )  # fmt: skip
        view.use = {"ana": 5_000_000}
        assert [str(one.key) for one in plan(view, NOON).placements] == ["2", "1"]


def test_urgent_goes_first_in_its_queue_and_queues_by_priority() -> None:
    fast = Queue(name="fast", priority=5)
    line = [waits(1, "ana", gpus=1), waits(2, "bo", gpus=1, urgent=True),
            waits(3, "cy", gpus=1, queue="fast")]  # fmt: skip
    assert order(a_node(gpus=4), *line, policy=a_policy(fast)) == ["3", "2", "1"]


# ---- limits


def test_quotas_and_maxima_stop_only_whom_they_are_about() -> None:
    line = [waits(1, "ana", gpus=2), waits(2, "ana", gpus=1), waits(3, "bo", gpus=2)]
    policy = a_policy(quotas={"ana": 1})
    assert order(a_node(gpus=4), *line, policy=policy) == ["2", "3"]
    assert planned(a_node(gpus=4), *line, policy=policy).reservations == {}


def test_a_quota_counts_from_the_placement() -> None:
    starting = holds("a1", held("node-a", 0), owner="ana")
    policy = a_policy(quotas={"ana": 1})
    assert order(a_node(gpus=4), starting, waits(1, "ana", gpus=1), policy=policy) == []


def test_a_queue_may_have_its_own_nodes_and_maxima() -> None:
    fast = Queue(name="fast", nodes=frozenset({"node-b"}), most_cards=2, most_cards_each=1)
    line = [waits(id, owner, gpus=1, queue="fast")
            for id, owner in ((1, "ana"), (2, "ana"), (3, "bo"), (4, "cy"))]  # fmt: skip
    made = planned(a_node("node-a"), a_node("node-b"), *line, policy=a_policy(fast))
    assert cards(made.placements) == {"1": [("node-b", (0,))], "3": [("node-b", (1,))]}


# ---- arrays


def test_an_array_starts_element_by_element_up_to_its_cap() -> None:
    array = waits(7, gpus=1, array="0-9%3")
    assert order(a_node(gpus=8), array) == ["7_0", "7_1", "7_2"]
    live = holds("a1", held("node-a", 0), owner="ana", id=7, element=0, array=7)
    rest = waits(7, gpus=1, array="0-9%3", folded=array.folded.without(0))  # type: ignore[union-attr]
    assert order(a_node(gpus=8), live, rest) == ["7_1", "7_2"]


# ---- dependencies and time


@pytest.mark.parametrize(
    ("after", "outcome", "starts"),
    [("1:ok", "succeeded", True), ("1:ok", "failed", False), ("1:ok", "deleted", False),
     ("1", "failed", True), ("1", "deleted", True), ("1:notok", "failed", True),
     ("1:notok", "cancelled", True), ("1:notok", "succeeded", False)],
)  # fmt: skip
def test_a_dependency_lets_it_start_when_it_has_come_true(
    after: str, outcome: str, starts: bool
) -> None:
    view = a_view(a_node(), waits(2, after=(after,)))
    assert plan(view, NOON).placements == ()
    view.settle(TaskKey(1), outcome)
    assert bool(plan(view, NOON).placements) is starts


def test_start_time_and_pause_wake_the_plan() -> None:
    view = a_view(a_node(), waits(1, start_after=at(60).isoformat()), waits(2, not_before=at(5)))
    first = plan(view, NOON)
    assert (first.placements, first.wake_at) == ((), at(5))
    assert [str(one.key) for one in plan(view, at(5)).placements] == ["2"]
    assert plan(view, at(5)).wake_at == at(60)


def test_a_clock_that_is_set_back_makes_no_pause_longer() -> None:
    tried = structs.replace(waits(1, not_before=at(20)), tries=1)
    view = a_view(a_node(), tried)
    assert plan(view, NOON).placements == ()
    assert plan(view, NOON - timedelta(hours=1)).placements


# ---- modes


def modes(*things: Any) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    return cards(planned(*things).placements)


def test_shared_tasks_stand_on_one_card_as_long_as_its_memory_lasts() -> None:
    line = [waits(id, gpus=1, mode="shared", gpu_memory_mib=10_000) for id in (1, 2, 3)]
    found = modes(a_node(gpus=2), *line)
    assert found == {
        "1": [("node-a", (0,))], "2": [("node-a", (0,))], "3": [("node-a", (1,))],
    }  # fmt: skip


def test_measured_memory_counts_when_it_is_more_than_was_reserved_and_never_twice() -> None:
    one = holds("a1", held("node-a", 0, gpu_memory_mib=8_000), mode="shared")
    ask = waits(1, gpus=1, mode="shared", gpu_memory_mib=12_000)
    for measured, fits in ((4_000, True), (8_000, True), (14_000, False)):
        view = a_view(a_node(gpus=1), one, ask)
        view.sample("node-a", [a_load("node-a-gpu-0", attempts={"a1": measured})])
        assert bool(plan(view, NOON).placements) is fits


def test_exclusive_wants_nobody_shared_wants_no_exclusive_and_foreigners_count() -> None:
    shared = holds("a1", held("node-a", 0, gpu_memory_mib=1_000), mode="shared")
    whole = holds("a2", held("node-a", 1))
    foreign = a_load("node-a-gpu-2", foreign=("eve:1:x",), foreign_mib=20_000)
    for ask, found in (
        (waits(1, gpus=1), {}),
        (waits(1, gpus=1, mode="shared", gpu_memory_mib=5_000), {"1": [("node-a", (0,))]}),
        (waits(1, gpus=1, mode="shared", gpu_memory_mib=3_000), {"1": [("node-a", (2,))]}),
    ):
        view = a_view(a_node(gpus=3), shared, whole, ask)
        view.sample("node-a", [foreign])
        assert cards(plan(view, NOON).placements) == found


def test_free_utilisation_is_asked_for() -> None:
    view = a_view(a_node(gpus=1), waits(1, gpus=1, mode="shared", gpu_memory_mib=1,
                                        gpu_free_percent=50))  # fmt: skip
    view.sample("node-a", [a_load("node-a-gpu-0", utilisation=60)])
    assert plan(view, NOON).placements == ()
    view.sample("node-a", [a_load("node-a-gpu-0", utilisation=40)])
    assert plan(view, NOON).placements


def test_reuse_takes_the_card_with_most_free_memory_that_nobody_else_has_for_himself() -> None:
    theirs = holds("a1", held("node-a", 0), owner="bo")
    mine = holds("a2", held("node-a", 1), owner="ana")
    view = a_view(a_node(gpus=2), theirs, mine, waits(1, "ana", gpus=1, mode="reuse"))
    assert cards(plan(view, NOON).placements) == {"1": [("node-a", (1,))]}
    view.set_policy(a_policy(reuse_any=True))
    view.sample("node-a", [a_load("node-a-gpu-1", attempts={"a2": 9_000})])
    assert cards(plan(view, NOON).placements) == {"1": [("node-a", (0,))]}


def test_a_card_with_slots_takes_so_many_exclusive_tasks() -> None:
    line = [waits(id, gpus=1) for id in (1, 2, 3)]
    made = planned(a_node(gpus=1, slots=2), *line)
    assert [one.allocations[0].gpus[0].slot for one in made.placements] == [0, 1]


def test_models_are_matched_by_runs_of_letters_and_digits() -> None:
    mixed = a_node(models=["NVIDIA A100-SXM4-80GB", "GTX 1080 Ti", "NVIDIA A10"])
    assert modes(mixed, waits(1, gpus=1, gpu_model=("a10",))) == {"1": [("node-a", (2,))]}
    assert modes(mixed, waits(1, gpus=1, gpu_model=("1080Ti",))) == {"1": [("node-a", (1,))]}
    assert modes(mixed, waits(1, gpus=2, gpu_model=("A100", "1080"))) == {"1": [("node-a", (0, 1))]}


def test_pinned_nodes_forced_cards_cores_and_memory() -> None:
    nodes = (a_node("node-a"), a_node("node-b", cpus=4, memory_mib=1000))
    assert modes(*nodes, waits(1, gpus=1, node="node-b")) == {"1": [("node-b", (0,))]}
    assert modes(*nodes, waits(1, gpus=2, gpu_ids=(3,))) == {"1": [("node-a", (3, 0))]}
    assert modes(*nodes, waits(1, gpus=1, cpus=8)) == {"1": [("node-a", (0,))]}
    assert modes(*nodes, waits(1, gpus=1, memory_mib=2000)) == {"1": [("node-a", (0,))]}


def test_pack_fills_nodes_and_spread_does_not() -> None:
    busy = holds("a1", held("node-b", 0))
    things = (a_node("node-a"), a_node("node-b"), busy, waits(1, gpus=1))
    assert modes(*things) == {"1": [("node-b", (1,))]}
    spread = Policy(queues={"default": Queue(name="default", rank="spread")})
    assert cards(planned(*things, policy=spread).placements) == {"1": [("node-a", (0,))]}


def test_a_gang_starts_on_all_its_nodes_or_on_none() -> None:
    two = (a_node("node-a", 2), a_node("node-b", 2))
    gang = waits(1, gpus=2, nodes=2)
    assert modes(*two, gang) == {"1": [("node-a", (0, 1)), ("node-b", (0, 1))]}
    assert modes(*two, holds("a1", held("node-b", 0)), gang) == {}


def test_nothing_starts_on_a_node_that_is_down_or_drained() -> None:
    view = a_view(a_node("node-a"), a_node("node-b"), waits(1, gpus=1))
    view.node_down("node-a")
    view.drain("node-b", "fan")
    assert plan(view, NOON).placements == ()
    view.drain("node-b", "")
    assert cards(plan(view, NOON).placements) == {"1": [("node-b", (0,))]}


# ---- reservations


def blocked_head(limit_s: int | None) -> tuple[Node | Waiting | Holding, ...]:
    """One card busy, and a task first in line that wants all four."""
    return a_node(), holds("a1", held("node-a", 0), limit_s=limit_s), waits(1, "ana", gpus=4)


def test_the_old_ways_idle_cards_behind_a_blocked_head_and_a_starving_big_task() -> None:
    """GPU Man let three cards idle; GPU Tasker gave them away for ever."""
    short = waits(2, "bo", gpus=1, time_limit_s=HOUR // 2)
    long = waits(3, "bo", gpus=1, time_limit_s=2 * HOUR)
    assert order(*blocked_head(HOUR), short, long) == ["2"]
    kept = planned(*blocked_head(HOUR)).reservations["default"]
    assert (kept.key, kept.start, kept.since) == (TaskKey(1), at(HOUR), NOON)


def test_an_end_that_nobody_knows_lets_nobody_in_for_two_hours_at_a_time() -> None:
    view = a_view(*blocked_head(None), waits(2, "bo", gpus=1, time_limit_s=60))
    first = plan(view, NOON)
    assert first.placements == ()
    assert (first.reservations["default"].start, first.wake_at) == (None, at(2 * HOUR))
    carry_out(view, first, NOON)
    assert plan(view, at(2 * HOUR - 1)).placements == ()
    later = plan(view, at(2 * HOUR))
    assert [str(one.key) for one in later.placements] == ["2"]
    assert later.reservations["default"].since == at(2 * HOUR)


def test_a_task_that_has_waited_a_day_keeps_its_cards() -> None:
    patient = waits(1, "ana", gpus=4, since=NOON - timedelta(hours=23))
    busy = holds("a1", held("node-a", 0))
    view = a_view(a_node(), busy, patient, waits(2, "bo", gpus=1))
    carry_out(view, plan(view, NOON), NOON)
    assert plan(view, at(2 * HOUR)).placements == ()


def test_urgent_tasks_ignore_what_is_kept_for_a_normal_one() -> None:
    view = a_view(*blocked_head(None))
    carry_out(view, plan(view, NOON), NOON)
    view.enqueue(waits(2, "bo", gpus=1))
    assert plan(view, NOON).placements == ()
    view.enqueue(waits(3, "cy", gpus=1, urgent=True))
    assert [str(one.key) for one in plan(view, NOON).placements] == ["3"]


def test_better_cards_are_taken_and_worse_ones_are_not() -> None:
    nodes = (a_node("node-a"), a_node("node-b"))
    far = holds("a1", held("node-a", 0, 1, 2, 3), limit_s=2 * HOUR)
    near = holds("a2", held("node-b", 0, 1, 2, 3), limit_s=HOUR)
    view = a_view(*nodes, far, near, waits(1, gpus=4))
    carry_out(view, plan(view, NOON), NOON)
    assert view.reservations["default"].kept[0].node == "node-b"
    view.free("a1")
    assert cards(plan(view, NOON).placements) == {"1": [("node-a", (0, 1, 2, 3))]}


def test_one_that_becomes_the_first_later_does_not_take_the_cards_over() -> None:
    view = a_view(*blocked_head(None))
    carry_out(view, plan(view, NOON), NOON)
    view.enqueue(waits(2, "bo", gpus=4, position=-9))
    assert plan(view, NOON).reservations["default"].key == TaskKey(1)


def test_without_backfill_a_queue_stops_at_the_first_that_does_not_fit() -> None:
    line = waits(2, "bo", gpus=1, time_limit_s=60)
    assert order(*blocked_head(HOUR), line, policy=a_policy(backfill=False)) == []


# ---- a newcomer


def test_a_newcomer_may_start_at_once_only_where_nobody_has_a_claim() -> None:
    for view in (View(Policy()), ScanningView(Policy())):
        view.node_up(a_node())
        assert place_one(view, waits(1, gpus=2), NOON) is not None
        view.take(holds("a1", held("node-a", 0)))
        view.enqueue(waits(2, gpus=4))
        assert place_one(view, waits(3, gpus=1), NOON) is None, "the line was not planned"
        carry_out(view, plan(view, NOON), NOON)
        assert place_one(view, waits(3, gpus=1), NOON) is None, "the cards are kept"
        assert place_one(view, waits(3, cpus=1), NOON) is not None


def test_a_newcomer_does_not_pass_an_owner_of_the_same_negative_weight() -> None:
    policy = a_policy(weights={"bo": -1, "cy": -1})
    for view in (View(policy), ScanningView(policy)):
        view.node_up(a_node())
        view.take(holds("a1", held("node-a", 0)))
        view.enqueue(waits(2, "bo", gpus=4))
        carry_out(view, plan(view, NOON), NOON)
        assert place_one(view, waits(3, "cy", cpus=1), NOON) is None
        assert place_one(view, waits(3, "bo", cpus=1), NOON) is not None
