"""What is said about a wait: every reason, who holds what, its place, when, and what would help."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from stoker.domain.key import TaskKey
from stoker.domain.node import Node
from stoker.domain.queue import Queue
from stoker.scheduler.explain import Explanation, explain
from stoker.scheduler.fit import never_fits
from stoker.scheduler.line import Waiting, waiting_of
from stoker.scheduler.needs import needs_of
from stoker.scheduler.plan import plan
from stoker.scheduler.policy import Policy
from stoker.scheduler.room import Holding
from tests.helpers.builders import NOON, a_spec, at
from tests.helpers.scheduling import a_node, a_policy, a_view, carry_out, held, holds, waits

HOUR = 3600


def told(
    asked: Waiting, *things: Node | Waiting | Holding, policy: Policy | None = None
) -> Explanation:
    """About a task in a line that was planned."""
    view = a_view(*things, asked, policy=policy)
    carry_out(view, plan(view, NOON), NOON)
    return explain(view, asked, NOON)


def codes(explanation: Explanation) -> list[str]:
    return [reason.code for reason in explanation.reasons]


def test_every_node_has_its_reason_and_the_holders_are_named() -> None:
    busy = holds("a1", held("node-a", 0, 1, 2), owner="bo", id=5, limit_s=HOUR)
    two = (a_node("node-a"), a_node("node-b", 2, cpus=1))
    answer = told(waits(1, gpus=2, cpus=2), *two, busy)
    assert codes(answer) == ["gpus_busy"]
    assert answer.reasons[0].values == {"node": "node-a", "need": 2, "free": 1, "have": 4}
    (holder,) = answer.holders
    assert (holder.task, holder.owner, holder.gpus) == (TaskKey(5), "bo", (0, 1, 2))
    assert (answer.estimate.at, answer.estimate.basis.code) == (at(HOUR), "estimate_reserved")


def test_an_end_that_nobody_knows_makes_no_guess() -> None:
    answer = told(waits(1, gpus=4), a_node(), holds("a1", held("node-a", 0)))
    assert (answer.estimate.at, answer.estimate.basis.code) == (None, "estimate_unknown")


def test_a_node_that_takes_nothing_is_no_question_of_time() -> None:
    view = a_view(a_node(), waits(1, gpus=1))
    view.drain("node-a", "fan")
    answer = explain(view, waits(1, gpus=1), NOON)
    assert (codes(answer), answer.estimate.basis.code) == (["node_drained"], "estimate_node")


def test_dependencies_and_times_are_told_before_anything_else() -> None:
    view = a_view(a_node(), waits(2, after=("1:ok",)), waits(3, start_after=at(60).isoformat()))
    entry = view.waiting(TaskKey(2))
    assert entry is not None
    assert codes(explain(view, entry, NOON)) == ["after_pending"]
    view.settle(TaskKey(1), "failed")
    answer = explain(view, entry, NOON)
    assert (codes(answer), [s.code for s in answer.suggestions]) == (
        ["after_failed"],
        ["try_anyway"],
    )
    timed = view.waiting(TaskKey(3))
    assert timed is not None
    assert explain(view, timed, NOON).estimate.at == at(60)


def test_the_place_in_line_follows_the_policy() -> None:
    busy = holds("a1", held("node-a", 0, 1, 2, 3))
    line = [waits(1, "ana", gpus=1), waits(2, "ana", gpus=1), waits(3, "bo", gpus=1)]
    places = []
    for entry in line:
        answer = told(entry, a_node(), busy, *(one for one in line if one is not entry))
        assert answer.place is not None
        places.append((answer.place.ahead, answer.place.waiting))
    assert places == [(0, 3), (2, 3), (1, 3)]


def test_limits_of_ones_own_are_named() -> None:
    policy = a_policy(Queue(name="fast", most_cards=1), quotas={"ana": 2})
    mine = holds("a1", held("node-a", 0), owner="ana", queue="fast")
    answer = told(waits(1, "ana", gpus=2, queue="fast"), a_node(), mine, policy=policy)
    assert codes(answer) == ["quota_cards", "queue_cards"]
    capped = holds("a1", held("node-a", 0), owner="ana", id=7, element=0, array=7)
    assert "array_cap" in codes(told(waits(7, gpus=1, array="1-3%1"), a_node(), capped))


def test_who_stands_before_it_is_named() -> None:
    policy = a_policy(weights={"boss": -1})
    busy = holds("a1", held("node-a", 0))
    answer = told(waits(2, "ana", gpus=1), a_node(), busy, waits(1, "boss", gpus=4), policy=policy)
    assert codes(answer)[0] == "behind_owner"


def test_kept_cards_say_for_whom_and_since_when() -> None:
    busy = holds("a1", held("node-a", 0), limit_s=HOUR)
    answer = told(waits(2, "bo", gpus=1), a_node(), busy, waits(1, "ana", gpus=4))
    (reason,) = answer.reasons
    assert reason.code == "gpus_kept"
    assert (reason.values["task"], reason.values["since"]) == ("1", NOON)


SUGGESTED: list[tuple[str, dict[str, Any], tuple[Node | Holding | Waiting, ...], Policy | None]] = [
    ("try_fewer_gpus", {"gpus": 4}, (a_node(), holds("a1", held("node-a", 0))), None),
    ("try_model", {"gpus": 1, "gpu_model": ("H100",)},
     (a_node("node-a", models=["H100"]), a_node("node-b", models=["A100"]),
      holds("a1", held("node-a", 0))), None),
    ("try_any_node", {"gpus": 1, "node": "node-a"},
     (a_node("node-a", 1), a_node("node-b", 1), holds("a1", held("node-a", 0))), None),
    ("try_shared", {"gpus": 1},
     (a_node(gpus=1),
      holds("a1", held("node-a", 0, gpu_memory_mib=4_000), mode="shared")), None),
    ("try_time_limit", {"gpus": 1},
     (a_node(), holds("a1", held("node-a", 0), limit_s=HOUR), waits(1, "bo", gpus=4)), None),
    ("try_queue", {"gpus": 1, "queue": "fast"},
     (a_node(), holds("a1", held("node-a", 0), queue="fast")),
     a_policy(Queue(name="fast", most_cards=1))),
]  # fmt: skip


@pytest.mark.parametrize(("code", "spec", "things", "policy"), SUGGESTED, ids=lambda v: str(v)[:12])
def test_what_is_suggested_really_starts_it(
    code: str,
    spec: dict[str, Any],
    things: tuple[Node | Holding | Waiting, ...],
    policy: Policy | None,
) -> None:
    view = a_view(*things, waits(9, **spec), policy=policy)
    carry_out(view, plan(view, NOON), NOON)
    entry = view.waiting(TaskKey(9))
    assert entry is not None
    suggestion = next(s for s in explain(view, entry, NOON).suggestions if s.code == code)

    changed = structs.replace(a_spec(**spec), **_as_spec(suggestion.options))
    view.enqueue(waiting_of(entry.key, "ana", changed, position=9, version=2, since=NOON))

    assert "9" in [str(one.key) for one in plan(view, NOON).placements]


def test_an_unforeseen_start_suggests_no_time_limit() -> None:
    busy = holds("a1", held("node-a", 0))
    answer = told(waits(2, "bo", gpus=1), a_node(), busy, waits(1, "ana", gpus=4))
    assert "try_time_limit" not in [suggestion.code for suggestion in answer.suggestions]


@pytest.mark.parametrize(
    ("spec", "code", "have"),
    [
        ({"gpus": 9}, "too_many_gpus", 4),
        ({"gpus": 1, "gpu_ids": (7,)}, "no_such_gpu", "0, 1, 2, 3"),
        ({"gpus": 1, "gpu_model": ("H100",)}, "no_such_model", "Test GPU"),
        ({"gpus": 1, "node": "nowhere"}, "no_such_node", "node-a, node-b"),
        ({"cpus": 99}, "too_many_cpus", 16),
        ({"memory_mib": 10**6}, "too_much_memory", 64_000),
        ({"gpus": 1, "nodes": 3}, "too_many_nodes", 2),
        ({"gpus": 1, "mode": "shared", "gpu_memory_mib": 10**6}, "too_much_gpu_memory", 24_000),
    ],
)
def test_what_can_never_run_is_refused_with_the_nearest_that_can(
    spec: dict[str, Any], code: str, have: object
) -> None:
    view = a_view(a_node("node-a"), a_node("node-b", 1))
    view.node_down("node-a")  # counts all the same
    never = never_fits(needs_of(a_spec(**spec)), view.rooms, Queue(name="default"))
    assert never is not None
    assert (never.reasons[0].code, never.reasons[0].values["have"]) == (code, have)


def test_forced_cards_must_be_of_the_right_kind() -> None:
    view = a_view(a_node(models=["A100", "T4"]))
    needs = needs_of(a_spec(gpus=1, gpu_ids=(1,), gpu_model=("A100",)))
    assert never_fits(needs, view.rooms, Queue(name="default")) is not None


def test_an_unknown_fleet_refuses_nothing() -> None:
    assert never_fits(needs_of(a_spec(gpus=99)), {}, Queue(name="default")) is None


def test_waiting_for_a_pause_says_when_it_is_tried_again() -> None:
    tried = structs.replace(waits(1, not_before=NOON + timedelta(seconds=20)), tries=2)
    view = a_view(a_node(), tried)
    plan(view, NOON)
    (reason,) = explain(view, tried, NOON).reasons
    assert (reason.code, reason.values["tries"]) == ("backing_off", 2)


def _as_spec(options: dict[str, object]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
    }
