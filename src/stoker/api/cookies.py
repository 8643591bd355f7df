"""The cookie of a browser's session.

Where the connection is TLS, or the name is of this very machine, it has the `__Host-` prefix: the
browser then keeps it from every other host, from plain HTTP and from scripts. Plain HTTP under
another name has no cookie at all, unless the admin allows that: then it has another name, so that
neither is ever taken for the other.
"""

from __future__ import annotations

from litestar.types import Scope

COOKIE = b"__Host-stoker"
PLAIN_COOKIE = b"stoker"
LOOPBACK = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})
"""Browsers trust these without TLS."""


def cookie_name(scope: Scope, *, plain_http: bool) -> bytes | None:
    """What the cookie is called on this connection; None where there is none."""
    if is_protected(scope):
        return COOKIE
    return PLAIN_COOKIE if plain_http else None


def is_protected(scope: Scope) -> bool:
    """Nobody on the way can read it."""
    if scope["scheme"] == "https":
        return True
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 and _without_port(hosts[0]).lower() in LOOPBACK


def session_in(headers: list[bytes], name: bytes) -> str | None:
    """The session in these Cookie headers. None without one, and with two: one would be forged."""
    found = []
    for header in headers:
        for pair in header.split(b";"):
            key, _, value = pair.strip().partition(b"=")
            if key == name:
                found.append(value)
    return found[0].decode("latin-1") if len(found) == 1 else None


def session_of(scope: Scope, *, plain_http: bool) -> str | None:
    """The session that this request came with, good or not."""
    name = cookie_name(scope, plain_http=plain_http)
    if name is None:
        return None
    return session_in([value for key, value in scope["headers"] if key == b"cookie"], name)


def set_cookie(name: bytes, secret: str, age_s: int) -> tuple[bytes, bytes]:
    """The header that keeps it, or with an age of 0 forgets it."""
    secure = b" Secure;" if name == COOKIE else b""
    value = b"%b=%b; Path=/;%b HttpOnly; SameSite=Lax; Max-Age=%d" % (
        name, secret.encode("ascii"), secure, age_s,
    )  # fmt: skip
    return b"set-cookie", value


def _without_port(host: bytes) -> bytes:
    name, colon, port = host.rpartition(b":")
    return name if colon and port.isdigit() else host
