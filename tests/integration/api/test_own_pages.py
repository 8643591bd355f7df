"""Pages of other sites: every route and every stream, with a cookie and with a token.

Generated from the table of routes: a new route is in it by itself.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from stoker.api.app import ROUTES
from stoker.api.route import Route
from tests.helpers.api_server import ApiServer, Reply

from .browser import PASSWORD, Browser

EVIL = "http://evil.example"
CLOSED = [route for route in ROUTES if route.access != "open"]
UNSAFE = [route for route in CLOSED if route.method != "GET"]
STREAMS = [route for route in CLOSED if route.media_type == "text/event-stream"]
READS = [route for route in CLOSED if route.method == "GET" and route not in STREAMS]
OF_THE_WALL = {"foreign_origin", "csrf", "no_token", "bad_token", "session_expired", "unknown_host"}


def every(routes: list[Route]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("route", routes, ids=lambda r: f"{r.method} {r.path}")


@pytest.fixture(scope="module")
def page(running_lab: ApiServer) -> Browser:
    running_lab.add_person("root", role="admin", password=PASSWORD)
    browser = Browser(running_lab)
    assert browser.log_in("root").status == 200
    task = {"command": ["true"], "name": "forever", "hold": True}
    assert browser.send("POST", "/tasks", task).json["id"] == "1"
    return browser


@pytest.fixture(scope="module")
def token(running_lab: ApiServer) -> str:
    return running_lab.add_person("tool", role="admin")


def target(route: Route) -> str:
    known = {"{id}": "1", "{node}": "testbed", "{token}": "0" * 12}
    return re.sub(r"\{\w+\}", lambda found: known.get(found[0], "nothing"), route.path)


def ask(page: Browser, route: Route, **changed: Any) -> str:
    """The code of the answer; "" when it was let through."""
    with_body = b"{" if route.body is not None else None  # what is let through must do nothing
    if route.media_type == "text/event-stream":
        headers = page.headers("GET", **changed)
        with page.server.sse(target(route), token="", **headers) as stream:
            if stream.status == 200:
                return ""
            return wall_code(Reply(stream.response))
    return wall_code(page.send(route.method, target(route), raw=with_body, **changed))


def ask_with_token(server: ApiServer, token: str, route: Route, **headers: str) -> str:
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if route.media_type == "text/event-stream":
        with server.sse(target(route), token=token, **headers) as stream:
            return "" if stream.status == 200 else wall_code(Reply(stream.response))
    with_body = b"{" if route.body is not None else None
    return wall_code(
        server.request(route.method, target(route), raw=with_body, headers=headers, token=token)
    )


def wall_code(reply: Reply) -> str:
    code = "" if reply.status < 400 else str(reply.json["code"])
    return code if code in OF_THE_WALL else ""


@every(UNSAFE)
def test_with_a_cookie_only_a_page_of_ours_that_knows_the_word_changes_things(
    page: Browser, route: Route
) -> None:
    own = f"http://{page.host}"
    for origin in (EVIL, "null", own.replace("http", "https"), "http://localhost:1", own + ".x"):
        assert ask(page, route, Origin=origin) == "foreign_origin"
    for site in ("cross-site", "same-site", "none", "", "same-origin, cross-site"):
        assert ask(page, route, Sec_Fetch_Site=site) == "foreign_origin"
        assert ask(page, route, Sec_Fetch_Site=site, Origin=None) == "foreign_origin"
    assert ask(page, route, Sec_Fetch_Site=None, Origin=None) == "foreign_origin"

    for word in (None, "", "x" * 64, page.csrf[:-1], page.csrf.upper()):
        assert ask(page, route, X_Stoker_CSRF=word) == "csrf"

    assert ask(page, route, Host="evil.example") == "unknown_host"
    assert ask(page, route, Cookie=None) == "no_token"
    assert ask(page, route, Cookie="__Host-stoker=stk_x") == "session_expired"
    assert ask(page, route, Cookie=f"{page.cookie}; {page.cookie}") == "no_token"
    assert ask(page, route, Cookie=page.cookie.removeprefix("__Host-")) == "no_token"


@every(UNSAFE)
def test_a_page_of_ours_is_let_through(page: Browser, route: Route) -> None:
    for changed in ({}, {"Origin": None}, {"Sec_Fetch_Site": None}):
        assert ask(page, route, **changed) == ""
        if route.path == "/logout":
            page.log_in("root")


@every([route for route in UNSAFE if route.body is not None])
def test_a_form_of_another_site_is_no_json(page: Browser, route: Route) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        changed: Any = {"Content_Type": kind}
        reply = page.send(route.method, target(route), raw=b"{}", **changed)
        assert (reply.status, reply.json["code"]) == (415, "not_json_type")


@every(STREAMS + READS)
def test_with_a_cookie_other_sites_read_nothing(page: Browser, route: Route) -> None:
    for origin in (EVIL, "null", "http://localhost:1"):
        assert ask(page, route, Origin=origin) == "foreign_origin"
    for site in ("cross-site", "same-site"):
        assert ask(page, route, Sec_Fetch_Site=site) == "foreign_origin"
    assert ask(page, route, Host="evil.example") == "unknown_host"
    assert ask(page, route, Cookie="__Host-stoker=stk_x") == "session_expired"


@every(STREAMS + READS)
def test_pages_of_ours_read_without_a_word(page: Browser, route: Route) -> None:
    for site in ("same-origin", "none", None):
        assert ask(page, route, Sec_Fetch_Site=site) == ""
    assert ask(page, route, Origin=f"http://{page.host}") == ""


@every(UNSAFE)
def test_with_a_token_no_word_is_needed_but_other_sites_are_refused(
    page: Browser, token: str, route: Route
) -> None:
    server = page.server
    assert ask_with_token(server, token, route, Origin=EVIL) == "foreign_origin"
    assert ask_with_token(server, token, route, Host="evil.example") == "unknown_host"
    if route.path != "/logout":
        assert ask_with_token(server, token, route) == ""
        assert ask_with_token(server, token, route, Cookie=page.cookie) == ""
    # a good cookie does not help a bad token
    assert ask_with_token(server, "stk_x", route, Cookie=page.cookie) == "bad_token"


@every(CLOSED)
def test_a_token_in_the_address_is_never_looked_at(page: Browser, token: str, route: Route) -> None:
    for way in ("token", "access_token", "authorization"):
        reply = page.server.request(route.method, f"{target(route)}?{way}={token}", token="")
        assert (reply.status, reply.json["code"]) == (401, "no_token")


def test_logging_in_from_another_site_is_refused(page: Browser) -> None:
    wish = {"name": "root", "password": PASSWORD, "kind": "session"}
    stranger = Browser(page.server)
    assert stranger.send("POST", "/login", wish, Origin=EVIL).json["code"] == "foreign_origin"
    assert stranger.send("POST", "/login", wish, Host="evil.example").status == 421


def test_the_word_of_another_session_is_not_this_ones(page: Browser) -> None:
    other = Browser(page.server)
    other.log_in("root")
    assert other.csrf != page.csrf
    assert ask(page, UNSAFE[0], X_Stoker_CSRF=other.csrf) == "csrf"
