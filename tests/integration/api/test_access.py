"""Who may call what, for every route of the table and for what is no route at all."""

from __future__ import annotations

import re
import socket

import pytest
from litestar.routes import HTTPRoute

from stoker.api.app import ROUTES
from stoker.api.route import PREFIX, Route
from tests.helpers.api_server import ApiServer

OPEN = {"GET /health", "GET /version", "GET /openapi.json", "POST /login"}
"""What needs no token: a decision each, made here a second time."""
EVIL = "http://evil.example"

every_route = pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")


def target(route: Route) -> str:
    known = {"id": "1", "node": "testbed", "token": "0" * 12, "queue": "default"}
    return re.sub(r"\{(\w+)\}", lambda part: known.get(part[1], "ana"), route.path)


def without_token(server: ApiServer, method: str, path: str, **headers: str) -> tuple[int, bytes]:
    connection = server.connect()
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(200)
    finally:
        connection.close()


def test_litestar_serves_the_table_and_nothing_else(server: ApiServer) -> None:
    served = {
        (method, route.path_format)
        for route in server.app.litestar.routes
        if isinstance(route, HTTPRoute)
        for method in route.methods
        if method != "OPTIONS"
    }
    assert all(isinstance(route, HTTPRoute) for route in server.app.litestar.routes)
    assert served == {(r.method, PREFIX + r.path) for r in ROUTES} | {("GET", "/")}


def test_what_is_open_was_decided_here_too() -> None:
    assert {f"{r.method} {r.path}" for r in ROUTES if r.access == "open"} == OPEN


@every_route
def test_a_token_is_needed(server: ApiServer, route: Route) -> None:
    path = PREFIX + target(route)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic Og=="}):
        status = without_token(server, route.method, path, **headers)[0]
        assert (status == 401) == (route.access != "open")
    if route.access != "open":
        for way in (f"?token={server.token}", f"?access_token={server.token}"):
            assert without_token(server, route.method, path + way)[0] == 401
        cookie = {"Cookie": f"token={server.token}"}
        assert without_token(server, route.method, path, **cookie)[0] == 401


@every_route
def test_a_foreign_host_name_reaches_nothing(server: ApiServer, route: Route) -> None:
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example"):
        reply = server.request(route.method, target(route), headers={"Host": host})
        assert (reply.status, reply.json["code"]) == (421, "unknown_host")


@every_route
def test_a_foreign_origin_changes_nothing(server: ApiServer, route: Route) -> None:
    if route.method == "GET":
        return
    for origin in (EVIL, "null", f"https://127.0.0.1:{server.port}", "http://localhost:1"):
        reply = server.request(route.method, target(route), headers={"Origin": origin})
        assert (reply.status, reply.json["code"]) == (403, "foreign_origin")
    own = server.request(route.method, target(route), headers={"Origin": server.url})
    assert own.status not in (401, 403, 421)


@every_route
def test_unknown_parameters_are_refused_everywhere(server: ApiServer, route: Route) -> None:
    reply = server.request(route.method, target(route) + "?surprise=1")
    assert (reply.status, reply.json["field"]) == (422, "surprise")
    assert reply.json["code"] == "unknown_parameter"


@every_route
def test_other_methods_are_refused_in_the_same_shape(server: ApiServer, route: Route) -> None:
    here = {r.method for r in ROUTES if r.path == route.path}
    for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} - here:
        reply = server.request(method, target(route))
        assert (reply.status, reply.json["code"]) == (405, "method_not_allowed")
        assert set(reply.headers["Allow"].split(", ")) == here
    assert server.request("HEAD", target(route)).status == 405


@pytest.mark.parametrize(
    "path",
    ["/api/v1", "/api/v1/", "/api/v2/tasks", "/api/v1/tasks/1/nothing", "/api/v1/Tasks"],
)
def test_what_is_no_route(server: ApiServer, path: str) -> None:
    reply = server.request("GET", path)
    assert (reply.status, reply.json["code"]) == (404, "not_found")
    assert without_token(server, "GET", path)[0] == 401


@every_route
def test_every_answer_carries_the_guards(server: ApiServer, route: Route) -> None:
    if "stream" in route.path:
        connection = server.sse(target(route))
        headers = connection.response.headers
        connection.close()
    else:
        headers = server.request(route.method, target(route)).headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "Server" not in headers
    assert "Access-Control-Allow-Origin" not in headers


def raw(server: ApiServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /api/v1/health HTTP/1.0\r\n\r\n", b"421"),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", b"421"),
        (b"GET http://evil.example/api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n", b"401"),
        (b"GET /api/v1/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GARBAGE\r\n\r\n", b"400"),
        (b"GET /api/v1/health?\xff=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nX: \xff\r\n\r\n", b"200"),
        (b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n", b"401"),
    ],
)
def test_odd_requests(server: ApiServer, request_line: bytes, status: bytes) -> None:
    assert raw(server, request_line).split(b" ")[1] == status


def test_a_head_without_end_is_cut_off(server: ApiServer) -> None:
    endless = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (3 << 20)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        try:
            connection.sendall(endless)
            answer = connection.recv(65536)
        except ConnectionError:
            answer = b""
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"431")
    assert server.request("GET", "/health").status == 200
