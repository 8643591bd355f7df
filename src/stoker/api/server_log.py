"""The server's log: for everybody what happened, in words; for admins the log itself.

Streams go on where the client was: a cursor says up to which event of the records and which line of
this server it has read. Lines of a server that is gone are gone with it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from typing import Annotated

from msgspec import Meta

from stoker.access.caller import Caller
from stoker.domain.errors import InvalidSpec
from stoker.wire_admin import JournalLine, JournalPage, NewsLine, NewsPage

from .answer import to_json
from .news import of_diary, of_tasks
from .query import Query
from .route import Call, Parts, route
from .sight import Sight
from .streams import KEEP_ALIVE, KEEP_ALIVE_S, EventStream, Frames, frame

PAGE = 500
LOOK_S = 0.5
"""The log itself is looked at so often while somebody follows it."""
RAW_EVENTS = 4
"""So many events are read for one line: most are no news."""
_CURSOR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9]{1,18})", re.ASCII)


class LogQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(description="Lines at most, the newest", ge=1, le=2000)] = 100


class FollowQuery(Query, frozen=True, kw_only=True):
    after: Annotated[
        str, Meta(description="`next` of a page: what came after it", max_length=60)
    ] = ""


@route("GET", "/server-log", access="person", scope="tasks:read", query=LogQuery, answer=NewsPage)
async def server_log(call: Call[LogQuery, None]) -> NewsPage:
    """What happened lately: tasks, nodes, pauses, announcements. Nothing private."""
    parts, limit = call.parts, call.query.limit
    flow, last, number = parts.flow, parts.readers.last_seq(), parts.flow.diary.last
    rows = parts.readers.owned_events_after(max(0, last - limit * RAW_EVENTS), limit * RAW_EVENTS)
    lines = await of_tasks(flow, rows, call.sight, call.language)
    lines += of_diary(flow.diary.after(0, limit), call.language)
    lines.sort(key=lambda line: line.at)
    return NewsPage(lines=tuple(lines[-limit:]), next=_cursor(parts, last, number))


@route(
    "GET",
    "/server-log/stream",
    access="person",
    scope="tasks:read",
    query=FollowQuery,
    answer=bytes,
    media_type="text/event-stream",
    refusals=(429,),
)
async def stream_server_log(call: Call[FollowQuery, None]) -> EventStream:
    """The same as it happens: `line` with a NewsLine. Resumable by Last-Event-ID."""
    parts = call.parts
    begin = _begin(call, (parts.readers.last_seq(), parts.flow.diary.last))
    return parts.streams.answer(_follow(parts, call.who, call.language, *begin), call.who)


@route("GET", "/server-log/full", access="admin", scope="admin", query=LogQuery, answer=JournalPage)
async def full_server_log(call: Call[LogQuery, None]) -> JournalPage:
    """The newest lines of the server's own log, as it wrote them since it started."""
    journal = call.parts.journal
    lines = journal.after(0, call.query.limit)
    number = lines[-1][0] if lines else 0
    return JournalPage(
        lines=tuple(JournalLine(text=text) for _, text in lines),
        next=_cursor(call.parts, 0, number),
    )


@route(
    "GET",
    "/server-log/full/stream",
    access="admin",
    scope="admin",
    query=FollowQuery,
    answer=bytes,
    media_type="text/event-stream",
    refusals=(429,),
)
async def stream_full_server_log(call: Call[FollowQuery, None]) -> EventStream:
    """The same as it is written: `line` with a JournalLine. Resumable by Last-Event-ID."""
    _, number = _begin(call, (0, call.parts.journal.last))
    return call.parts.streams.answer(_follow_journal(call.parts, number), call.who)


ROUTES = (server_log, stream_server_log, full_server_log, stream_full_server_log)


async def _follow(parts: Parts, who: Caller, language: str, seq: int, number: int) -> Frames:
    flow, readers = parts.flow, parts.readers
    while True:
        seen = flow.news.last  # before looking, so that what comes meanwhile wakes us
        rows = readers.owned_events_after(seq, PAGE)
        written = flow.diary.after(number, PAGE)
        lines: list[NewsLine] = await of_tasks(flow, rows, Sight(flow, who), language)
        lines += of_diary(written, language)
        seq = rows[-1].seq if rows else seq
        number = written[-1].number if written else number
        if lines:
            lines.sort(key=lambda line: line.at)
            cursor = _cursor(parts, seq, number)
            yield b"".join(frame(to_json(line), event="line", id=cursor) for line in lines)
        if not rows:
            event = flow.news.after(max(seen, seq), 2 * KEEP_ALIVE_S)
            woken = await _any(event, flow.diary.written(number))
            if not woken:
                yield KEEP_ALIVE


async def _follow_journal(parts: Parts, number: int) -> Frames:
    quiet_s = 0.0
    while True:
        lines = parts.journal.after(number, PAGE)
        if lines:
            number, quiet_s = lines[-1][0], 0.0
            yield b"".join(
                frame(to_json(JournalLine(text=text)), event="line", id=_cursor(parts, 0, at))
                for at, text in lines
            )
        elif quiet_s >= KEEP_ALIVE_S:
            quiet_s = 0.0
            yield KEEP_ALIVE
        await asyncio.sleep(LOOK_S)
        quiet_s += LOOK_S


async def _any(*waits: Awaitable[None]) -> bool:
    """Wait for the first of these; False when nothing came for so long that one must say so."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(
            tasks, timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
        )
        return bool(done)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _cursor(parts: Parts, seq: int, number: int) -> str:
    return f"{seq}-{number}-{parts.flow.epoch}"


def _begin(call: Call[FollowQuery, None], now: tuple[int, int]) -> tuple[int, int]:
    """Where the client was; of another server only the event counts. Else from now on."""
    last = call.header(b"last-event-id")
    given, name = (last, "Last-Event-ID") if last is not None else (call.query.after, "after")
    if not given:
        return now
    found = _CURSOR.fullmatch(given)
    if found is None:
        raise InvalidSpec("bad_log_cursor", field=name)
    seq, number, epoch = map(int, found.groups())
    return min(seq, now[0]), number if epoch == call.parts.flow.epoch else 0
