"""Pauses before another try: they double, and they end somewhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from stoker.flow.retry import after_failure, after_never_ran
from tests.helpers.builders import NOON


@pytest.mark.parametrize(
    ("after", "pauses", "longest"),
    [
        (after_never_ran, [1, 2, 4, 8, 16, 32, 60, 60], 60),
        (after_failure, [10, 20, 40, 80, 160, 320, 600, 600], 600),
    ],
)
def test_pauses_double_up_to_the_longest(
    after: Callable[[datetime, int], datetime], pauses: list[int], longest: int
) -> None:
    found = [(after(NOON, times) - NOON).total_seconds() for times in range(1, 9)]

    assert found == pauses
    assert (after(NOON, 1_000_000) - NOON).total_seconds() == longest
