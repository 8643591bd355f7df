"""Streams go at their client's pace, say that they live, and end when told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from stoker.access.caller import NOBODY, the_one
from stoker.api.errors import Refused, status_of
from stoker.api.streams import Streams, frame
from stoker.domain.errors import EngineUnreachable

SCOPE: Any = {"type": "http", "method": "GET", "path": "/x", "headers": []}


class Client:
    """The other end of an ASGI connection. Takes only as many bodies as it is told to."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.may_take = asyncio.Semaphore(0)
        self.gone = asyncio.Event()

    async def receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message.get("more_body"):
            await self.may_take.acquire()
        self.sent.append(message)

    def take(self, count: int) -> None:
        for _ in range(count):
            self.may_take.release()

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.sent if message.get("body")]


class Source:
    """Frames that count how many were asked for."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.count, self.error = count, error
        self.asked = 0
        self.closed = False

    async def frames(self) -> AsyncGenerator[bytes, None]:
        try:
            for number in range(self.count):
                self.asked += 1
                yield b"%d" % number
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_frame() -> None:
    assert frame(b"{}") == b"data: {}\n\n"
    assert frame(b"{}", event="end", id=7) == b"event: end\nid: 7\ndata: {}\n\n"


async def test_everything_arrives_and_the_end_is_said() -> None:
    source, client = Source(3), Client()
    client.take(3)
    await Streams().answer(source.frames(), NOBODY)(SCOPE, client.receive, client.send)
    assert client.bodies == [b"0", b"1", b"2"]
    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert source.closed


async def test_nothing_is_made_before_the_client_takes_what_was() -> None:
    source, client, streams = Source(1000), Client(), Streams()
    running = asyncio.create_task(
        streams.answer(source.frames(), NOBODY)(SCOPE, client.receive, client.send)
    )
    await settle()
    assert (source.asked, streams.open) == (1, 1)
    client.take(2)
    await settle()
    assert source.asked == 3
    client.gone.set()
    await running
    assert source.closed
    assert streams.open == 0


async def test_close_ends_every_stream_also_a_stalled_one() -> None:
    streams = Streams()
    sources, clients = [Source(1000) for _ in range(5)], [Client() for _ in range(5)]
    running = [
        asyncio.create_task(
            streams.answer(source.frames(), NOBODY)(SCOPE, client.receive, client.send)
        )
        for source, client in zip(sources, clients, strict=True)
    ]
    await settle()
    assert streams.open == 5
    streams.close()
    await asyncio.wait_for(asyncio.gather(*running), 5)
    assert all(source.closed for source in sources)
    assert all(client.sent[-1]["more_body"] is False for client in clients)
    late = Client()
    await streams.answer(Source(1000).frames(), NOBODY)(SCOPE, late.receive, late.send)
    assert late.bodies == []


@pytest.mark.parametrize("error", [EngineUnreachable(), RuntimeError("secret words")])
async def test_an_error_ends_the_stream_without_its_words(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client()
    client.take(1)
    with caplog.at_level("INFO"):
        await Streams().answer(Source(1, error).frames(), NOBODY)(
            SCOPE, client.receive, client.send
        )
    assert client.bodies == [b"0"]
    assert client.sent[-1]["more_body"] is False
    assert "event=" in caplog.text
    assert "secret words" not in caplog.text


async def test_a_client_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.api.streams.EventStream.stalled_s", 0.01)
    source, client = Source(1000), Client()
    await asyncio.wait_for(
        Streams().answer(source.frames(), NOBODY)(SCOPE, client.receive, client.send), 5
    )
    assert (client.bodies, source.closed) == ([], True)


async def test_one_person_cannot_take_the_streams_of_others() -> None:
    allowed = 1
    streams, ana, bo = Streams(most_each=lambda: allowed), the_one("ana"), the_one("bo")
    source, client = Source(1), Client()
    task = asyncio.create_task(
        streams.answer(source.frames(), ana)(SCOPE, client.receive, client.send)
    )
    await settle()
    with pytest.raises(Refused) as refused:
        streams.answer(Source(1).frames(), ana)
    assert (refused.value.code, status_of(refused.value)) == ("too_many_streams", 429)
    assert refused.value.values == {"most": 1}
    assert streams.answer(Source(0).frames(), bo) is not None
    allowed = 2  # the lab has decided otherwise: no restart
    assert streams.answer(Source(0).frames(), ana) is not None
    allowed = 1
    client.take(1)
    await task
    assert streams.answer(Source(0).frames(), ana) is not None


async def test_too_many_streams_are_refused() -> None:
    streams = Streams(most=1)
    client = Client()
    running = asyncio.create_task(
        streams.answer(Source(10).frames(), NOBODY)(SCOPE, client.receive, client.send)
    )
    await settle()
    with pytest.raises(Refused) as refused:
        streams.answer(Source(1).frames(), NOBODY)
    assert status_of(refused.value) == 429
    client.gone.set()
    await running
    assert streams.answer(Source(0).frames(), NOBODY) is not None
