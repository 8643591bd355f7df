"""Nobody waits for ever, no promise is broken, and cards are not kept idle for longer than said."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.key import TaskKey
from stoker.scheduler.plan import Plan
from stoker.scheduler.policy import Policy
from tests.helpers.builders import a_spec
from tests.helpers.scheduling import a_node

from .day import HOUR, Coming, Day, a_day
from .strategies import NODES, OWNERS, specs

LONGEST_S = 6 * HOUR
DAY = timedelta(hours=24)

positive = st.builds(
    Policy,
    order=st.sampled_from(["balance", "fifo", "fairshare"]),
    weights=st.fixed_dictionaries({owner: st.integers(1, 3) for owner in OWNERS}),
)


@st.composite
def coming(draw: st.DrawFn, *, limits: bool, most: int = 12) -> list[Coming]:
    """Exclusive tasks in one queue; with `limits` each ends within its own."""
    spec = specs(modes=("exclusive",), queues=("",), pinned=False)
    found = []
    for _ in range(draw(st.integers(1, most))):
        asked = draw(spec)
        limit = draw(st.sampled_from([HOUR, 3 * HOUR, LONGEST_S])) if limits else None
        fields = {"gpus": asked.gpus, "cpus": asked.cpus, "gpu_model": asked.gpu_model}
        found.append(
            Coming(
                after_s=draw(st.integers(0, 8)) * HOUR // 2,
                owner=draw(st.sampled_from(OWNERS)),
                spec=a_spec(nodes=asked.nodes, time_limit_s=limit, **fields),
                runs_s=draw(st.integers(1, 12)) * (limit or LONGEST_S) // 12,
            )
        )
    return found


def mixed(draw: st.DrawFn) -> list[Coming]:
    found = [*draw(coming(limits=True, most=6)), *draw(coming(limits=False, most=6))]
    return draw(st.permutations(found))


@given(positive, st.composite(mixed)())
def test_everybody_starts_in_the_end(policy: Policy, tasks: list[Coming]) -> None:
    """Once all have waited a day, at worst one after the other."""
    day = a_day(NODES, [task for task in tasks if _can_run(task)], policy)
    day.run()

    bound = DAY + timedelta(seconds=(len(tasks) + 1) * LONGEST_S)
    assert set(day.started) == set(day.came)
    assert all(day.waited(key) <= bound for key in day.started)


@given(
    st.sampled_from(["balance", "fifo", "fairshare"]),
    st.integers(2, 4),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=4, max_size=12),
)
def test_an_endless_stream_of_small_tasks_does_not_starve_a_big_one(
    order: Literal["balance", "fifo", "fairshare"],
    gpus: int,
    people: int,
    lengths: list[tuple[int, bool]],
) -> None:
    """GPU Tasker's greedy skip: there the big one never starts. Its owner has small ones as well."""
    small = []
    for number in range(4 * 24 * 6):
        half_hours, has_limit = lengths[number % len(lengths)]
        runs_s = half_hours * HOUR // 2
        spec = a_spec(gpus=1, time_limit_s=runs_s if has_limit else None)
        small.append(Coming(number * 600, f"p{number % people}", spec, runs_s))
    big = Coming(after_s=3000, owner="p0", spec=a_spec(gpus=gpus), runs_s=HOUR)
    day = a_day([a_node("n1", gpus)], [*small, big], Policy(order=order))
    key = TaskKey(1 + day.coming.index(big))
    day.run(until=lambda day: key in day.started)

    longest = timedelta(seconds=max(one.runs_s for one in small))
    assert day.waited(key) <= DAY + (people + 1) * longest, "everybody else had a turn, and it"


@given(positive, coming(limits=True))
def test_backfill_never_delays_a_start_that_was_foreseen(
    policy: Policy, tasks: list[Coming]
) -> None:
    promised: dict[TaskKey, datetime] = {}

    def watch(day: Day, planned: Plan) -> None:
        for placement in planned.placements:
            assert day.now <= promised.get(placement.key, day.now)
        for held in planned.reservations.values():
            assert held.start is not None, "every end is known"
            promised[held.key] = min(held.start, promised.get(held.key, held.start))
            assert day.now <= promised[held.key], "it should have started by now"

    day = a_day(NODES, [task for task in tasks if _can_run(task)], policy)
    day.run(watch)
    assert set(day.started) == set(day.came)


@given(positive, st.composite(mixed)())
def test_cards_are_kept_idle_for_two_hours_at_a_time_and_for_a_day_s_wait_without_end(
    policy: Policy, tasks: list[Coming]
) -> None:
    """Of starts that cannot be foreseen; a plan says when it wants to look again."""
    keep = timedelta(seconds=policy.keep_s)

    def watch(day: Day, planned: Plan) -> None:
        for held in planned.reservations.values():
            if held.start is not None or held.since is None:
                continue
            waited = day.now - day.came[TaskKey(held.key.id)]
            if waited < DAY:
                assert day.now < held.since + keep
                assert planned.wake_at is not None
                assert planned.wake_at <= held.since + keep

    a_day(NODES, [task for task in tasks if _can_run(task)], policy).run(watch)


def _can_run(task: Coming) -> bool:
    """Some of what is drawn is too large for this lab; flow refuses such a task."""
    day = a_day(NODES, [task])
    day.run()
    return bool(day.started)
