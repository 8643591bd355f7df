"""Labs in the middle of a working day, drawn: some tasks run, some wait, not all nodes are well."""

from __future__ import annotations

from hypothesis import strategies as st

from stoker.domain.key import TaskKey
from stoker.domain.sweep import array_of
from stoker.domain.task import TaskSpec
from stoker.scheduler.policy import Policy

from .lab import Lab
from .strategies import HOUR, NODES, arrays, loads, owners, policies, rarely, specs

Queue = list[tuple[str, TaskSpec]]
"""Who hands in what."""


@st.composite
def labs(
    draw: st.DrawFn,
    policy: st.SearchStrategy[Policy] | None = None,
    spec: st.SearchStrategy[TaskSpec] | None = None,
    *,
    trouble: bool = True,
) -> Lab:
    """A lab after some rounds of submitting, planning and finishing; the last tasks are new."""
    lab = Lab(draw(policies() if policy is None else policy))
    for node in draw(st.lists(st.sampled_from(NODES), min_size=1, unique_by=lambda n: n.name)):
        lab.node_up(node)
    handed_in = st.lists(st.tuples(owners, with_arrays() if spec is None else spec), max_size=5)
    rounds = draw(st.integers(0, 2))
    for _ in range(rounds):
        submit(lab, draw(handed_in))
        lab.carry_out(lab.plan())
        lab.passes(draw(st.sampled_from([0, HOUR, 2 * HOUR, 25 * HOUR])))
        for attempt in draw(st.lists(st.sampled_from(["", *lab.world.runs]), unique=True)):
            if attempt:
                lab.free(attempt)
        if trouble:
            _something_happens(draw, lab)
    submit(lab, draw(handed_in))
    return lab


@st.composite
def settled_labs(draw: st.DrawFn, policy: st.SearchStrategy[Policy] | None = None) -> Lab:
    """A lab in which everything was started that may start."""
    lab = draw(labs(policy))
    assert settle(lab), "planning does not come to an end"
    return lab


def with_arrays() -> st.SearchStrategy[TaskSpec]:
    return st.one_of(specs(), specs(), arrays())


def submit(lab: Lab, handed_in: Queue) -> list[TaskKey]:
    """In this order, with the next free numbers."""
    made = []
    for owner, spec in handed_in:
        key = TaskKey(1 + max((id for id, _ in lab.seen), default=0))
        array = array_of(spec)
        folded = None if array is None else array.indices
        lab.enqueue(key, owner, spec, position=10 * key.id, folded=folded)
        made.append(key)
    return made


def settle(lab: Lab) -> bool:
    """Carry out plans until one has nothing more to start."""
    for _ in range(20):
        planned = lab.plan()
        lab.carry_out(planned)
        if not planned.placements:
            return True
    return False


def _something_happens(draw: st.DrawFn, lab: Lab) -> None:
    name = draw(st.sampled_from(sorted(lab.world.machines)))
    kind = draw(st.sampled_from(["nothing", "nothing", "down", "drained", "sample"]))
    if kind == "down":
        lab.node_down(name)
    elif kind == "drained":
        lab.drain(name, "broken")
    elif kind == "sample":
        node = next(node for node in NODES if node.name == name)
        lab.sample(name, draw(loads(node, lab.on_cards(name))))
    if draw(rarely(True, False)):
        for node in NODES:
            lab.node_up(node)
