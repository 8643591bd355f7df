"""`python -m tests.simulation.mutants`: every broken rule must be noticed.

Each mutant breaks exactly one rule, of the product or of the simulated supervisors. A simulation
that does not notice within 200 seeds is not worth much: the score says how many were caught.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable

from .broken import MUTANTS
from .scenario import THEMES
from .simulation import run

MOST_SEEDS = 200


def first_caught(name: str, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first of these seeds in which the mutant, and it alone, breaks a promise; and which."""
    for seed in seeds:
        with MUTANTS[name].make():
            result = run(seed, most=1)
        if result.violations and not run(seed, most=1).violations:
            return seed, str(result.violations[0])
    return None


def seeds_of(theme: str, count: int) -> range:
    """The first seeds of a theme."""
    first = THEMES.index(theme)
    return range(first, first + count * len(THEMES), len(THEMES))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants; all when none is named")
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, help="how many at most")
    arguments = parser.parse_args()
    names = arguments.names or list(MUTANTS)
    caught = 0
    for name in names:
        begun = time.monotonic()
        found = first_caught(name, range(arguments.seeds))
        took = time.monotonic() - begun
        caught += found is not None
        seed, what = found or ("-", f"NOT CAUGHT in {arguments.seeds} seeds")
        print(f"{name:32} seed {seed!s:>4}  {took:5.1f} s  {what}", flush=True)
    print(f"score: {caught} of {len(names)} mutants caught")
    return 0 if caught == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
