"""What one person may take of the server itself, so that the others are served as well.

Limits are the lab's settings (`domain/rules.py`); 0 switches one off, and one person alone has none.
Counting is in memory: a restart forgives. Who is refused is told how long to wait, and nothing of
his call is done.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable

from stoker.domain.errors import RequestError, StoreDown
from stoker.lab.book import Book

MOST_REMEMBERED = 10_000
LOOK_AT_DISK_S = 5.0
ROUNDING = 1e-6
"""Moments are floats: whoever waits as told may seem to come a hair too early."""


class FairUse:
    def __init__(
        self, book: Book, home: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._book, self._home, self._monotonic = book, home, monotonic
        self._buckets: dict[str, tuple[float, float]] = {}
        """What is left of each person's burst, and when that was so."""
        self._disk = (-math.inf, 0)
        """When the disk was last looked at, and how full it was, in percent."""

    def take(self, person: str, spec_bytes: int) -> None:
        """This person hands something over. Raises RequestError, or StoreDown for a full disk."""
        rules = self._book.rules
        if rules.spec_bytes and spec_bytes > rules.spec_bytes:
            raise RequestError("task_too_large", most=rules.spec_bytes, size=spec_bytes)
        if rules.disk_full_percent and self.disk_percent() >= rules.disk_full_percent:
            raise StoreDown("disk_nearly_full", percent=self.disk_percent())
        if rules.submits_per_s:
            self._take(person, rules.submits_per_s, rules.submits_burst)

    def disk_percent(self) -> int:
        """How full the disk of the state folder is, as it was a moment ago."""
        seen, percent = self._disk
        now = self._monotonic()
        if now - seen >= LOOK_AT_DISK_S:
            found = os.statvfs(self._home)
            used = found.f_blocks - found.f_bfree
            percent = math.ceil(100 * used / max(1, used + found.f_bavail))
            self._disk = (now, percent)
        return percent

    def _take(self, person: str, per_s: int, burst: int) -> None:
        now = self._monotonic()
        left, at = self._buckets.get(person, (float(burst), now))
        left = min(float(burst), left + (now - at) * per_s)
        if left < 1 - ROUNDING:
            wait_s = math.ceil((1 - left) / per_s)
            raise RequestError("too_many_submits", per_s=per_s, retry_after_s=wait_s)
        if len(self._buckets) >= MOST_REMEMBERED and person not in self._buckets:
            self._buckets.clear()
        self._buckets[person] = (left - 1, now)
