"""First-fit in order, exclusive cards, and every wait explained."""

from __future__ import annotations

import pytest

from stoker.domain.key import TaskKey
from stoker.scheduler.fit import Fits, Never, Waits, fit
from stoker.scheduler.plan import Placement, plan
from stoker.scheduler.view import Needs, View, needs_of
from tests.helpers.builders import NOON, a_node, a_spec, an_allocation


def a_view(*needs: Needs, gpus: int = 4, cpus: int = 16) -> View:
    view = View()
    view.node_up(a_node(gpus=gpus, cpus=cpus))
    for id, need in enumerate(needs, start=1):
        view.enqueue(TaskKey(id), need, id, 1)
    return view


def cards(placement: Placement) -> list[int]:
    return [gpu.index for gpu in placement.allocation.gpus]


def test_the_first_in_line_takes_the_lowest_cards() -> None:
    plans = plan(a_view(Needs(gpus=2), Needs(gpus=1), Needs(gpus=2)), NOON)

    assert [(p.key.id, cards(p)) for p in plans] == [(1, [0, 1]), (2, [2])]


def test_one_that_does_not_fit_is_passed() -> None:
    plans = plan(a_view(Needs(gpus=3), Needs(gpus=3), Needs(gpus=1)), NOON)

    assert [p.key.id for p in plans] == [1, 3]


def test_forced_cards_come_first_and_the_rest_are_any() -> None:
    (placement,) = plan(a_view(Needs(gpus=2, gpu_ids=(3,))), NOON)

    assert cards(placement) == [3, 0]


def test_a_card_with_a_foreign_process_is_not_given() -> None:
    view = a_view(Needs(gpus=1))
    view.foreign("node-a", {"node-a-gpu-0": ("eve:1:python",)})

    assert cards(plan(view, NOON)[0]) == [1]


def test_nothing_starts_on_a_node_that_is_down_or_drained() -> None:
    view = a_view(Needs(gpus=1))
    view.node_down("node-a")
    assert plan(view, NOON) == []

    view.node_up(a_node())
    view.drain("node-a", "a process cannot be killed")
    assert plan(view, NOON) == []

    view.drain("node-a", "")
    assert len(plan(view, NOON)) == 1


def test_cpus_and_memory_are_counted() -> None:
    view = a_view(
        Needs(cpus=10), Needs(cpus=10), Needs(memory_mib=60_000), Needs(memory_mib=60_000)
    )

    assert [p.key.id for p in plan(view, NOON)] == [1, 3]


def test_planning_changes_nothing_and_gives_the_same_twice() -> None:
    view = a_view(Needs(gpus=2), Needs(gpus=2))

    assert plan(view, NOON) == plan(view, NOON)
    assert len(view) == 2


def test_what_is_taken_stays_taken_when_its_node_comes_back() -> None:
    view = View()
    view.take("a1", an_allocation("node-a", 0, cpus=3))
    view.node_up(a_node())
    assert [gpu.index for gpu in view.rooms["node-a"].free_gpus()] == [1, 2, 3]

    view.node_down("node-a")
    view.node_up(a_node())
    assert [gpu.index for gpu in view.rooms["node-a"].free_gpus()] == [1, 2, 3]

    view.free("a1")
    view.free("a1")
    assert view.rooms["node-a"].cpus_held == 0
    assert len(view.rooms["node-a"].free_gpus()) == 4


def test_another_node_that_comes_up_changes_nothing_here() -> None:
    view = a_view()
    view.take("a1", an_allocation("node-a", 0, cpus=3))
    view.node_up(a_node("node-b"))

    assert view.rooms["node-a"].cpus_held == 3
    assert view.rooms["node-b"].cpus_held == 0


def test_taking_twice_takes_once() -> None:
    view = a_view()
    view.take("a1", an_allocation("node-a", 0, cpus=3))
    view.take("a1", an_allocation("node-a", 0, cpus=3))

    assert view.rooms["node-a"].cpus_held == 3


def test_a_task_that_returns_keeps_its_place() -> None:
    view = a_view(Needs(gpus=1), Needs(gpus=1), Needs(gpus=1), gpus=1)
    view.dequeue(TaskKey(1))
    view.enqueue(TaskKey(1), Needs(gpus=1), 1, 3)

    assert [w.key.id for w in view.line()] == [1, 2, 3]


def test_equal_needs_are_one_object() -> None:
    view = a_view(Needs(gpus=1), Needs(gpus=1))
    first, second = view.line()

    assert first.needs is second.needs


@pytest.mark.parametrize(
    ("needs", "code"),
    [
        (Needs(gpus=5), "too_many_gpus"),
        (Needs(gpus=1, gpu_ids=(7,)), "no_such_gpu"),
        (Needs(cpus=17), "too_many_cpus"),
        (Needs(memory_mib=64_001), "too_much_memory"),
    ],
)
def test_what_can_never_fit_says_why_even_when_the_node_is_down(needs: Needs, code: str) -> None:
    view = a_view()
    view.node_down("node-a")
    answer = fit(needs, view.rooms.values())

    assert isinstance(answer, Never)
    assert answer.reasons[0].code == code


def test_one_fitting_node_is_enough() -> None:
    view = a_view(gpus=1)
    view.node_up(a_node("node-b", gpus=8))

    answer = fit(Needs(gpus=8), view.rooms.values())

    assert isinstance(answer, Fits)
    assert answer.allocation.node == "node-b"


def test_every_reason_is_given() -> None:
    view = a_view()
    view.take("a1", an_allocation("node-a", 0, 1, 2, 3, cpus=16))
    answer = fit(Needs(gpus=2, cpus=2), view.rooms.values())

    assert isinstance(answer, Waits)
    assert [reason.code for reason in answer.reasons] == ["gpus_busy", "cpus_busy"]
    assert answer.reasons[0].values == {"node": "node-a", "need": 2, "free": 0, "have": 4}


def test_an_unknown_fleet_refuses_nothing() -> None:
    answer = fit(Needs(gpus=99), [])

    assert isinstance(answer, Waits)
    assert answer.reasons[0].code == "no_nodes"


def test_a_task_that_asks_for_nothing_counts_as_one_core() -> None:
    assert needs_of(a_spec()).cpus == 1
    assert needs_of(a_spec(gpus=1)).cpus == 0
    assert needs_of(a_spec(gpus=1, cpus=8)).cpus == 8
