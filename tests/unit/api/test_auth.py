"""The wall: known host, own origin, right token; everything else is closed."""

from __future__ import annotations

import socket
from typing import Any

import msgspec
import pytest

from stoker.access.tokens import one_person
from stoker.api.auth import Gate, Hosts

TOKEN = "a-token-of-some-length-that-nobody-knows"
BEARER = b"Bearer " + TOKEN.encode()


async def inside(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": scope["method"].encode()})


class Reply:
    def __init__(self, messages: list[Any]) -> None:
        self.status: int = messages[0]["status"]
        self.headers: dict[bytes, bytes] = dict(messages[0]["headers"])
        self.body: bytes = messages[1]["body"]

    @property
    def code(self) -> str:
        return str(msgspec.json.decode(self.body)["code"])


async def ask(
    *headers: tuple[bytes, bytes],
    method: str = "GET",
    path: str = "/api/v1/tasks",
    hosts: Hosts | None = None,
) -> Reply:
    gate = Gate(
        inside,
        identify=one_person(TOKEN, "ana"),
        hosts=hosts or Hosts(),
        open_paths=["/api/v1/health"],
    )
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {
        "type": "http",
        "method": method,
        "path": path,
        "scheme": "http",
        "headers": list(headers),
    }
    await gate(scope, None, send)  # type: ignore[arg-type]
    return Reply(sent)


HOST = (b"host", b"127.0.0.1:7433")
TOKEN_HEADER = (b"authorization", BEARER)


async def test_the_right_token_comes_in() -> None:
    assert (await ask(HOST, TOKEN_HEADER)).status == 299
    assert (await ask(HOST, (b"authorization", b"bearer  " + TOKEN.encode()))).status == 299


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([], "no_token"),
        ([(b"authorization", b"")], "no_token"),
        ([(b"authorization", TOKEN.encode())], "no_token"),
        ([(b"authorization", b"Basic " + TOKEN.encode())], "no_token"),
        ([(b"authorization", b"Bearer")], "bad_token"),
        ([(b"authorization", b"Bearer \xff\xfe")], "bad_token"),
        ([(b"authorization", BEARER[:-1])], "bad_token"),
        ([(b"authorization", BEARER + b"x")], "bad_token"),
        ([(b"authorization", BEARER), (b"authorization", BEARER)], "no_token"),
        ([(b"cookie", b"token=" + TOKEN.encode())], "no_token"),
    ],
)
async def test_without_the_right_token_nothing_is_reached(
    headers: list[tuple[bytes, bytes]], code: str
) -> None:
    reply = await ask(HOST, *headers)
    assert (reply.status, reply.code) == (401, code)
    assert reply.headers[b"www-authenticate"].startswith(b"Bearer")
    assert reply.headers[b"cache-control"] == b"no-store"


@pytest.mark.parametrize(
    "path",
    ["/", "/api/v1/nothing", "/api/v1/health/", "/api/v1//health", "/api/v1/health/../tasks", ""],
)
async def test_only_exact_open_paths_are_open(path: str) -> None:
    assert (await ask(HOST, path="/api/v1/health")).status == 299
    assert (await ask(HOST, path=path)).status == 401


@pytest.mark.parametrize(
    "host",
    [b"localhost", b"LocalHost:1", b"127.0.0.1", b"127.0.0.1:7433", b"[::1]", b"[::1]:7433"],
)
async def test_loopback_names_are_ours(host: bytes) -> None:
    assert (await ask((b"host", host), TOKEN_HEADER)).status == 299


@pytest.mark.parametrize(
    "hosts",
    [
        [], [b""], [b"evil.example"], [b"localhost.evil.example"], [b"evil.example:7433"],
        [b"127.0.0.1.evil.example"], [b"localhost:7433@evil.example"], [b"localhost:x"],
        [b"127.0.0.2"], [b"[::2]"], [b"\xff"], [b"localhost", b"localhost"],
        [b"localhost, evil.example"], [b"local\x00host"],
    ],
)  # fmt: skip
async def test_other_host_names_are_refused(hosts: list[bytes]) -> None:
    for path in ("/api/v1/tasks", "/api/v1/health"):
        reply = await ask(*[(b"host", host) for host in hosts], TOKEN_HEADER, path=path)
        assert (reply.status, reply.code) == (421, "unknown_host")


def test_a_host_that_is_listened_on_or_named_is_ours() -> None:
    hosts = Hosts.for_listener("10.0.0.5", ["GPU-Box.example"])
    assert hosts.knows(b"10.0.0.5:80")
    assert hosts.knows(b"gpu-box.example")
    assert not hosts.knows(b"10.0.0.6")


@pytest.mark.parametrize("listen", ["", "0.0.0.0", "::"])
def test_on_all_addresses_any_address_is_ours_but_no_name(listen: str) -> None:
    hosts = Hosts.for_listener(listen)
    assert hosts.knows(b"10.0.0.5:80")
    assert hosts.knows(b"[fd00::1]")
    assert hosts.knows(socket.gethostname().encode())
    assert not hosts.knows(b"evil.example")
    assert not hosts.knows(b"1.2.3")


OWN = b"http://127.0.0.1:7433"


@pytest.mark.parametrize(
    ("method", "origins", "status"),
    [
        ("POST", [], 299),
        ("POST", [OWN], 299),
        ("POST", [OWN.upper()], 299),
        ("POST", [b"http://evil.example"], 403),
        ("POST", [b"null"], 403),
        ("POST", [b""], 403),
        ("POST", [b"https://127.0.0.1:7433"], 403),
        ("POST", [b"http://127.0.0.1:7434"], 403),
        ("POST", [b"http://127.0.0.1"], 403),
        ("POST", [b"http://localhost:7433"], 403),
        ("POST", [OWN, b"http://evil.example"], 403),
        ("DELETE", [b"http://evil.example"], 403),
        ("GET", [b"http://evil.example"], 299),
    ],
)
async def test_what_changes_things_must_come_from_us(
    method: str, origins: list[bytes], status: int
) -> None:
    headers = [(b"origin", origin) for origin in origins]
    assert (await ask(HOST, TOKEN_HEADER, *headers, method=method)).status == status
    if status == 403:  # a token does not help, and an open path is no way round
        reply = await ask(HOST, *headers, method=method, path="/api/v1/health")
        assert (reply.status, reply.code) == (403, "foreign_origin")


async def test_options_is_not_offered() -> None:
    assert (await ask(HOST, TOKEN_HEADER, method="OPTIONS")).body == b"UNKNOWN"
    assert (await ask(HOST, method="OPTIONS")).status == 401


def test_a_short_token_is_refused_at_start() -> None:
    with pytest.raises(ValueError, match="16"):
        one_person("short", "ana")
