"""The page at `/`: what this is, and how to come in. No script, nothing of anybody's.

It warns where passwords would travel readable: plain HTTP under a name that is not this machine's
own loopback.
"""

from __future__ import annotations

from html import escape
from typing import Any

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, HTTPScope, Scope

from stoker import text
from stoker.config import is_loopback

from .answer import Answer, Headers
from .errors import language_of

PATH = "/"
PAGE: Headers = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self'; object-src 'none'; base-uri 'none';"
        b" frame-ancestors 'none'",
    ),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
]


def front_page() -> HTTPRouteHandler:
    """As Litestar takes it."""

    async def front(request: Request[Any, Any, Any]) -> ASGIApp:
        scope: HTTPScope = request.scope
        return Answer(_page(scope).encode(), 200, PAGE)

    return HTTPRouteHandler(PATH, http_method="GET", status_code=200, name="front_page")(front)


def is_readable_by_others(scope: Scope) -> bool:
    """Whether what is said in this request can be read on the network."""
    return scope["scheme"] == "http" and not is_loopback(host_name(scope))


def warning_on(scope: Scope, language: str) -> str | None:
    """What a person who talks to us like this should be told."""
    return text.message("front.plain_http", {}, language) if is_readable_by_others(scope) else None


def host_name(scope: Scope) -> str:
    """The name that the request was sent to, without a port. The wall has checked it."""
    given = next((value for name, value in scope["headers"] if name == b"host"), b"")
    name = given.decode("latin-1").lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


def _page(scope: HTTPScope) -> str:
    language = language_of(scope)
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    url = f"{scope['scheme']}://{host.decode('latin-1')}"

    def say(code: str) -> str:
        return escape(text.message(code, {"url": url}, language))

    warning = f'<p role="alert"><strong>{say("front.plain_http")}</strong></p>'
    lines = [
        "<!doctype html>",
        f'<html lang="{language}"><head><meta charset="utf-8"><title>Stoker</title></head><body>',
        "<h1>Stoker 司炉</h1>",
        warning if is_readable_by_others(scope) else "",
        f"<p>{say('front.about')}</p>",
        f"<pre>stoker login --url {escape(url)}</pre>",
        "</body></html>",
    ]
    return "\n".join(line for line in lines if line) + "\n"
