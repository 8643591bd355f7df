"""How long a task waits before it is tried again. Pure.

What never ran is tried again soon and often: it was not the task's fault. What failed is given
more time: the cause may need a person.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from stoker.scheduler.state import LONGEST_PAUSE

NEVER_RAN_S = (1, 60)
FAILED_S = (10, int(LONGEST_PAUSE.total_seconds()))
"""The first pause and the longest; each one is twice as long as the one before."""
MOST_DOUBLINGS = 30


def after_never_ran(now: datetime, times: int) -> datetime:
    """When to try again what did not begin, so many times in a row by now."""
    return now + timedelta(seconds=_pause(*NEVER_RAN_S, times))


def after_failure(now: datetime, times: int) -> datetime:
    """When to run again what failed, for the so-manieth time."""
    return now + timedelta(seconds=_pause(*FAILED_S, times))


def _pause(first: int, longest: int, times: int) -> int:
    return min(longest, first << min(times - 1, MOST_DOUBLINGS))
