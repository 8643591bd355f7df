"""What every answer carries for everybody: the announcement, and that scheduling is paused.

So that no client has to ask for it. While there is neither, nothing is added and nothing is spent.
Only who is known is told: a caller that was let in, or has just logged in.
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec
from litestar.types import Message, Scope, Send

from stoker.lab.book import Book

from .answer import Headers
from .route import CALLER

ANNOUNCEMENT, PAUSED = b"stoker-announcement", b"stoker-paused"
"""Percent-encoded UTF-8: the text; JSON of who, since when and why."""
TOLD = frozenset({"announcement", "pause"})


class Tidings:
    def __init__(self, book: Book) -> None:
        self._book = book
        self.headers: Headers = []
        self._follow(TOLD)
        book.listen(self._follow)

    def telling(self, scope: Scope, send: Send) -> Send:
        """The same, with the headers on the answer."""

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_known(scope, message["status"]):
                message["headers"] = [*message["headers"], *self.headers]
            await send(message)

        return tell

    def _follow(self, kinds: frozenset[str]) -> None:
        if not kinds & TOLD:
            return
        said, pause = self._book.announcement, self._book.pause
        self.headers = []
        if said is not None:
            self.headers.append((ANNOUNCEMENT, _encoded(said.text)))
        if pause is not None:
            self.headers.append((PAUSED, _encoded(msgspec.json.encode(pause).decode())))


def _is_known(scope: Scope, status: int) -> bool:
    """An open route that changes something and does not refuse is a log-in."""
    return CALLER in scope or (scope.get("method") == "POST" and status < 300)


def _encoded(text: str) -> bytes:
    return quote(text, safe=" !$&'()*+,/:;=?@[]{}").encode("ascii")
