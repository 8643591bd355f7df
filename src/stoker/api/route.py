"""How a route is declared, and the one way every request takes through it.

A declaration says who may call, what may be asked, what comes back and how it may be refused; the
OpenAPI document, the tests of access and Litestar's handlers are all made from it. A handler gets
a `Call` that is already checked: no route can forget to be strict.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from types import NoneType
from typing import Any, Generic, Literal, TypedDict, TypeVar, cast

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Scope

from stoker.access.caller import NOBODY, Caller
from stoker.access.fairuse import FairUse
from stoker.access.login import Login
from stoker.access.passwords import Passwords
from stoker.access.tokens import Mode
from stoker.domain.errors import InvalidSpec, UnknownTask
from stoker.domain.key import TaskKey, parse_key
from stoker.domain.lifecycle import Task
from stoker.domain.person import ScopeName
from stoker.flow import overview
from stoker.flow.context import Flow
from stoker.flow.notify import Notices
from stoker.journal import Journal
from stoker.store.base import Act
from stoker.store.readers import Readers
from stoker.wire import TaskView

from .answer import Answer, json_answer
from .body import MOST_BODY_BYTES, MOST_OPEN_BODY_BYTES, ClientGone, completed, decode, read_body
from .errors import Refused, language_of, refuse
from .permit import Access, OnTask, permit
from .query import NoQuery, Query, parse_query
from .sight import Sight
from .streams import EventStream, Streams
from .views import Counts, task_view

PREFIX = "/api/v1"
CALLER = "stoker.caller"
"""Where the wall leaves in the scope who calls."""
IF_MATCH = re.compile(r'"([0-9]{1,18})"|([0-9]{1,18})', re.ASCII)
"""A version, with the quotes of HTTP or without."""

Q = TypeVar("Q", bound=Query)
B = TypeVar("B")
Method = Literal["GET", "POST", "PUT", "DELETE"]


class Stamp(TypedDict):
    at: datetime
    who: str
    origin: str


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What the routes work on."""

    flow: Flow
    readers: Readers
    streams: Streams
    passwords: Passwords
    notices: Notices
    version: str
    home: str
    document: bytes
    """The OpenAPI description."""
    fair_use: FairUse
    mode: Mode
    login: Login | None
    """How people come in; None where there is one person, who need not."""
    journal: Journal
    """The server's own log."""
    plain_http: bool = False
    """Sessions without TLS are allowed under any name of this server."""


class Call(Generic[Q, B]):
    """One request, checked."""

    __slots__ = ("body", "body_bytes", "language", "parts", "query", "scope", "who")

    def __init__(self, parts: Parts, scope: Scope, query: Q, body: B, body_bytes: int = 0) -> None:
        self.parts, self.scope, self.query, self.body = parts, scope, query, body
        self.body_bytes = body_bytes
        self.language = language_of(scope)
        self.who = cast("Caller", scope.get(CALLER, NOBODY))

    @property
    def key(self) -> TaskKey:
        """The task in the path. UnknownTask when that is no id at all."""
        text: str = self.scope["path_params"]["id"]
        key = parse_key(text)
        if key is None:
            raise UnknownTask(id=text[:100])
        return key

    @property
    def node(self) -> str:
        """The node in the path, whether there is one or not."""
        name: str = self.scope["path_params"]["node"]
        return name

    def named(self, what: str) -> str:
        """The queue, team, person or the like in the path, whether there is one or not."""
        name: str = self.scope["path_params"][what]
        return name

    @property
    def stamp(self) -> Stamp:
        """Who does it, when and from where: for the audit trail."""
        return Stamp(at=self.parts.flow.clock.now(), who=self.who.name, origin=self.who.origin)

    async def note(self, act: str, on: str, **values: Any) -> None:
        """Put an act into the audit trail, before it is done: whatever becomes of it, it can be
        asked about. For acts that change nothing in the book."""
        await self.parts.flow.book.note(Act(act=act, on=on, values=values, **self.stamp))

    @property
    def version(self) -> int:
        """What If-Match says: the version that the caller has seen."""
        given = self.header(b"if-match")
        if given is None:
            raise Refused("if_match_missing")
        found = IF_MATCH.fullmatch(given.strip())
        if found is None:
            raise InvalidSpec("bad_if_match", field="If-Match", value=given[:50])
        return int(found[1] or found[2])

    async def task(self) -> Task:
        """The task in the path, also an element that nothing has happened to yet."""
        task = await overview.task(self.parts.flow, self.key)
        if task is None:
            raise UnknownTask(id=str(self.key))
        return task

    @property
    def counts(self) -> Counts:
        """How arrays stand that have not ended."""
        return partial(overview.array_counts, self.parts.flow)

    @property
    def sight(self) -> Sight:
        """What the caller sees of others' tasks, at this moment."""
        return Sight(self.parts.flow, self.who)

    def shown(self, task: Task) -> TaskView:
        """A task that flow gave us, in the language of this call."""
        return task_view(task, self.language, self.counts)

    def header(self, name: bytes) -> str | None:
        for known, value in self.scope["headers"]:
            if known == name:
                return value.decode("latin-1")
        return None


