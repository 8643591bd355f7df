"""How far long work is: one line on a terminal that is written over, nothing anywhere else."""

from __future__ import annotations

import sys
import time

from stoker.text.amounts import memory

from .say import words

PAUSE_S = 0.1
MIB = 1 << 20


class Line:
    """Called with what is done; `end` wipes it away."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._last = 0.0
        self._is_there = False

    def bytes(self, what: str, done: int, total: int) -> None:
        """`what` is a step of a backup or a restore."""
        of = f" {_size(done)} / {_size(total)}" if total else ""
        self._show(words(f"progress.{what}") + of, is_last=done >= total)

    def rows(self, table: str, done: int, total: int) -> None:
        self._show(f"{table} {done} / {total}", is_last=done >= total)

    def end(self) -> None:
        if self._is_there:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._is_there = False

    def _show(self, line: str, *, is_last: bool) -> None:
        now = time.monotonic()
        if self._shows and (is_last or now - self._last >= PAUSE_S):
            self._last, self._is_there = now, True
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def _size(count: int) -> str:
    return memory(-(-count // MIB))
