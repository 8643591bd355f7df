"""Virtual time: who waits how long under which policy, on loads small enough to count by hand."""

from __future__ import annotations

import pytest
from bench.trace.compare import POLICIES, compare, span
from bench.trace.load import Job, Load
from bench.trace.replay import Outcome, replay

from stoker.domain.node import Gpu, Node
from stoker.scheduler.needs import Needs

HOUR = 3600


def a_load(*jobs: Job, nodes: int = 1, cards: int = 2) -> Load:
    gpus = [tuple(Gpu(c, f"n{n}-{c}", "A100", 40_960) for c in range(cards)) for n in range(nodes)]
    found = tuple(
        Node(name=f"n{number}", cpus=16, memory_mib=65_536, gpus=have)
        for number, have in enumerate(gpus)
    )
    return Load("small", "by hand", found, tuple(sorted(jobs, key=lambda job: job.at)))


def a_job(
    at: int, runs_s: int, gpus: int = 1, owner: str = "ana", limit_s: int | None = None
) -> Job:
    return Job(at, owner, Needs(gpus=gpus), (runs_s,), limit_s)


def run(load: Load, policy: str) -> Outcome:
    return replay(load, POLICIES[policy](load))


def waits(outcome: Outcome) -> list[tuple[int, int]]:
    """(handed over, waited), by the first."""
    return sorted((start.job.at, start.wait_s) for start in outcome.starts)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_fits_starts_in_the_second_it_comes(policy: str) -> None:
    outcome = run(a_load(a_job(5, 10), a_job(7, 10)), policy)
    assert waits(outcome) == [(5, 0), (7, 0)]
    assert outcome.idle_card_s == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_what_does_not_fit_starts_in_the_second_room_is_made(policy: str) -> None:
    outcome = run(a_load(a_job(0, 100, gpus=2), a_job(10, 5, gpus=2)), policy)
    assert waits(outcome) == [(0, 0), (10, 90)]


def a_stream() -> Load:
    """A task of two cards among many of one, of which always one runs beyond the other's end."""
    small = [a_job(at, 1000, owner="bo", limit_s=1500) for at in range(0, 20_000, 500)]
    return a_load(a_job(700, 100, gpus=2), *small)


def test_first_fit_lets_the_large_one_starve_and_the_scheduler_does_not() -> None:
    starved, kept = run(a_stream(), "first-fit"), run(a_stream(), "fifo")
    assert dict(waits(starved))[700] > 18_000
    assert dict(waits(kept))[700] <= 1500


def test_cards_that_are_kept_though_somebody_could_use_them_are_counted() -> None:
    """From 10 to 100 the free card is kept for the large task; the small one would need it."""
    load = a_load(
        a_job(0, 100, limit_s=100), a_job(5, 50, gpus=2, owner="bo"), a_job(10, 500, owner="cy")
    )
    assert run(load, "fifo").idle_card_s == 90
    assert run(load, "first-fit").idle_card_s == 0


def test_a_cap_of_an_array_holds_and_its_elements_wait_one_by_one() -> None:
    sweep = Job(0, "ana", Needs(gpus=1), (10, 20, 30), is_array=True, cap=1)
    for policy in POLICIES:
        outcome = run(a_load(sweep), policy)
        assert sorted(start.wait_s for start in outcome.starts) == [0, 10, 30], policy
        assert outcome.idle_card_s == 0, policy


def test_utilisation_is_of_the_time_in_which_jobs_arrive() -> None:
    outcome = run(a_load(a_job(0, 1000, gpus=1), a_job(200, 1000, gpus=1)), "balance")
    assert outcome.utilisation == pytest.approx(0.5)


def test_parts_of_cards_count_as_parts() -> None:
    half = Needs(gpus=1, mode="shared", gpu_memory_mib=20_480)
    load = a_load(*(Job(at, "ana", half, (1000,)) for at in (0, 0, 100)), cards=1)
    outcome = run(load, "balance")
    assert waits(outcome) == [(0, 0), (0, 0), (100, 900)]
    assert outcome.utilisation == pytest.approx(1)


def test_the_same_load_gives_the_same_table() -> None:
    def table() -> list[str]:
        rows = compare(a_stream()).splitlines()[4:-1]
        assert len(rows) == len(POLICIES)
        return [row.rpartition("card h")[0] for row in rows]

    assert table() == table()


def test_spans_are_told_in_fitting_units() -> None:
    assert [span(s) for s in (0, 99, 100, 5999, 2 * HOUR)] == [
        "0 s",
        "99 s",
        "2 min",
        "100 min",
        "2.0 h",
    ]
