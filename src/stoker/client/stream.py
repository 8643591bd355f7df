"""One connection of server-sent events, read as it comes. Reconnecting is the caller's.

Half a message at the end of a connection is dropped: it comes again after a reconnect, because
only whole messages move the resume point.
"""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

QUIET_S = 45.0
"""A stream that says nothing for this long (not even a keep-alive) is dead."""


class Message(NamedTuple):
    event: str
    data: str
    id: str


class Stream:
    """A request for events, sent and answered; `response.status` says how."""

    def __init__(
        self, connection: http.client.HTTPConnection, target: str, headers: Mapping[str, str]
    ) -> None:
        self._connection = connection
        # The answer may take the socket away from the connection; its timeout is still ours.
        self._socket = connection.sock
        connection.request("GET", target, headers=dict(headers))
        self.response = connection.getresponse()

    def messages(self, deadline: float | None) -> Iterator[Message]:
        """What arrives until the connection or the time ends."""
        event, id = "", ""
        data: list[str] = []
        while (line := self._line(deadline)) is not None:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                event = value
            elif name == "data":
                data.append(value)
            elif name == "id":
                id = value
            elif not line:
                if data or event:
                    yield Message(event, "\n".join(data), id)
                event, id, data = "", "", []

    def _line(self, deadline: float | None) -> str | None:
        left = QUIET_S if deadline is None else min(QUIET_S, deadline - time.monotonic())
        if left <= 0:
            return None
        try:
            self._socket.settimeout(left)
            line = self.response.readline()
        except (OSError, http.client.HTTPException):
            return None
        return line.decode("utf-8", "replace").rstrip("\r\n") if line.endswith(b"\n") else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.response.close()
        self._connection.close()
