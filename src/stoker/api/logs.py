"""A task's output: by offset as bytes, or as a live stream of text.

A stream reads one piece when its client has taken the one before, so it holds one piece at most.
It can be resumed at any `next`: a character is never split, so pieces joined are the output.
"""

from __future__ import annotations

import asyncio
import codecs
from typing import Annotated, Any, Literal

from msgspec import Meta

from stoker.domain.errors import EngineUnreachable, UnknownLog, UnknownTask
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.sweep import array_of
from stoker.flow import logs
from stoker.flow.context import Flow
from stoker.flow.logs import LogPart
from stoker.wire import LogPiece

from .answer import BINARY, Answer, to_json
from .query import MOST_INTEGER, Query, parse_integer
from .route import Call, route
from .streams import KEEP_ALIVE, KEEP_ALIVE_S, EventStream, Frames, frame

MOST_BYTES = 1 << 20
PIECE_BYTES = 128 << 10
POLL_S = 0.5
"""Output is no event, so nobody tells us: this is how late it may be seen."""
PAUSE_S = 0.05
"""Between two looks that found nothing, however many events other tasks make."""
UNREACHABLE_S = 2.0

_Stream = Annotated[Literal["stdout", "stderr"], Meta(description="Which output")]
_Offset = Annotated[
    int,
    Meta(
        description="Byte to begin at; negative counts from the end",
        ge=-MOST_INTEGER,
        le=MOST_INTEGER,
    ),
]
_Attempt = Annotated[
    str, Meta(description="An attempt's id; the last one if left out", min_length=1, max_length=64)
]


class LogQuery(Query, frozen=True, kw_only=True):
    stream: _Stream = "stdout"
    offset: _Offset = 0
    limit: Annotated[int, Meta(description="Bytes at most", ge=1, le=MOST_BYTES)] = MOST_BYTES
    attempt: _Attempt | None = None


class LogStreamQuery(Query, frozen=True, kw_only=True):
    stream: _Stream = "stdout"
    offset: _Offset = 0
    attempt: _Attempt | None = None


@route(
    "GET",
    "/tasks/{id}/log",
    access="person",
    scope="tasks:read",
    task="read",
    query=LogQuery,
    answer=bytes,
    media_type="application/octet-stream",
    headers={
        "Stoker-Offset": "Where these bytes begin in the output",
        "Stoker-Next-Offset": "Where the following ones will",
        "Stoker-Size": "Bytes of the output at this moment",
        "Stoker-Ended": "`true` when the attempt is over: the size will not grow",
    },
)
async def read_log(call: Call[LogQuery, None]) -> Answer:
    """Bytes of a task's output."""
    query = call.query
    try:
        part = await logs.read(
            call.parts.flow,
            call.key,
            stream=query.stream,
            offset=query.offset,
            limit=query.limit,
            attempt=query.attempt,
        )
    except (UnknownTask, UnknownLog) as error:
        raise await _said_better(call, error) from None
    headers = [
        *BINARY,
        (b"stoker-offset", b"%d" % part.offset),
        (b"stoker-next-offset", b"%d" % (part.offset + len(part.data))),
        (b"stoker-size", b"%d" % part.size),
        (b"stoker-ended", b"true" if part.ended else b"false"),
    ]
    return Answer(part.data, headers=headers)


@route(
    "GET",
    "/tasks/{id}/log/stream",
    access="person",
    scope="tasks:read",
    task="read",
    query=LogStreamQuery,
    answer=bytes,
    media_type="text/event-stream",
    refusals=(429,),
)
async def stream_log(call: Call[LogStreamQuery, None]) -> EventStream:
    """A task's output as it is written: LogPiece events with `next` as id, then `end` with the
    TaskView. Resumable by Last-Event-ID; waits for a task that has not started."""
    key, query = call.key, call.query
    offset = query.offset
    last = call.header(b"last-event-id")
    if last is not None:
        offset = parse_integer(last, field="Last-Event-ID")
    offset = await _begin(call, offset)
    return call.parts.streams.answer(_follow(call, key, offset), call.who)


ROUTES = (read_log, stream_log)


async def _said_better(
    call: Call[Any, None], error: UnknownTask | UnknownLog
) -> UnknownTask | UnknownLog:
    """An array has no output of its own, and an element may wait without being in the records."""
    if error.code not in ("unknown_task", "no_attempt_yet"):
        return error
    task = await call.task()
    if not task.is_array:
        return UnknownLog("no_attempt_yet", id=str(task.key))
    array = array_of(task.spec)
    first = TaskKey(task.id, array.indices.nth(0)) if array is not None else task.key
    return UnknownLog("array_log", id=str(task.key), first=str(first))


async def _begin(call: Call[LogStreamQuery, None], offset: int) -> int:
    """Where to begin. Raises what can be refused now, while there is still a status to refuse by."""
    query = call.query
    try:
        part = await logs.read(
            call.parts.flow,
            call.key,
            stream=query.stream,
            offset=0,
            limit=0,
            attempt=query.attempt,
        )
    except EngineUnreachable:
        if offset < 0:
            raise
        return offset
    except (UnknownTask, UnknownLog) as error:
        better = await _said_better(call, error)
        if better.code != "no_attempt_yet":
            raise better from None
        return max(offset, 0)
    return offset if offset >= 0 else max(0, part.size + offset)


async def _follow(call: Call[LogStreamQuery, None], key: TaskKey, position: int) -> Frames:
    flow, query = call.parts.flow, call.query
    clock = asyncio.get_running_loop().time
    attempt, over, said = query.attempt, False, clock()
    while not over:
        seen = flow.news.last  # before looking, so that what comes meanwhile wakes us
        pause = KEEP_ALIVE_S
        if attempt is None:
            task = await call.task()
            attempt, over = task.attempt, task.attempt is None and task.state is State.FINISHED
        if attempt is not None:
            part = await _look(flow, key, attempt, query.stream, position)
            pause = UNREACHABLE_S if part is None else POLL_S
            if part is not None:
                piece = _piece(part, attempt)
                position = max(position, piece.next)
                over = part.ended and position >= part.size
                if piece.text:
                    said = clock()
                    yield frame(to_json(piece), id=piece.next)
                    continue
        if over:
            break
        if clock() - said >= KEEP_ALIVE_S:
            said = clock()
            yield KEEP_ALIVE
        await asyncio.sleep(PAUSE_S)
        await flow.news.after(seen, pause)
    yield frame(to_json(call.shown(await call.task())), event="end", id=position)


async def _look(
    flow: Flow, key: TaskKey, attempt: str, stream: str, position: int
) -> LogPart | None:
    """What there is from `position` on; None while the node is out of reach."""
    try:
        return await logs.read(
            flow, key, stream=stream, offset=position, limit=PIECE_BYTES, attempt=attempt
        )
    except EngineUnreachable:
        return None


def _piece(part: LogPart, attempt: str) -> LogPiece:
    """The whole characters of `part`. An unfinished one at its end waits for the rest of it."""
    after = part.offset + len(part.data)
    at_end = part.ended and after >= part.size
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(part.data, final=at_end)
    if not text and part.data and after < part.size:
        text = decoder.decode(b"", final=True)  # its rest was not kept: it will never be whole
    kept = len(decoder.getstate()[0])
    return LogPiece(attempt=attempt, offset=part.offset, next=after - kept, text=text)
