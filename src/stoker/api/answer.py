"""What goes back: bytes that are ready to send, with the headers every answer carries.

Nothing here may be cached, sniffed, framed or read by another site. No server banner (the server
is started without one).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from litestar.types import Receive, Scope, Send

Headers = list[tuple[bytes, bytes]]

GUARDS: Headers = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
JSON: Headers = [(b"content-type", b"application/json"), *GUARDS]
BINARY: Headers = [
    (b"content-type", b"application/octet-stream"),
    (b"content-disposition", b"attachment"),
    *GUARDS,
]
EVENT_STREAM: Headers = [(b"content-type", b"text/event-stream; charset=utf-8"), *GUARDS]

_encode = msgspec.json.Encoder().encode


class Answer:
    """A whole answer, as an ASGI application."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, body: bytes, status: int = 200, headers: Headers = JSON) -> None:
        self.body, self.status, self.headers = body, status, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [*self.headers, (b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def json_answer(
    value: object, status: int = 200, extra: Iterable[tuple[bytes, bytes]] = ()
) -> Answer:
    """`value` as JSON: a struct of wire.py, or a list of them."""
    return Answer(_encode(value), status, [*JSON, *extra])


def to_json(value: object) -> bytes:
    return _encode(value)
