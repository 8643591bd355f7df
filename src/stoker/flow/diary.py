"""What happened to the lab itself, for everybody to read: nodes, pauses, announcements.

Tasks' own events are in the records; these are not, and a restart forgets them. The newest few
thousand are kept. Nothing private comes in here: whoever writes a line writes it for everybody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from msgspec import Struct

MOST = 2000


class Line(Struct, frozen=True):
    number: int
    """From 1 on, since the server started."""
    at: datetime
    code: str
    values: dict[str, Any]


class Diary:
    def __init__(self, most: int = MOST) -> None:
        self._lines: deque[Line] = deque(maxlen=most)
        self._written = asyncio.Event()
        self.last = 0
        """The number of the newest line."""

    def write(self, at: datetime, code: str, **values: Any) -> None:
        self.last += 1
        self._lines.append(Line(self.last, at, code, values))
        self._written.set()
        self._written = asyncio.Event()

    def after(self, number: int, most: int) -> list[Line]:
        """The newest `most` lines with a higher number, oldest first."""
        return list(reversed(list(islice(self._newer(number), most))))

    async def written(self, number: int) -> None:
        """Returns when there is a line with a higher number."""
        while self.last <= number:
            await self._written.wait()

    def _newer(self, number: int) -> Iterator[Line]:
        for line in reversed(self._lines):
            if line.number <= number:
                return
            yield line
