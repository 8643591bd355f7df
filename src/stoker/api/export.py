"""Finished tasks as a file: CSV for people, JSON lines for programs. Reads only.

Millions of rows take one page of memory: a page is read and written by a thread when the client has
taken the one before. A file that is cut short never looks whole: when something goes wrong in the
middle the connection is closed without the end that HTTP wants, and with `closing` the last line
says how many rows there were, for clients behind a proxy that hides the cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

from litestar.types import Send
from msgspec import Meta, Struct
from typing_extensions import override

from stoker.access.caller import Caller
from stoker.domain.errors import Conflict, InvalidSpec, NotAllowed, UnknownTask
from stoker.domain.key import PLAIN, TaskKey, parse_key
from stoker.domain.outcome import Outcome
from stoker.flow import overview
from stoker.store.codec import to_us
from stoker.store.finished import FOREVER, FinishedRow, Place, Wanted
from stoker.store.readers import Readers

from .answer import GUARDS, Headers
from .query import Query
from .route import Call, route
from .streams import EventStream, Frames, Streams
from .table import COLUMNS, Column, Item, csv_head, csv_rows, item_of, json_lines, never_began

PAGE = 500
MOST_IDS = 1000
STALLED_S = 600.0
"""A reader such as `less` may take its time."""
CLOSING = "#rows {count}\n"

MEDIA: dict[str, Headers] = {
    "csv": [
        (b"content-type", b"text/csv; charset=utf-8"),
        (b"content-disposition", b'attachment; filename="stoker-tasks.csv"'),
        *GUARDS,
    ],
    "jsonl": [
        (b"content-type", b"application/x-ndjson"),
        (b"content-disposition", b'attachment; filename="stoker-tasks.jsonl"'),
        *GUARDS,
    ],
}

_Moment = Annotated[
    str, Meta(min_length=1, max_length=40, extra_json_schema={"format": "date-time"})
]


class ExportQuery(Query, frozen=True, kw_only=True):
    format: Annotated[Literal["csv", "jsonl"], Meta(description="CSV or JSON lines")] = "csv"
    id: Annotated[
        tuple[str, ...],
        Meta(description="Only these, in this order; without any filter", max_length=MOST_IDS),
    ] = ()
    last: (
        Annotated[int, Meta(description="At most so many rows, the newest", ge=1, le=2**62)] | None
    ) = None
    owner: (
        Annotated[str, Meta(description="Only this person's", min_length=1, max_length=200)] | None
    ) = None
    outcome: Annotated[Outcome, Meta(description="Only those that ended so")] | None = None
    since: (
        Annotated[_Moment, Meta(description="Ended then or later, ISO 8601 with a time zone")]
        | None
    ) = None
    until: Annotated[_Moment, Meta(description="Ended before that")] | None = None
    elements: Annotated[
        bool, Meta(description="One row for each element of an array instead of one for the array")
    ] = False
    column: Annotated[
        tuple[Column, ...],
        Meta(description="Only these columns, in this order", max_length=len(COLUMNS)),
    ] = ()
    closing: Annotated[
        bool, Meta(description="End with a line `#rows N`: without it the answer was cut short")
    ] = False


class Wish(Struct, frozen=True, kw_only=True):
    """What to write, checked."""

    wanted: Wanted
    begin: Place
    last: int | None
    elements: bool
    named: tuple[Item, ...]
    """Those that were asked for by id."""
    by_id: bool


@route(
    "GET",
    "/tasks/export",
    access="person",
    scope="tasks:read",
    query=ExportQuery,
    answer=bytes,
    media_type="text/csv, application/x-ndjson",
    refusals=(404, 409, 429),
)
async def export_tasks(call: Call[ExportQuery, None]) -> Download:
    """Finished tasks as a file, the newest end first: the caller's own, for admins everybody's.
    An array is one row with counts, or one row
    per element; it is there when all of it has ended."""
    query, parts = call.query, call.parts
    owner = _whose(call)
    for id in () if call.who.is_admin else query.id:
        await _permit(call, id)
    wish = await asyncio.to_thread(_wish, parts.readers, query, owner)
    if parts.flow.book.people and call.who.is_admin and query.owner != call.who.name:
        await call.note("tasks.export", f"tasks of {query.owner or 'everybody'}")
    columns = tuple(dict.fromkeys(query.column)) or COLUMNS
    chunks = _written(_pages(parts.readers, wish), columns, query, call.language)
    frames = _stepwise(chunks, parts.streams.reading)
    return Download(parts.streams, frames, MEDIA[query.format], call.who)


ROUTES = (export_tasks,)


class Download(EventStream):
    """A file that is sent as it is made."""

    stalled_s = STALLED_S

    def __init__(self, streams: Streams, chunks: Frames, headers: Headers, who: Caller) -> None:
        streams.check(who)
        super().__init__(streams, chunks, who)
        self.headers = headers

    @override
    async def _finish(self, send: Send) -> None:
        """Ends it only when it is whole: else the connection closes, and the client knows."""
        if self.is_whole:
            await super()._finish(send)


async def _stepwise(chunks: Iterator[bytes], reading: asyncio.Semaphore) -> Frames:
    """Each piece made by a thread, when it is wanted."""
    while True:
        async with reading:
            chunk = await asyncio.to_thread(next, chunks, None)
        if chunk is None:
            return
        yield chunk


def _written(
    pages: Iterable[list[Item]], columns: tuple[Column, ...], query: ExportQuery, language: str
) -> Iterator[bytes]:
    write = csv_rows if query.format == "csv" else json_lines
    count = 0
    if query.format == "csv":
        yield csv_head(columns)
    for page in pages:
        count += len(page)
        yield write(page, columns, language)
    if query.closing:
        yield CLOSING.format(count=count).encode()


def _pages(readers: Readers, wish: Wish) -> Iterator[list[Item]]:
    """The rows of the file, some at a time."""
    left = wish.last
    whole = [list(wish.named)] if wish.by_id else _whole(readers, wish)
    for page in whole:
        for part in _unfolded(readers, wish, page) if wish.elements else [page]:
            some = part if left is None else part[:left]
            if some:
                yield some
            if left is not None:
                left -= len(some)
                if left <= 0:
                    return


def _whole(readers: Readers, wish: Wish) -> Iterator[list[Item]]:
    """Tasks and arrays, the newest end first."""
    size = PAGE if wish.last is None or wish.elements else min(PAGE, wish.last)
    place = wish.begin
    while rows := readers.finished.page(wish.wanted, place, size):
        yield [item_of(row) for row in rows]
        place = rows[-1].place


def _unfolded(readers: Readers, wish: Wish, page: list[Item]) -> Iterator[list[Item]]:
    """The same with the elements of arrays in their place."""
    outcome, plain = wish.wanted.outcome, list[Item]()
    for item in page:
        if not item.is_array:
            plain.append(item)
            continue
        yield plain
        plain = []
        for elements in _elements(readers, item):
            yield [one for one in elements if outcome in ("", one.task.outcome)]
    yield plain


def _elements(readers: Readers, array: Item) -> Iterator[list[Item]]:
    """Every element of a finished array by index, also those that never became a row."""
    id = int(array.task.id)
    rows = _rows(readers, id)
    row = next(rows, None)
    found: list[Item] = []
    for index in array.indices:
        if row is not None and row.key.element == index:
            found.append(item_of(row))
            row = next(rows, None)
        else:
            found.append(never_began(array, id, index))
        if len(found) >= PAGE:
            yield found
            found = []
    yield found


def _rows(readers: Readers, id: int) -> Iterator[FinishedRow]:
    beyond = PLAIN
    while rows := readers.finished.elements(id, beyond, PAGE):
        yield from rows
        beyond = rows[-1].key.element


def _whose(call: Call[ExportQuery, None]) -> str:
    """Only this person's; "" = everybody's."""
    asked, who = call.query.owner or "", call.who
    if who.is_admin:
        return asked
    if asked not in ("", who.name):
        raise NotAllowed("export_not_yours", field="owner", owner=asked)
    return who.name


async def _permit(call: Call[ExportQuery, None], id: str) -> None:
    """Refuse another's task that is asked for by id, whether it has finished or not."""
    key = parse_key(id)
    task = None if key is None else await overview.task(call.parts.flow, key)
    if task is None or not call.sight.may_know(task.owner):
        raise UnknownTask(id=id[:100])
    if not call.who.may_read(task.owner):
        raise NotAllowed("not_yours", id=str(task.key), owner=task.owner)


