"""Mutants are noticed in a few seeds of the theme where they show soonest.

`python -m tests.simulation.mutants` looks for all of them in the first 200 seeds, and prints the
score.
"""

from __future__ import annotations

import pytest

from .broken import MUTANTS
from .mutants import first_caught, seeds_of

MOST = 20
RARE = frozenset({"cancel-forgotten-at-restart", "room-leaks", "successors-not-told"})
"""These show in few histories: there is no time for them in every run of the tests."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - RARE))
def test_a_broken_rule_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    seeds = [mutant.seed, *seeds_of(mutant.theme, MOST)]
    assert first_caught(name, seeds) is not None, f"{name} was not noticed in {seeds}"


def test_those_left_out_are_looked_for_elsewhere() -> None:
    assert MUTANTS.keys() >= RARE
