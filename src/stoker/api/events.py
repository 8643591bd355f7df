"""What happened, in order: by page, or as a live stream.

A stream reads a page when its client has taken the one before and is woken by news; nothing is
kept for it. A cursor that is not of these records is answered with `reset`: load what you show
anew, then go on from its id. A stream without a cursor begins so too. Of a deleted task only
`Deleted` is left, and others' events may not be for everybody, so numbers may be missing.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from stoker.wire import EventPage, EventView

from .answer import to_json
from .query import MOST_INTEGER, Query, parse_integer
from .route import Call, route
from .streams import KEEP_ALIVE, KEEP_ALIVE_S, EventStream, Frames, frame

PAGE = 100

_After = Annotated[int, Meta(description="After this event's `seq`", ge=0, le=MOST_INTEGER)]


class EventsQuery(Query, frozen=True, kw_only=True):
    after: _After = 0
    limit: Annotated[int, Meta(description="Events at most", ge=1, le=500)] = PAGE


class EventStreamQuery(Query, frozen=True, kw_only=True):
    after: _After | None = None


@route("GET", "/events", access="person", scope="tasks:read", query=EventsQuery, answer=EventPage)
async def list_events(call: Call[EventsQuery, None]) -> EventPage:
    """Events of all tasks, oldest first."""
    readers, after = call.parts.readers, call.query.after
    last = readers.last_seq()
    if _is_stale(after, last):
        return EventPage(events=(), next=last, reset=True)
    events, following = _page(call, after, call.query.limit)
    return EventPage(events=events, next=following, reset=False)


@route(
    "GET",
    "/events/stream",
    access="person",
    scope="tasks:read",
    query=EventStreamQuery,
    answer=bytes,
    media_type="text/event-stream",
    refusals=(429,),
)
async def stream_events(call: Call[EventStreamQuery, None]) -> EventStream:
    """Events as they happen: `event` with an EventView; `reset` when the cursor
    is stale or there was none. Resumable by Last-Event-ID."""
    after = call.query.after
    last = call.header(b"last-event-id")
    if last is not None:
        after = _resumed(last, call.parts.readers.identity)
    return call.parts.streams.answer(_follow(call, after), call.who)


ROUTES = (list_events, stream_events)


def _page(call: Call[Any, None], after: int, limit: int) -> tuple[tuple[EventView, ...], int]:
    """What the caller sees of the next events, and the number of the last one that was looked at:
    others' may be left out."""
    readers, sight = call.parts.readers, call.sight
    read = readers.events_after if sight.is_whole else readers.owned_events_after
    rows = read(after, limit)
    return sight.events(rows), rows[-1].seq if rows else after


async def _follow(call: Call[EventStreamQuery, None], after: int | None) -> Frames:
    readers, news = call.parts.readers, call.parts.flow.news
    clock = asyncio.get_running_loop().time
    last = readers.last_seq()
    if after is None or _is_stale(after, last):
        after = last
        yield frame(b'{"last":%d}' % last, event="reset", id=_cursor(last, readers.identity))
    said = clock()
    while True:
        seen = news.last  # before looking, so that what comes meanwhile wakes us
        events, following = _page(call, after, PAGE)
        if events:
            after, said = following, clock()
            yield b"".join(_frame(event, readers.identity) for event in events)
            continue
        if following > after:  # only others': look on, but let others have their turn
            after = following
            await asyncio.sleep(0)
            continue
        await news.after(max(seen, after), said + KEEP_ALIVE_S - clock())
        if clock() - said >= KEEP_ALIVE_S:
            said = clock()
            yield KEEP_ALIVE


def _frame(event: EventView, identity: str) -> bytes:
    return frame(to_json(event), event="event", id=_cursor(event.seq, identity))


def _cursor(seq: int, identity: str) -> str:
    """Where a stream is, and in whose history: numbers of other records mean nothing here."""
    return f"{seq}.{identity[:12]}"


def _resumed(last: str, identity: str) -> int | None:
    """The number in a Last-Event-ID; None when it is of other records."""
    number, _, records = last.partition(".")
    seq = parse_integer(number, field="Last-Event-ID")
    return seq if records in ("", identity[:12]) else None


def _is_stale(after: int, last: int) -> bool:
    """Of another history: a restored or new database."""
    return after > last
