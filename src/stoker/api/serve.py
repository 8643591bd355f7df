"""The HTTP server: uvicorn, set up for us.

Streams are ended first at shutdown, so that no open one holds it up, and whoever takes nothing is
cut off at its end. A request's head is bounded (uvicorn bounds none). The listening socket is made
here because asyncio turns off Nagle's delay (40 ms per answer) only for sockets that say they are
TCP, which a plain `socket.socket()` does not.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .app import App

GRACEFUL_S = 3
"""Answers under way at shutdown have this long."""
BACKLOG = 1024
MOST_HEAD_BYTES = 1 << 20
"""Request line and headers. More than one read of the socket, so that no body is taken for it."""


class Server(uvicorn.Server):
    """Serves one App. `serve(sockets=[listen(...)])` runs it, `ask_to_exit` ends it."""

    def __init__(self, app: App, tls: ssl.SSLContext | None = None) -> None:
        self._app = app
        super().__init__(
            uvicorn.Config(
                app,
                http=BoundedProtocol,
                loop="asyncio",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=GRACEFUL_S,
                ssl_context_factory=None if tls is None else lambda _config, _usual: tls,
            )
        )

    def ask_to_exit(self) -> None:
        """Begin to shut down. May be called again."""
        self.should_exit = True

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.close()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # a client that takes nothing would never let it close
        await asyncio.sleep(0)


class BoundedProtocol(HttpToolsProtocol):
    """One connection, whose request heads end somewhere."""

    _in_head = False
    _head_bytes = 0

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._in_head = False
                self.send_400_response("Too much before the body.")

    @override
    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    @override
    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; OSError when the address is taken or not ours."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
    )[0]
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError:
        found.close()
        raise
    return found
