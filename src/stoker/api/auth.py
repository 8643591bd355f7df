"""The wall before every route: known host name, own origin, right token. Closed unless opened.

It stands in front of routing, so that a path that does not exist is as closed as one that does; a
route is open only by its exact path. Host names are checked against DNS rebinding: a page of
another site can make a browser call us, but not under a name that is ours.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import cast

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from stoker.access.tokens import Identify
from stoker.domain.errors import AppError, NotAllowed

from .errors import Refused, refuse
from .route import CALLER

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

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
        self, app: ASGIApp, *, identify: Identify, hosts: Hosts, open_paths: Iterable[str]
    ) -> None:
        self._app, self._hosts, self._identify = app, hosts, identify
        self._open = frozenset(open_paths)

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
        hosts: list[bytes] = []
        tokens: list[bytes] = []
        origins: list[bytes] = []
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"authorization":
                tokens.append(value)
            elif name == b"origin":
                origins.append(value)
        if len(hosts) != 1 or not self._hosts.knows(hosts[0]):
            return Refused("unknown_host", host=_shown(hosts))
        if (
            origins
            and scope["method"] not in SAFE_METHODS
            and not _is_own(origins, hosts[0], scope)
        ):
            return NotAllowed("foreign_origin", origin=_shown(origins))
        refusal = self._let_in(scope, tokens)
        # an open route answers strangers too, but may tell more to whom it knows
        return None if scope["path"] in self._open else refusal

    def _let_in(self, scope: HTTPScope, headers: list[bytes]) -> AppError | None:
        """Leaves in the scope who it is."""
        if not headers:
            return NotAllowed("no_token")
        scheme, _, given = headers[0].partition(b" ")
        if len(headers) > 1 or scheme.lower() != b"bearer":
            return NotAllowed("no_token")
        client = scope.get("client")
        origin = client[0] if client else ""
        try:
            caller = self._identify(given.strip().decode("latin-1"), origin)
        except NotAllowed as refusal:
            return refusal
        scope[CALLER] = caller  # type: ignore[literal-required]
        return None


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
