"""Which elements an array has: sets of indices, kept as ranges, and the text that names them.

A million elements are one pair of numbers; nothing here costs more than the number of ranges.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

MOST_ELEMENTS = 1_000_000
HIGHEST_INDEX = 10**9

Range = tuple[int, int]


class Indices(Struct, frozen=True):
    """A set of indices, as disjoint, ascending closed ranges that do not touch."""

    ranges: tuple[Range, ...] = ()

    @classmethod
    def only(cls, *indices: int) -> Indices:
        """Exactly these, in any order."""
        return cls(_joined((index, index) for index in sorted(indices)))

    @classmethod
    def of_ranges(cls, ranges: Iterable[Range]) -> Indices:
        """All of these ranges, in any order; they may overlap."""
        return cls(_joined(sorted(ranges)))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        at = bisect_right(self.ranges, (index, HIGHEST_INDEX))
        return at > 0 and index <= self.ranges[at - 1][1]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def nth(self, number: int) -> int:
        """The index with so many lower ones. IndexError when there are not that many."""
        left = number
        for first, last in self.ranges:
            if 0 <= left <= last - first:
                return first + left
            left -= last - first + 1
        raise IndexError(number)

    def without(self, index: int) -> Indices:
        """The others."""
        at = bisect_right(self.ranges, (index, HIGHEST_INDEX)) - 1
        if at < 0 or index > self.ranges[at][1]:
            return self
        first, last = self.ranges[at]
        rest = ((first, index - 1), (index + 1, last))
        left = tuple(part for part in rest if part[0] <= part[1])
        return Indices(self.ranges[:at] + left + self.ranges[at + 1 :])

    def also(self, index: int) -> Indices:
        """These and this one."""
        return self if index in self else Indices.of_ranges((*self.ranges, (index, index)))

    def minus(self, others: Indices) -> Indices:
        """Those that are not among the others."""
        left: list[Range] = []
        taken = iter((*others.ranges, (HIGHEST_INDEX + 1, HIGHEST_INDEX + 1)))
        low, high = next(taken)
        for first, last in self.ranges:
            begin = first
            while high < begin:
                low, high = next(taken)
            while low <= last:
                if begin < low:
                    left.append((begin, low - 1))
                begin = high + 1
                if begin > last:
                    break
                low, high = next(taken)
            if begin <= last:
                left.append((begin, last))
        return Indices(tuple(left))

    def text(self) -> str:
        """As a person writes it: `0-9,15`."""
        return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in self.ranges)


class ArraySpec(Struct, frozen=True):
    """What the field `array` says."""

    indices: Indices
    cap: int | None = None
    """At most so many elements at a time."""

    def text(self) -> str:
        return self.indices.text() + ("" if self.cap is None else f"%{self.cap}")


_NUMBER = "(?:0|[1-9][0-9]{0,9})"
_ARRAY = re.compile(
    rf"{_NUMBER}(?:-{_NUMBER})?(?:,{_NUMBER}(?:-{_NUMBER})?)*(?:%[1-9][0-9]{{0,9}})?"
)


def read_array(text: str) -> ArraySpec | None:
    """What `text` says, however large; None when it does not read like `0-9,15%4`."""
    return _read_short(text) if len(text) <= _SHORT else _read_long(text)


def _read(text: str) -> ArraySpec | None:
    if _ARRAY.fullmatch(text) is None:
        return None
    listed, _, cap = text.partition("%")
    ranges: list[Range] = []
    for part in listed.split(","):
        first, _, last = part.partition("-")
        ranges.append((int(first), int(last or first)))
    if any(not a <= b <= HIGHEST_INDEX for a, b in ranges):
        return None
    return ArraySpec(Indices.of_ranges(ranges), int(cap) if cap else None)


_SHORT = 200
_read_short = lru_cache(1024)(_read)
_read_long = lru_cache(32)(_read)


def _joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Ascending ranges, with those that touch made one."""
    made: list[Range] = []
    for first, last in ranges:
        if made and first <= made[-1][1] + 1:
            made[-1] = (made[-1][0], max(made[-1][1], last))
        else:
            made.append((first, last))
    return tuple(made)
