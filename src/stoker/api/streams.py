"""Server-sent events: each stream is read at the pace of its client, and all end at once.

Nothing is queued: a frame is made when the client has taken the one before. A client that takes
nothing is dropped. `Streams.close` ends every stream at shutdown, so that none holds it up; the
client comes back with the id of the last frame it had. A stream whose caller may no longer come in
(logged out, locked, expired) is ended within a second. One person has so many at once, as the lab
has decided (`streams_each`), so that others get some too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from litestar.types import Receive, Scope, Send

from stoker.access.caller import Caller
from stoker.domain.errors import AppError

from .answer import EVENT_STREAM
from .errors import Refused, log_unforeseen

log = logging.getLogger("stoker.api")

KEEP_ALIVE = b": still here\n\n"
KEEP_ALIVE_S = 15.0
STALLED_S = 60.0
"""A client that takes nothing for this long is dropped."""
MOST_STREAMS = 512
MOST_READING = 2
"""Streams that have a thread read for them at the same time: threads are for everybody."""

LOOK_S = 0.5
"""How late it may be noticed that the time of a token or an account is up."""

Frames = AsyncGenerator[bytes, None]


def frame(data: bytes, *, event: str = "", id: int | str | None = None) -> bytes:
    """One event. `data` is JSON, so it has no line ends."""
    head = f"event: {event}\n" if event else ""
    if id is not None:
        head += f"id: {id}\n"
    return b"%bdata: %b\n\n" % (head.encode(), data)


class Streams:
    """Every open stream."""

    def __init__(
        self,
        most: int = MOST_STREAMS,
        is_good: Callable[[Caller], bool] | None = None,
        most_each: Callable[[], int] = lambda: 0,
    ) -> None:
        """`is_good`: whether a caller may still come in; without it everybody may. `most_each`: how
        many one person may have now; 0 = as many as there may be."""
        self._most, self._is_good, self._most_each = most, is_good, most_each
        self._closing = asyncio.Event()
        self._watched: set[EventStream] = set()
        self._watching: asyncio.Task[None] | None = None
        self.reading = asyncio.Semaphore(MOST_READING)
        self.open = 0
        self._of: Counter[str] = Counter()
        """How many each person has open."""

    def answer(self, frames: Frames, who: Caller) -> EventStream:
        """A stream of these frames for this caller. Refused when there are too many already."""
        self.check(who)
        return EventStream(self, frames, who)

    def check(self, who: Caller) -> None:
        """Refuse when there are too many already, or this person has too many."""
        if self.open >= self._most:
            raise Refused("too_many_streams", most=self._most)
        each = self._most_each()
        if each and self._of[who.name] >= each:
            raise Refused("too_many_streams", most=each)

    def opened(self, who: Caller) -> None:
        self.open += 1
        self._of[who.name] += 1

    def ended(self, who: Caller) -> None:
        self.open -= 1
        self._of[who.name] -= 1
        if not self._of[who.name]:
            del self._of[who.name]

    def close(self) -> None:
        """End all streams, and every one that is opened from now on. May be called again."""
        self._closing.set()

    async def closed(self) -> None:
        await self._closing.wait()

    def review(self) -> None:
        """End those whose caller may no longer come in."""
        for stream in list(self._watched):
            if self._is_good is not None and not self._is_good(stream.who):
                stream.end()

    def watch(self, stream: EventStream) -> None:
        """From now on, until `unwatch`."""
        if self._is_good is None:
            return
        self._watched.add(stream)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._look())

    def unwatch(self, stream: EventStream) -> None:
        self._watched.discard(stream)

    async def _look(self) -> None:
        while self._watched:
            self.review()
            await asyncio.sleep(LOOK_S)


class EventStream:
    """One stream, as an ASGI application."""

    headers = EVENT_STREAM
    stalled_s = STALLED_S

    def __init__(self, streams: Streams, frames: Frames, who: Caller) -> None:
        self._streams, self._frames, self.who = streams, frames, who
        self._ended = asyncio.Event()
        self.is_whole = False
        """Every frame was sent."""

    def end(self) -> None:
        """Its caller may no longer read."""
        self._ended.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._streams.opened(self.who)
        self._streams.watch(self)
        tasks: list[asyncio.Task[None]] = []
        try:
            await send(
                {"type": "http.response.start", "status": 200, "headers": list(self.headers)}
            )
            tasks = [
                asyncio.create_task(self._pump(scope, send)),
                asyncio.create_task(_gone(receive)),
                asyncio.create_task(self._streams.closed()),
                asyncio.create_task(_set(self._ended)),
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.ended(self.who)
            self._streams.unwatch(self)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._frames.aclose()
        await self._finish(send)

    async def _finish(self, send: Send) -> None:
        with suppress(TimeoutError):  # a stalled client does not hold up the end
            async with asyncio.timeout(1):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, scope: Scope, send: Send) -> None:
        try:
            async for data in self._frames:
                async with asyncio.timeout(self.stalled_s):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                await asyncio.sleep(0)  # a fast log must not starve other requests
            self.is_whole = True
        except TimeoutError:
            log.info("event=stream_stalled path=%r", scope["path"])
        except AppError as error:
            # The status line is long gone. The client comes back and is refused properly.
            log.info("event=stream_ended path=%r code=%s", scope["path"], error.code)
        except Exception as error:
            log_unforeseen(error, scope)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _set(event: asyncio.Event) -> None:
    await event.wait()
