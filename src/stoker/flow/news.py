"""Tells streams that something was recorded, without keeping anything for them."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class News:
    """The sequence number of the last committed event, and a way to wait for a higher one."""

    def __init__(self) -> None:
        self.last = 0
        self._changed = asyncio.Event()

    def publish(self, seq: int) -> None:
        self.last = max(self.last, seq)
        self._changed.set()
        self._changed = asyncio.Event()

    async def after(self, seq: int, timeout: float) -> None:  # noqa: ASYNC109 - part of its meaning
        """Returns when an event above `seq` is there, or the time is over."""
        if self.last <= seq:
            # asyncio.wait_for of Python 3.11 forgets a cancellation that comes together with the
            # news (gh-86296): a stream would go on that was ended
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
