"""Whatever the line and the nodes look like, a plan keeps these promises."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.key import TaskKey
from stoker.scheduler.fit import Fits, fit
from stoker.scheduler.plan import plan
from stoker.scheduler.view import Needs, View
from tests.helpers.builders import NOON, a_node, an_allocation

needs = st.builds(
    Needs,
    gpus=st.integers(0, 6),
    cpus=st.integers(0, 8),
    memory_mib=st.sampled_from([0, 1000, 40_000]),
).flatmap(
    lambda n: st.permutations(range(6)).flatmap(
        lambda ids: st.integers(0, n.gpus).map(
            lambda k: Needs(n.gpus, tuple(ids[:k]), n.cpus, n.memory_mib)
        )
    )
)


@st.composite
def views(draw: st.DrawFn) -> View:
    view = View()
    for number in range(draw(st.integers(0, 3))):
        name = f"node-{number}"
        view.node_up(a_node(name, gpus=draw(st.integers(0, 5)), cpus=draw(st.integers(1, 8))))
        if draw(st.booleans()):
            view.take(f"running-{number}", an_allocation(name, 0, cpus=1))
        if draw(st.booleans()):
            view.foreign(name, {f"{name}-gpu-1": ("eve:1:x",)})
        if draw(st.booleans()):
            view.node_down(name)
        if draw(st.booleans()):
            view.drain(name, "broken")
    for id, need in enumerate(draw(st.lists(needs, max_size=12)), start=1):
        view.enqueue(TaskKey(id), need, draw(st.integers(1, 20)), 1)
    return view


@given(views())
def test_a_plan_only_gives_what_is_free(view: View) -> None:
    placements = plan(view, NOON)

    given_cards = Counter(
        (p.allocation.node, gpu.uuid) for p in placements for gpu in p.allocation.gpus
    )
    assert all(count == 1 for count in given_cards.values())
    for name, room in view.rooms.items():
        here = [p for p in placements if p.allocation.node == name]
        if not room.up or room.drained:
            assert here == []
            continue
        free = {gpu.uuid for gpu in room.free_gpus()}
        assert {gpu.uuid for p in here for gpu in p.allocation.gpus} <= free
        assert sum(p.allocation.cpus for p in here) <= max(0, room.node.cpus - room.cpus_held)
        assert sum(p.allocation.memory_mib for p in here) <= room.node.memory_mib


@given(views())
def test_a_task_gets_what_it_asked_for(view: View) -> None:
    for placement in plan(view, NOON):
        waiting = view.waiting(placement.key)
        assert waiting is not None
        indices = [gpu.index for gpu in placement.allocation.gpus]
        assert len(indices) == waiting.needs.gpus
        assert set(waiting.needs.gpu_ids) <= set(indices)
        assert placement.allocation.cpus == waiting.needs.cpus


@given(views())
def test_no_card_stays_idle_while_something_fits(view: View) -> None:
    for placement in plan(view, NOON):
        view.dequeue(placement.key)
        view.take(str(placement.key), placement.allocation)

    for waiting in view.line():
        assert not isinstance(fit(waiting.needs, view.rooms.values()), Fits)


@given(views())
def test_the_first_in_line_is_placed_when_there_is_room_for_it(view: View) -> None:
    first = next(view.line(), None)
    if first is not None and isinstance(fit(first.needs, view.rooms.values()), Fits):
        assert plan(view, NOON)[0].key == first.key


@given(views())
def test_planning_twice_gives_the_same(view: View) -> None:
    assert plan(view, NOON) == plan(view, NOON)
