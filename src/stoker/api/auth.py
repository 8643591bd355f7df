"""The wall before every route: known host name, own origin, right token or session. Closed unless
opened.

It stands in front of routing, so that a path that does not exist is as closed as one that does; a
route is open only by its exact path. Host names are checked against DNS rebinding: a page of
another site can make a browser call us, but not under a name that is ours.

A browser sends its session's cookie by itself, whoever asked it to: so a request that shows nothing
else must come from a page of ours, and if it changes something, with a word that only such a page
can know. A token in a header needs neither; one in the address is never looked at.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import cast

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from stoker.access.caller import Caller
from stoker.access.tokens import Identify, csrf_of
from stoker.domain.errors import AppError, NotAllowed

from .cookies import cookie_name, session_in
from .errors import LANGUAGE, Refused, refuse
from .route import CALLER

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SAME_ORIGIN = b"same-origin"
BY_HAND = b"none"
"""Sec-Fetch-Site of an address that a person typed."""

_HOST = re.compile(rb"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")


class Hosts:
    """The names this server answers to."""

    def __init__(self, names: Iterable[str] = (), *, any_address: bool = False) -> None:
        self._names = LOOPBACK | {name.lower() for name in names}
        self._any_address = any_address

    @classmethod
    def for_listener(cls, host: str, names: Iterable[str] = ()) -> Hosts:
        """For a server on `host`. On all addresses, each of them and this machine's own name may
        be typed: a rebinding needs a name of its own, so a bare address is never one."""
        if _is_wildcard(host):
            machine = socket.gethostname()
            return cls((*names, machine, machine.partition(".")[0]), any_address=True)
        return cls((*names, host))

    def knows(self, header: bytes) -> bool:
        """Whether a Host header names us. The port does not matter."""
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = (found["v6"] or found["name"]).decode("ascii").lower()
        return name in self._names or (self._any_address and _is_address(name))


class Gate:
    """An ASGI application around the real one."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        identify: Identify,
        hosts: Hosts,
        open_paths: Iterable[str],
        plain_http: bool = False,
    ) -> None:
        """With `plain_http` there are sessions without TLS under any name."""
        self._app, self._hosts, self._identify = app, hosts, identify
        self._open, self._plain_http = frozenset(open_paths), plain_http

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            refusal = self._refusal(scope)
            if refusal is not None:
                await refuse(refusal, scope)(scope, receive, send)
                return
            if scope["method"] == "OPTIONS":
                # Litestar would answer 204 by itself; nothing here offers it
                scope = cast("HTTPScope", {**scope, "method": "UNKNOWN"})
        elif scope["type"] == ScopeType.WEBSOCKET:
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: HTTPScope) -> AppError | None:
        heard: dict[bytes, list[bytes]] = {name: [] for name in _HEARD}
        for name, value in scope["headers"]:
            if name in heard:
                heard[name].append(value)
        hosts, origins = heard[b"host"], heard[b"origin"]
        if len(hosts) != 1 or not self._hosts.knows(hosts[0]):
            return Refused("unknown_host", host=_shown(hosts))
        if (
            origins
            and scope["method"] not in SAFE_METHODS
            and not _is_own(origins, hosts[0], scope)
        ):
            return NotAllowed("foreign_origin", origin=_shown(origins))
        try:
            caller = self._caller(scope, heard)
        except NotAllowed as refusal:
            # an open route answers strangers too, but may tell more to whom it knows
            return None if scope["path"] in self._open else refusal
        scope[CALLER] = caller  # type: ignore[literal-required]
        if caller.person.language and not heard[b"accept-language"]:
            scope[LANGUAGE] = caller.person.language  # type: ignore[literal-required]
        return None

    def _caller(self, scope: HTTPScope, heard: dict[bytes, list[bytes]]) -> Caller:
        """Who it is. Raises NotAllowed."""
        client = scope.get("client")
        origin = client[0] if client else ""
        tokens = heard[b"authorization"]
        if not tokens:
            return self._by_cookie(scope, heard, origin)
        scheme, _, given = tokens[0].partition(b" ")
        if len(tokens) > 1 or scheme.lower() != b"bearer":
            raise NotAllowed("no_token")
        return self._identify.token(given.strip().decode("latin-1"), origin)

    def _by_cookie(self, scope: HTTPScope, heard: dict[bytes, list[bytes]], origin: str) -> Caller:
        name = cookie_name(scope, plain_http=self._plain_http) if heard[b"cookie"] else None
        session = None if name is None else session_in(heard[b"cookie"], name)
        if session is None:
            raise NotAllowed("no_token")
        caller = self._identify.session(session, origin)
        _check_own_page(scope, heard, session)
        return caller


_HEARD = (
    b"host", b"authorization", b"origin", b"cookie", b"sec-fetch-site", b"x-stoker-csrf",
    b"accept-language",
)  # fmt: skip


def _check_own_page(scope: HTTPScope, heard: dict[bytes, list[bytes]], session: str) -> None:
    """Refuse what a page of another site, or of another port, made the browser send."""
    origins, sites = heard[b"origin"], heard[b"sec-fetch-site"]
    is_safe = scope["method"] in SAFE_METHODS
    if origins and not _is_own(origins, heard[b"host"][0], scope):
        raise NotAllowed("foreign_origin", origin=_shown(origins))
    if sites and sites != [SAME_ORIGIN] and not (is_safe and sites == [BY_HAND]):
        raise NotAllowed("foreign_origin", origin=_shown(sites))
    if is_safe:
        return
    if not origins and not sites:
        raise NotAllowed("foreign_origin", origin="-")
    words = heard[b"x-stoker-csrf"]
    if len(words) != 1 or not hmac.compare_digest(words[0], csrf_of(session).encode()):
        raise NotAllowed("csrf")


def _is_own(origins: list[bytes], host: bytes, scope: HTTPScope) -> bool:
    own = scope["scheme"].encode() + b"://" + host
    return [origin.lower() for origin in origins] == [own.lower()]


def _shown(values: list[bytes]) -> str:
    return ", ".join(value.decode("latin-1") for value in values)[:200] or "-"


def _is_wildcard(host: str) -> bool:
    return not host or (_is_address(host) and ipaddress.ip_address(host).is_unspecified)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
