"""A file of finished tasks as it comes from the server, and proof at its end that it is whole.

The server ends it with a line `#rows N`, which is no part of the file and is taken off here. An
answer without that line was cut short, however politely the connection ended: behind some proxies
nothing else tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from typing_extensions import override

from .errors import ServerUnreachable

MOST_CLOSING = 32
_CLOSING = re.compile(rb"#rows ([0-9]{1,18})\n")


class Export(Iterator[bytes]):
    """Pieces of the file. `rows` is known after the last one."""

    def __init__(self, pieces: Iterator[bytes], url: str) -> None:
        self.rows: int | None = None
        self._url = url
        self._pieces = self._without_closing(pieces)

    @override
    def __next__(self) -> bytes:
        return next(self._pieces)

    def _without_closing(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        held = b""
        for piece in pieces:
            held += piece
            if len(held) > MOST_CLOSING:
                yield held[:-MOST_CLOSING]
                held = held[-MOST_CLOSING:]
        begin = held.rfind(b"#rows ")
        closing = _CLOSING.fullmatch(held, begin) if begin >= 0 else None
        if closing is None or held[:begin][-1:] not in (b"", b"\n"):
            raise ServerUnreachable("cut", self._url, "#rows")
        self.rows = int(closing[1])
        if begin:
            yield held[:begin]