def _wish(readers: Readers, query: ExportQuery, owner: str) -> Wish:
    filters = (query.last, query.owner, query.outcome, query.since, query.until)
    if query.id and any(value is not None for value in filters):
        raise InvalidSpec("ids_without_filters", field="id")
    until = FOREVER if query.until is None else _instant(query.until, "until")
    return Wish(
        wanted=Wanted(
            since_us=-FOREVER if query.since is None else _instant(query.since, "since"),
            owner=owner,
            outcome=query.outcome or "",
            also_arrays=query.elements,
        ),
        begin=Place(until, 0),
        last=query.last,
        elements=query.elements,
        named=tuple(_named(readers, text) for text in query.id),
        by_id=bool(query.id),
    )


def _named(readers: Readers, text: str) -> Item:
    """The finished task of that id. Refused when there is none, or it has not finished."""
    key = parse_key(text)
    if key is None:
        raise UnknownTask(id=text[:100])
    row = readers.finished.one(key)
    if row is not None:
        return item_of(row)
    if key.element != PLAIN:
        array = readers.finished.one(TaskKey(key.id))
        if array is not None:
            item = item_of(array)
            if key.element not in item.indices:
                raise UnknownTask(id=str(key))
            return never_began(item, key.id, key.element)
    if readers.detail(TaskKey(key.id)) is None:
        raise UnknownTask(id=str(key))
    raise Conflict("not_finished", field="id", id=str(key))


def _instant(text: str, field: str) -> int:
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise InvalidSpec("time_zone_missing", field=field, value=text)
        return to_us(at.astimezone(UTC))
    except (ValueError, OverflowError) as error:
        raise InvalidSpec("bad_start_after", field=field, value=text) from error
