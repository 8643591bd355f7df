"""What is left to chance in a run, and what the server's clock shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from msgspec import Struct
from typing_extensions import override

from .loop import VirtualLoop

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
"""When every scenario begins."""


class Chances(Struct, frozen=True):
    """What is left to chance, for comparing two runs of one seed."""

    steady: bool = False
    """Delays are always the same, nothing is lost, and only the clock goes wrong."""
    clock_turns: bool = True

    def random(self, seed: str) -> Random:
        return _Steady(seed) if self.steady else Random(seed)


class _Steady(Random):
    """Always the usual: what one part draws changes nothing for another."""

    @override
    def random(self) -> float:
        return 0.999

    @override
    def choice(self, seq: Any) -> Any:
        return seq[0]


class WallClock:
    """What the server's clock shows. It may be turned; virtual time goes on regardless."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.off_s = 0.0

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self._loop.time() + self.off_s)
