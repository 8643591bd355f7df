"""`python -m bench.trace FOLDER`: a real trace, then a lab's day; `--lab`: only the day.

Exit code 2 when the trace is not there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .alibaba import NoTrace, read
from .compare import compare
from .lab import the_day

EVERY = 120
"""The cluster is far too large for its load: on this part of its nodes there is waiting."""
UNHURRIED = ("first-fit", "balance")
"""Where nobody ever waits, the policies are one; these two show that."""


def main(words: list[str] | None = None) -> int:
    options = _options(words)
    if not options.lab:
        try:
            trace = read(options.folder)
        except NoTrace as error:
            print(f"bench.trace: {error}", file=sys.stderr)
            return 2
        print(compare(trace.load(1), UNHURRIED) + "\n", flush=True)
        print(compare(trace.load(options.every)) + "\n", flush=True)
    print(compare(the_day()))
    return 0


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.trace", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where the trace's csv files are")
    parser.add_argument("--lab", action="store_true", help="only the made-up day")
    parser.add_argument(
        "--every", type=int, default=EVERY, help=f"replay on every so manieth node too ({EVERY})"
    )
    options = parser.parse_args(words)
    if options.folder is None and not options.lab:
        parser.error("name the folder of a trace, or say --lab")
    if options.every < 1:
        parser.error("--every must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
