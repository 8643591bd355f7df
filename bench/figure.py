"""What a figure is: lines of the table, each with a bar, and a way to measure one round.

A round measures the yardstick, ours and the yardstick again, so that a machine that is busy for a
while slows both. Bars are ratios to the yardstick unless the design names an absolute
one. Nothing here measures.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple


class Reading(NamedTuple):
    """One round of one line."""

    ours: float
    yardstick: float | None
    """None where the bar is absolute."""


@dataclass(frozen=True)
class Bar:
    """What to reach. `of` says what is compared: the ratio to the yardstick, or ours as it is."""

    limit: float
    moonshot: float | None
    sense: Literal["at least", "at most"]
    of: Literal["ratio", "ours"] = "ratio"

    def holds(self, value: float, limit: float | None) -> bool:
        if limit is None:
            return False
        return value >= limit if self.sense == "at least" else value <= limit


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    name: str
    unit: str
    bar: Bar | None
    """None: shown for comparison, to be reached by nobody."""
    yardstick: str
    """What ours is compared with, in a few words."""


class Result(NamedTuple):
    """All rounds of one line."""

    line: Line
    readings: list[Reading]

    @property
    def ours(self) -> float:
        return statistics.median(reading.ours for reading in self.readings)

    @property
    def yardstick(self) -> float | None:
        found = [reading.yardstick for reading in self.readings if reading.yardstick is not None]
        return statistics.median(found) if found else None

    @property
    def ratios(self) -> list[float]:
        """One per round, sorted: a round's own yardstick is the fairest one for it."""
        return sorted(r.ours / r.yardstick for r in self.readings if r.yardstick)

    @property
    def is_ratio(self) -> bool:
        """Whether what counts is the ratio to the yardstick."""
        bar = self.line.bar
        return bool(self.ratios) if bar is None else bar.of == "ratio"

    @property
    def judged(self) -> float:
        """The number that the bar is for."""
        return statistics.median(self.ratios) if self.is_ratio else self.ours


Measure = Callable[[], tuple[Reading, ...]]
"""One round: one reading per line."""


@dataclass(frozen=True)
class Figure:
    name: str
    about: str
    lines: tuple[Line, ...]
    ready: Callable[[Path, float], AbstractContextManager[Measure]]
    """(folder for state, scale) to a measure; leaving the context cleans up. Scale 1 is the
    design's size; `--quick` asks for less."""
    rounds: int | None = None
    """At most this many rounds, where one takes long."""


def in_turn(ours: Callable[[], float], yardstick: Callable[[], float]) -> Reading:
    """The yardstick, ours, and the yardstick again: what it was at that time is their mean."""
    before = yardstick()
    measured = ours()
    return Reading(measured, (before + yardstick()) / 2)


def scaled(count: int, scale: float, least: int = 1) -> int:
    return max(least, round(count * scale))


def chunks(total: int, size: int) -> Iterator[range]:
    """range(total) in pieces of at most `size`."""
    for start in range(0, total, size):
        yield range(start, min(start + size, total))
