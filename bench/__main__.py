"""`python -m bench [FIGURE ...] [--rounds N] [--quick]`: measures, prints one table.

Exit code 1 when a figure could not be measured; a bar that is not reached is said in the table.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from pathlib import Path

from .figure import Figure, Reading, Result
from .figures import FIGURES
from .machine import describe, workplace
from .report import number, table

ROUNDS = 7
QUICK_ROUNDS, QUICK_SCALE = 3, 0.2


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that we clean up
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    results: list[Result] = []
    failed: dict[str, str] = {}
    with workplace(options.dir) as folder:
        print(describe(folder), flush=True)
        if options.quick:
            print(f"quick: sizes x {QUICK_SCALE}; say nothing about the design's sizes")
        for name in options.figure or FIGURES:
            figure = FIGURES[name]
            try:
                scale = QUICK_SCALE if options.quick else 1.0
                results += _measure(figure, folder, min(rounds, figure.rounds or rounds), scale)
            except Exception as error:
                traceback.print_exc()
                failed[name] = f"{type(error).__name__}: {error}"
    print("\n" + table(results, failed))
    print("\nwaiting and utilisation under each policy: python -m bench.trace FOLDER | --lab")
    return 1 if failed else 0


def _measure(figure: Figure, folder: Path, rounds: int, scale: float) -> list[Result]:
    print(f"\n{figure.name}: {figure.about}", flush=True)
    own = folder / figure.name
    own.mkdir()
    begun = time.monotonic()
    results = [Result(line, []) for line in figure.lines]
    with figure.ready(own, scale) as measure:
        for done in range(rounds):
            readings = measure()
            for result, reading in zip(results, readings, strict=True):
                result.readings.append(reading)
            print(f"  round {done + 1}: {', '.join(map(_said, readings))}", flush=True)
    print(f"  took {time.monotonic() - begun:.0f} s", flush=True)
    return results


def _said(reading: Reading) -> str:
    if reading.yardstick is None:
        return number(reading.ours)
    return f"{number(reading.ours)} / {number(reading.yardstick)}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("figure", nargs="*", help=f"any of: {', '.join(FIGURES)}; all by default")
    parser.add_argument("--rounds", type=int, help=f"rounds per figure ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller sizes")
    parser.add_argument("--dir", type=Path, help="keep state below this folder while measuring")
    options = parser.parse_args()
    for name in options.figure:
        if name not in FIGURES:
            parser.error(f"no figure {name!r}; there are: {', '.join(FIGURES)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
