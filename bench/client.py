"""A keep-alive HTTP client that costs little itself: a figure is about the server, not about it.

Requests are bytes made beforehand. One connection is a client that waits for each answer; `many`
drives several of them, each sending its next request when its last one was answered.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self

import msgspec

ANSWER_S = 120.0


class BadAnswer(Exception):
    """The server refused, or said something that is no HTTP."""


class Connection:
    """One client. `get` and `post` wait for the answer and give its body."""

    def __init__(self, host: str, port: int, token: str = "") -> None:
        self._head = f"Host: {host}:{port}\r\n"
        if token:
            self._head += f"Authorization: Bearer {token}\r\n"
        self.socket = socket.create_connection((host, port), timeout=ANSWER_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pending = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.socket.close()

    def get(self, path: str) -> bytes:
        return self.exchange(self.request("GET", path))

    def post(self, path: str, value: object) -> bytes:
        return self.exchange(self.request("POST", path, value))

    def request(self, method: str, path: str, value: object = None) -> bytes:
        """A whole request as bytes, to be sent as often as wanted."""
        body = b"" if value is None else msgspec.json.encode(value)
        head = f"{method} {path} HTTP/1.1\r\n{self._head}"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return head.encode("ascii") + b"\r\n" + body

    def exchange(self, request: bytes) -> bytes:
        self.socket.sendall(request)
        while (answer := self.receive()) is None:
            pass
        return answer

    def receive(self) -> bytes | None:
        """The body of an answer once it is whole. Reads what there is, once."""
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise BadAnswer("the server closed the connection")
        self._pending += piece
        head, blank, body = self._pending.partition(b"\r\n\r\n")
        if not blank:
            return None
        lower = head.lower()
        _, found, rest = lower.partition(b"\r\ncontent-length:")
        length = int(rest.partition(b"\r\n")[0]) if found else 0
        if len(body) < length:
            return None
        self._pending = body[length:]
        if not lower.startswith((b"http/1.1 200", b"http/1.1 201")):
            raise BadAnswer(f"{head[:40]!r}: {body[:300]!r}")
        return body[:length]


def many(connections: list[Connection], requests: Iterable[bytes]) -> int:
    """Send all requests over these connections, one at a time on each. The number answered."""
    left: Iterator[bytes] = iter(requests)
    answered = 0
    with selectors.DefaultSelector() as ready:
        for connection in connections:
            _send_next(ready, connection, left, first=True)
        while ready.get_map():
            events = ready.select(ANSWER_S)
            if not events:
                raise BadAnswer("no answer")
            for key, _ in events:
                connection = key.data
                if connection.receive() is not None:
                    answered += 1
                    _send_next(ready, connection, left, first=False)
    return answered


def _send_next(
    ready: selectors.BaseSelector, connection: Connection, left: Iterator[bytes], *, first: bool
) -> None:
    request: Any = next(left, None)
    if request is not None:
        connection.socket.sendall(request)
        if first:
            ready.register(connection.socket, selectors.EVENT_READ, connection)
    elif not first:
        ready.unregister(connection.socket)
