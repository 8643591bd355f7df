"""The session's cookie: which name where, and that two of them are none."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.cookies import cookie_name, session_in, set_cookie


def scope(host: bytes, scheme: str = "http") -> Any:
    return {"type": "http", "scheme": scheme, "headers": [(b"host", host)]}


@pytest.mark.parametrize(
    ("host", "scheme", "allowed", "name"),
    [
        (b"localhost:7433", "http", False, b"__Host-stoker"),
        (b"127.0.0.1", "http", True, b"__Host-stoker"),
        (b"[::1]:80", "http", False, b"__Host-stoker"),
        (b"LOCALHOST", "http", False, b"__Host-stoker"),
        (b"lab.example", "https", False, b"__Host-stoker"),
        (b"lab.example", "http", False, None),
        (b"lab.example:7433", "http", True, b"stoker"),
        (b"localhost.lab.example", "http", False, None),
        (b"10.0.0.5", "http", False, None),
    ],
)
def test_where_it_has_which_name(host: bytes, scheme: str, allowed: bool, name: bytes) -> None:
    assert cookie_name(scope(host, scheme), plain_http=allowed) == name


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([b"stoker=a"], "a"),
        ([b"x=1; stoker=a; y=2"], "a"),
        ([b"x=1", b"stoker=a"], "a"),
        ([b"stoker=a; stoker=b"], None),
        ([b"stoker=a", b"stoker=a"], None),
        ([b"__Host-stoker=a"], None),
        ([b"Stoker=a"], None),
        ([b"stoker"], ""),
        ([b""], None),
    ],
)
def test_it_is_found_by_its_exact_name_once(headers: list[bytes], found: str | None) -> None:
    assert session_in(headers, b"stoker") == found


def test_what_the_browser_is_told() -> None:
    assert set_cookie(b"__Host-stoker", "x", 60)[1] == (
        b"__Host-stoker=x; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=60"
    )
    assert b"Secure" not in set_cookie(b"stoker", "x", 60)[1]
    assert b"Domain" not in set_cookie(b"stoker", "x", 60)[1]
