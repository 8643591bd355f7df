"""A socket in the runner's loop: whole lines in, buffered bytes out, never a blocking call.

A peer that does not read is dropped when too much waits for it: it reconnects and gets a complete
listing, so nothing is lost. Optional lines (samples) are left out long before that.
"""

from __future__ import annotations

import selectors
import socket
from typing import Callable

_CHUNK = 1 << 18
_LONGEST_LINE = 64 << 20
_MOST_WAITING = 256 << 20
_BUSY = 1 << 20


class Stream:
    """One connection. `on_line` gets each line without its newline; `on_close` comes once."""

    def __init__(
        self,
        sock: socket.socket,
        selector: selectors.BaseSelector,
        on_line: Callable[[bytes], None],
        on_close: Callable[[], None],
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._selector = selector
        self._on_line = on_line
        self._on_close = on_close
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._is_open = True
        selector.register(sock, selectors.EVENT_READ, self._act)

    def send(self, raw: bytes) -> None:
        """Send now, or as soon as the peer reads."""
        if not self._is_open:
            return
        is_idle = not self._outgoing
        self._outgoing += raw
        if is_idle:
            self._flush()
        if len(self._outgoing) > _MOST_WAITING:
            self.close()

    def offer(self, raw: bytes) -> None:
        """Send unless the peer is behind."""
        if len(self._outgoing) < _BUSY:
            self.send(raw)

    def close(self) -> None:
        """Drop the connection."""
        if self._is_open:
            self._is_open = False
            self._selector.unregister(self._sock)
            self._sock.close()
            self._on_close()

    def _act(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._flush()
        if mask & selectors.EVENT_READ and self._is_open:
            self._receive()

    def _flush(self) -> None:
        try:
            sent = self._sock.send(self._outgoing)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        del self._outgoing[:sent]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        if self._selector.get_key(self._sock).events != events:
            self._selector.modify(self._sock, events, self._act)

    def _receive(self) -> None:
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or len(self._incoming) > _LONGEST_LINE:
            self.close()
            return
        start = len(self._incoming)
        self._incoming += data
        if self._incoming.find(b"\n", start) < 0:
            return
        *lines, rest = bytes(self._incoming).split(b"\n")
        self._incoming = bytearray(rest)
        for line in lines:
            if self._is_open:
                self._on_line(line)
