"""The program `stoker`: parses, does, and leaves quickly."""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn

IMPORTS_DONE = 100_000
"""Objects made before the first garbage collection: importing makes many and drops none."""


def main() -> NoReturn:
    gc.set_threshold(IMPORTS_DONE)
    if sys.platform == "win32":
        import signal  # noqa: PLC0415

        # there a Ctrl-C is not seen while a socket is waited for, which is what commands do
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from stoker.cli.run import run  # noqa: PLC0415 - after the line above: it halves the start-up

    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        code = code or 1
    # Nothing is left to be done, and taking the interpreter apart costs a tenth of `stoker ls`.
    os._exit(code)


if __name__ == "__main__":
    main()
