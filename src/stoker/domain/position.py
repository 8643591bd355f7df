"""Places in line. Numbers far apart, so that a task moves between two others by itself.

A lower position comes first; equal ones are ordered by id. Positions may be negative.
"""

from __future__ import annotations

GAP = 2**32
"""Between neighbours that nobody has moved: thirty-two moves to one and the same place."""


def first_position(id: int) -> int:
    """Where a new task goes: behind everything that was submitted before it."""
    return id * GAP


def between(low: int | None, high: int | None) -> int | None:
    """A position strictly between; None as a bound = an open end. None = there is no room left."""
    if low is None and high is None:
        return 0
    if low is None:
        return None if high is None else high - GAP
    if high is None:
        return low + GAP
    return (low + high) // 2 if high - low > 1 else None
