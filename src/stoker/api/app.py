"""The API as one ASGI application: the wall, then Litestar with one handler per declared route."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec
from litestar import Litestar, Request, Response
from litestar.types import Receive, Scope, Send

from stoker.access.fairuse import FairUse
from stoker.access.login import Login
from stoker.access.passwords import Passwords
from stoker.access.tokens import Identify
from stoker.flow.context import Flow
from stoker.flow.notify import Notices
from stoker.journal import Journal
from stoker.store.readers import Readers

from . import (
    audit,
    events,
    export,
    extend,
    lab,
    login,
    logs,
    me,
    meta,
    nodes,
    people,
    queue,
    queues,
    server_log,
    settings,
    share,
    tasks,
    tokens,
    why,
)
from . import notices as telling
from .auth import Gate, Hosts
from .errors import refuse
from .front import PATH, front_page
from .login import ask_system
from .openapi import build_document
from .route import PREFIX, Parts, Route, to_handler
from .streams import Streams
from .tidings import Tidings

ROUTES: tuple[Route, ...] = (
    *tasks.ROUTES,
    *export.ROUTES,
    *why.ROUTES,
    *queue.ROUTES,
    *extend.ROUTES,
    *logs.ROUTES,
    *events.ROUTES,
    *nodes.ROUTES,
    *login.ROUTES,
    *me.ROUTES,
    *tokens.ROUTES,
    *people.ROUTES,
    *telling.ROUTES,
    *settings.ROUTES,
    *lab.ROUTES,
    *audit.ROUTES,
    *server_log.ROUTES,
    *queues.ROUTES,
    *share.ROUTES,
    *meta.ROUTES,
)


IDENTITY_KINDS = frozenset({"person", "credential"})
"""A change of one of these may end somebody's streams."""


class App:
    """What uvicorn serves. `close` ends the streams; it is called when shutdown begins."""

    def __init__(
        self,
        gate: Gate,
        litestar: Litestar,
        streams: Streams,
        tidings: Tidings,
        closing: Sequence[Callable[[], None]],
    ) -> None:
        self._gate, self.litestar, self._streams = gate, litestar, streams
        self._tidings, self._closing = tidings, closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("scheme") == "https":
            send = _with_hsts(send)
        if self._tidings.headers:
            send = self._tidings.telling(scope, send)
        await self._gate(scope, receive, send)

    def close(self) -> None:
        self._streams.close()
        for close in self._closing:
            close()


def create_app(
    *,
    flow: Flow,
    readers: Readers,
    identify: Identify,
    notices: Notices,
    version: str,
    home: str,
    listen_host: str = "127.0.0.1",
    host_names: Iterable[str] = (),
    journal: Journal,
    plain_http: bool = False,
) -> App:
    """The API over this flow. It answers to loopback names, the host it listens on, `host_names`.

    With `plain_http`, browsers may log in without TLS under every name of this server.
    """
    is_lab = identify.mode == "lab"
    streams = Streams(
        is_good=identify.is_good if is_lab else None,
        most_each=lambda: flow.book.rules.streams_each,
    )
    passwords, people = Passwords(), None
    if is_lab:
        people = Login(flow.book, flow.clock, partial(ask_system, flow), passwords)
        flow.book.listen(lambda kinds: streams.review() if kinds & IDENTITY_KINDS else None)
    parts = Parts(
        flow=flow,
        readers=readers,
        streams=streams,
        passwords=passwords,
        notices=notices,
        version=version,
        home=home,
        document=msgspec.json.encode(build_document(ROUTES, version=version)),
        fair_use=FairUse(flow.book, home),
        mode=identify.mode,
        login=people,
        plain_http=plain_http,
        journal=journal,
    )
    litestar = Litestar(
        [*(to_handler(route, parts) for route in ROUTES), front_page()],
        exception_handlers={Exception: _answer_of_router},
        openapi_config=None,
        logging_config=None,
    )
    gate = Gate(
        litestar,
        identify=identify,
        hosts=Hosts.for_listener(listen_host, host_names),
        open_paths=[PATH, *(PREFIX + r.path for r in ROUTES if r.access == "open")],
        plain_http=plain_http,
    )
    closing = [identify.close, passwords.close]
    if people is not None:
        closing.append(people.close)
    return App(gate, litestar, streams, Tidings(flow.book), closing)


HSTS = (b"strict-transport-security", b"max-age=31536000")


def _with_hsts(send: Send) -> Send:
    """A browser that was here by TLS shall not be led to plain HTTP."""

    async def with_hsts(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], HSTS]}
        await send(message)

    return with_hsts


def _answer_of_router(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """What Litestar itself refuses: an unknown path or method."""
    answer = refuse(error, request.scope)
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in answer.headers}
    return Response(answer.body, status_code=answer.status, headers=headers)
