"""Wakes the loop when time alone may let something start.

One timer, replaced by every plan. It never sleeps longer than a minute while something waits for
a time: a clock that is set back or forward delays nobody for longer.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from .context import Flow

LONGEST_S = 60.0
SHORTEST_S = 0.005
"""A clock and a timer do not agree on the last millisecond: never spin on it."""


def set_alarm(flow: Flow, at: datetime | None, now: datetime) -> None:
    """Plan again at `at`; None: nothing waits for a time."""
    if flow.alarm is not None:
        flow.alarm.cancel()
        flow.alarm = None
    if at is not None:
        delay = min(max((at - now).total_seconds(), SHORTEST_S), LONGEST_S)
        flow.alarm = asyncio.get_running_loop().call_later(delay, flow.replan)