Handle = Callable[[Call[Any, Any]], Awaitable[object]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: Method
    path: str
    """Below PREFIX; `{id}` is a task, `{node}` a node, and so on (`openapi.IN_PATH`)."""
    access: Access
    scope: ScopeName | None
    """What the caller's token must be good for; None only where the route is open."""
    task: OnTask | None
    handle: Handle
    query: type[Query]
    body: Any
    status: int
    answer: Any
    """A type of wire.py, or `bytes` (then `media_type` says of what; several have commas between)."""
    media_type: str
    headers: dict[str, str]
    """Headers of the answer, each with what it says."""
    refusals: tuple[int, ...]
    """Statuses of its own, beside those that any route may answer."""
    versioned: bool
    """Wants the version that the caller has seen, as If-Match."""
    completes: bool
    """Fields of a task that the body leaves out are as the caller usually wants them."""

    @property
    def name(self) -> str:
        return self.handle.__name__

    @property
    def about(self) -> str:
        return " ".join((self.handle.__doc__ or "").split())


def route(
    method: Method,
    path: str,
    *,
    access: Access,
    answer: Any,
    scope: ScopeName | None = None,
    task: OnTask | None = None,
    query: type[Q] = NoQuery,  # type: ignore[assignment]
    body: type[B] = NoneType,  # type: ignore[assignment]
    status: int = 200,
    media_type: str = "application/json",
    headers: dict[str, str] | None = None,
    refusals: tuple[int, ...] = (),
    versioned: bool = False,
    completes: bool = False,
) -> Callable[[Callable[[Call[Q, B]], Awaitable[object]]], Route]:
    """Declares the decorated function as a route. Who may call it must be said."""
    assert (scope is None) == (access == "open"), f"{path}: what must a token be good for?"
    assert (task is None) == ("{id}" not in path), f"{path}: what is done to the task?"

    def declare(handle: Callable[[Call[Q, B]], Awaitable[object]]) -> Route:
        return Route(
            method=method,
            path=path,
            access=access,
            scope=scope,
            task=task,
            handle=handle,
            query=query,
            body=None if body is NoneType else body,
            status=status,
            answer=answer,
            media_type=media_type,
            headers=headers or {},
            refusals=refusals,
            versioned=versioned,
            completes=completes,
        )

    return declare


def to_handler(declared: Route, parts: Parts) -> HTTPRouteHandler:
    """The route as Litestar takes it."""
    decoder = None if declared.body is None else msgspec.json.Decoder(declared.body)
    handle, query_kind, status = declared.handle, declared.query, declared.status
    most = MOST_OPEN_BODY_BYTES if declared.access == "open" else MOST_BODY_BYTES

    async def run(request: Request[Any, Any, Any]) -> ASGIApp:
        scope = request.scope
        try:
            query = parse_query(scope["query_string"], query_kind)
            raw, body = b"", None
            if decoder is not None:
                raw = await read_body(scope, request.receive, most)
                if declared.completes:
                    raw = completed(raw, _usual(scope))
                body = decode(raw, decoder)
            call = Call(parts, scope, query, body, len(raw))
            if declared.scope is not None:
                await permit(declared.access, declared.scope, declared.task, declared.name, call)
            result = await handle(call)
        except ClientGone:
            return _nobody
        except Exception as error:
            return refuse(error, scope)
        if isinstance(result, (Answer, EventStream)):
            return result
        return json_answer(result, status)

    return HTTPRouteHandler(
        PREFIX + re.sub(r"\{(\w+)\}", r"{\1:str}", declared.path),
        http_method=declared.method,
        status_code=status,  # Litestar would say 204 for DELETE; ours is in the answer itself
        name=declared.name,
    )(run)


def _usual(scope: Scope) -> dict[str, Any]:
    """Fields of tasks as the caller usually wants them."""
    return cast("Caller", scope.get(CALLER, NOBODY)).person.defaults


async def _nobody(scope: Scope, receive: Any, send: Any) -> None:
    """Nobody is there to be answered."""
