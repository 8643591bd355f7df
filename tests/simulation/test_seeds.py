"""Many seeds, each a cluster with people and faults: no promise is broken.

STOKER_SEEDS says how many (`make soak` takes thousands). A failing seed prints its last lines and
the command that shows all of them.
"""

from __future__ import annotations

import os

import pytest

from .__main__ import describe
from .chances import Chances
from .scenario import ACTS, make_scenario
from .simulation import run

SEEDS = int(os.environ.get("STOKER_SEEDS", "300"))
CHUNKS = 20
FIRST_OF_CLOCK, THEMES = 7, 9


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_promise_is_broken(chunk: int) -> None:
    seeds = range(chunk, SEEDS, CHUNKS)
    broken = [describe(result) for result in map(run, seeds) if result.violations]
    assert not broken, "\n\n".join(broken)


def test_every_seed_has_enough_events_and_faults() -> None:
    for seed in range(100):
        moments = make_scenario(seed).moments
        assert sum(moment.kind == "act" for moment in moments) >= ACTS >= 200
        assert sum(moment.kind == "fault" for moment in moments) >= 3


@pytest.mark.parametrize("seed", range(FIRST_OF_CLOCK, FIRST_OF_CLOCK + 4 * THEMES, THEMES))
def test_a_turned_clock_changes_no_order(seed: int) -> None:
    """R13: of tasks that name no time and no limit."""
    turned = run(seed, chances=Chances(steady=True, clock_turns=True))
    right = run(seed, chances=Chances(steady=True, clock_turns=False))
    assert _placed(turned.lines) == _placed(right.lines)
    assert len(_placed(right.lines)) > 20


def _placed(lines: list[str]) -> list[str]:
    """Which tasks were placed, in order; times and ids of attempts differ."""
    return [" ".join(line.split()[2:5]) for line in lines if " commit Placed " in line]
