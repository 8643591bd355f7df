"""The timer that wakes the loop: one at a time, never too late, never spinning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker.flow.alarm import LONGEST_S, SHORTEST_S, set_alarm
from stoker.flow.context import Flow
from tests.helpers.builders import NOON, at


class Timers:
    """Stands for the loop: what was asked of it, and what was taken back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.delays: list[float] = []
        self.cancelled = 0
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def call_later(self, delay: float, _call: Callable[[], None]) -> Any:
        self.delays.append(delay)
        return SimpleNamespace(cancel=self._cancel)

    def _cancel(self) -> None:
        self.cancelled += 1


def a_flow() -> Flow:
    return cast("Flow", SimpleNamespace(alarm=None, replan=lambda: None))


@pytest.mark.parametrize(
    ("moment", "delay"),
    [
        (at(7), 7.0),
        (at(0.001), SHORTEST_S),
        (at(-3600), SHORTEST_S),
        (at(10**7), LONGEST_S),
    ],
)
def test_how_long_it_sleeps(
    monkeypatch: pytest.MonkeyPatch, moment: datetime, delay: float
) -> None:
    timers = Timers(monkeypatch)
    set_alarm(a_flow(), moment, NOON)
    assert timers.delays == [delay]


def test_there_is_one_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, flow = Timers(monkeypatch), a_flow()
    set_alarm(flow, at(5), NOON)
    set_alarm(flow, at(6), NOON)
    set_alarm(flow, None, NOON)

    assert (timers.delays, timers.cancelled, flow.alarm) == ([5.0, 6.0], 2, None)
