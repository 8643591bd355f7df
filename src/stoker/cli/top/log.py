"""The end of a task's output, read again and again while somebody looks at it.

What a terminal would act on is taken out, colours too; of a line that was written over with
carriage returns (a progress bar) the last state is shown. A log that is no longer the same (the
task was tried again) begins afresh.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.cli.harmless import Harmless
from stoker.cli.screen import clean
from stoker.client import Client, Refused

from .model import Written

FIRST_BYTES = 65536
"""So much of the end is read to begin with."""
CHUNK_BYTES = 1 << 18
MOST_PENDING = 20_000
"""Characters of a line without an end that are kept."""

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


class LogTail:
    """Of one task. A reader calls `read` from time to time."""

    def __init__(self, id: str) -> None:
        self.id = id
        self._offset: int | None = None
        self._harmless = Harmless()
        self._pending, self._refused = "", ""

    def read(self, client: Client) -> Iterator[Written]:
        """What is new. A refusal (it has not started) is shown once, in place of output."""
        while True:
            try:
                offset = -FIRST_BYTES if self._offset is None else self._offset
                part = client.log(self.id, offset=offset, limit=CHUNK_BYTES)
            except Refused as error:
                if error.message != self._refused:
                    self._refused = error.message
                    text = " ".join(filter(None, (error.message, error.hint)))
                    yield Written(self.id, [], clean(text), afresh=True)
                return
            if self._offset is not None and part.size < self._offset:
                self._begin_afresh()
                continue
            first, self._refused = self._offset is None, ""
            self._offset = part.next
            if first or part.data:
                yield self._written(part.data, afresh=first)
            if not part.data or part.next >= part.size:
                return

    def _begin_afresh(self) -> None:
        self._offset, self._harmless, self._pending = None, Harmless(), ""

    def _written(self, data: bytes, afresh: bool) -> Written:
        text = self._pending + _COLOUR.sub("", self._harmless.feed(data))
        *whole, self._pending = text.split("\n")
        self._pending = self._pending[-MOST_PENDING:]
        return Written(self.id, [_shown(line) for line in whole], _shown(self._pending), afresh)


def _shown(line: str) -> str:
    """What a terminal would show of it in the end."""
    last = line.rstrip("\r").rpartition("\r")[2]
    return clean(last.replace("\b", "").expandtabs(8))
