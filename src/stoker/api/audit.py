"""The audit trail: who did what. For admins; read only, and whole."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from stoker.store.base import Audited, LabStore
from stoker.wire_admin import ActPage, ActView, ChainView

from .answer import GUARDS, Headers
from .export import Download
from .query import MOST_INTEGER, NoQuery, Query
from .route import Call, route
from .streams import Frames

PAGE = 50
CHUNK = 500

JSON_LINES: Headers = [
    (b"content-type", b"application/x-ndjson"),
    (b"content-disposition", b'attachment; filename="stoker-audit.jsonl"'),
    *GUARDS,
]


class AuditQuery(Query, frozen=True, kw_only=True):
    before: (
        Annotated[int, Meta(description="Only acts before this number", ge=1, le=MOST_INTEGER)]
        | None
    ) = None
    limit: Annotated[int, Meta(description="Acts at most", ge=1, le=500)] = PAGE
    who: Annotated[str, Meta(description="Only this person's", max_length=200)] = ""
    act: Annotated[
        str,
        Meta(
            description="Only this act, for example `settings.set`, or all that begin with "
            "`settings`",
            max_length=100,
        ),
    ] = ""


class VerifyQuery(Query, frozen=True, kw_only=True):
    head: Annotated[
        str, Meta(description="A hash that was noted earlier: is it still there?", max_length=64)
    ] = ""


@route("GET", "/audit", access="admin", scope="admin", query=AuditQuery, answer=ActPage)
async def list_audit(call: Call[AuditQuery, None]) -> ActPage:
    """Who did what, the newest first."""
    query, store = call.query, call.parts.flow.book.store
    acts = await store.audited(query.before, query.limit, who=query.who, act=query.act)
    is_more = len(acts) == query.limit and acts[-1].seq > 1
    return ActPage(acts=tuple(map(_view, acts)), next=acts[-1].seq if is_more else None)


@route("GET", "/audit/verify", access="admin", scope="admin", query=VerifyQuery, answer=ChainView)
async def verify_audit(call: Call[VerifyQuery, None]) -> ChainView:
    """Whether the audit trail is as it was written: looks at every act."""
    found = await call.parts.flow.book.store.verify_audit(call.query.head.lower())
    return ChainView(count=found.count, head=found.head, broken=found.broken, noted=found.noted)


@route(
    "GET",
    "/audit/export",
    access="admin",
    scope="admin",
    answer=bytes,
    media_type="application/x-ndjson",
    refusals=(429,),
)
async def export_audit(call: Call[NoQuery, None]) -> Download:
    """The whole audit trail as JSON lines, the oldest act first: `seq`, `body` (the act as JSON
    text) and `hash`, which is the SHA-256 of the hash before, `seq` and `body` with line feeds
    between them; before the first stand 64 zeros."""
    await call.note("audit.export", "audit")
    return Download(call.parts.streams, _lines(call.parts.flow.book.store), JSON_LINES, call.who)


ROUTES = (list_audit, verify_audit, export_audit)


async def _lines(store: LabStore) -> Frames:
    seq = 0
    while rows := await store.trail(seq, CHUNK):
        seq = rows[-1].seq
        yield b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def _view(found: Audited) -> ActView:
    act = found.act
    return ActView(
        seq=found.seq,
        at=act.at,
        who=act.who,
        act=act.act,
        on=act.on,
        origin=act.origin,
        outcome=act.outcome,
        values=act.values,
        hash=found.hash,
    )
