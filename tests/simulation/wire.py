"""The network between the server and a node: late, lossy, sometimes gone.

One connection keeps the order of what it carries from the node, as a stream does; orders to the
node may be late, doubled or out of order, since a runner may read an old connection after a new
one. What is on its way when a connection breaks is lost, or arrives all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from msgspec import Struct

from stoker.runner import protocol


class Weather(Struct):
    """How bad the network is."""

    latency_s: float = 0.002
    lose: float = 0.0
    double: float = 0.0
    jumble: float = 0.0
    """How likely an order is overtaken by later ones."""


class Listener(Protocol):
    """The runner's end."""

    def hear(self, connection: Connection, line: bytes) -> None: ...


class Connection:
    def __init__(self, runner: Listener, rng: Random, weather: Weather, slow: float) -> None:
        self._runner, self._rng, self._weather, self.slow = runner, rng, weather, slow
        self._loop = asyncio.get_running_loop()
        self.reader = asyncio.StreamReader(limit=64 << 20)
        self.writer: Any = _Writer(self)
        self.epoch = 0
        """As its greeting said, and when that came."""
        self.greeted = 0.0
        self.is_open = True
        self.cut = False
        """Nothing passes any more, and the server has not noticed yet."""
        self._last_up = self._last_down = 0.0

    @property
    def clear_at(self) -> float:
        """When all that is on its way now will have come."""
        return max(self._last_up, self._last_down)

    def to_node(self, line: bytes) -> None:
        if not self.is_open or self.cut:
            return
        rng, weather = self._rng, self._weather
        greeting = b'"Greeting"' in line
        if not greeting and rng.random() < weather.lose:
            return
        late = rng.random() < weather.jumble and not greeting
        when = self._loop.time() + self._delay() * (50 if late else 1)
        if not late:
            when = self._last_down = max(when, self._last_down + 1e-6)
        self._loop.call_at(when, self._deliver, line)
        if not greeting and rng.random() < weather.double:
            self._loop.call_at(
                when + self._delay() * rng.choice((1, 100, 2000)), self._deliver, line
            )

    def to_server(self, message: Any) -> None:
        if not self.is_open or self.cut:
            return
        kind = type(message).__name__
        if kind != "Hello" and self._rng.random() < self._weather.lose:
            return
        when = max(self._loop.time() + self._delay(), self._last_up + 1e-6)
        self._last_up = when
        line = protocol.line(message)
        self._loop.call_at(when, self._feed, line)
        if kind != "Hello" and self._rng.random() < self._weather.double:
            self._loop.call_at(when, self._feed, line)

    def break_off(self) -> None:
        """The server sees the end of the stream."""
        if self.is_open:
            self.is_open = False
            self.reader.feed_eof()

    def closed_by_server(self) -> None:
        """Also by its death. What it sent may still be read."""
        self.is_open = False
        if self._rng.random() < 0.5:
            self.cut = True

    def _delay(self) -> float:
        return self._weather.latency_s * self._rng.uniform(0.2, 3.0) * self.slow

    def _deliver(self, line: bytes) -> None:
        if not self.cut:
            self._runner.hear(self, line)

    def _feed(self, line: bytes) -> None:
        if self.is_open and not self.cut:
            self.reader.feed_data(line)


class _Writer:
    """What a link needs of an asyncio.StreamWriter."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(self, data: bytes) -> None:
        self._connection.to_node(data)

    def close(self) -> None:
        self._connection.closed_by_server()


class Wire:
    """A fleet transport to one simulated node. A dead server reaches nobody."""

    def __init__(
        self, open: Callable[[], Connection | None], rng: Random, alive: Callable[[], bool]
    ) -> None:
        self._open, self._rng, self._alive = open, rng, alive

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await asyncio.sleep(self._rng.uniform(0.001, 0.05))
        connection = self._open() if self._alive() else None
        if connection is None:
            raise OSError("no route to the node")
        return connection.reader, connection.writer

    async def replace(self) -> None:
        """Every runner here is the one we would start."""

    def accepts(self, hello: protocol.Hello) -> bool:
        return True
