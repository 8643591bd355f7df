"""`python -m tests.simulation --seeds A-B`: run these seeds, and say what was broken."""

from __future__ import annotations

import argparse
import sys
import time

from .simulation import Result, run

SHOWN_LINES = 40


def describe(result: Result) -> str:
    """What a person needs to begin with a failing seed."""
    lines = [f"seed {result.seed} ({result.theme}):"]
    lines += [f"  {violation}" for violation in result.violations]
    lines += ["  ...", *(f"  {line}" for line in result.lines[-SHOWN_LINES:])]
    lines.append(f"again: python -m tests.simulation --seeds {result.seed}-{result.seed} --verbose")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-99", help="first and last, for example 0-99")
    parser.add_argument("--verbose", action="store_true", help="print whole histories")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    begun, failed, events = time.process_time(), 0, 0
    seeds = range(int(first), int(last or first) + 1)
    for seed in seeds:
        result = run(seed)
        events += len(result.lines)
        if arguments.verbose:
            print("\n".join(result.lines))
        if result.violations:
            failed += 1
            print(describe(result), flush=True)
    rate = len(seeds) / (time.process_time() - begun)
    print(
        f"{len(seeds)} seeds, {events} lines of history, {failed} with violations,"
        f" {rate:.1f} seeds per second of one core"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
