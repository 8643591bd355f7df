"""A real browser: what it keeps, sends and refuses is what `cookies.py` and `auth.py` count on.

Chromium is started once. It is told that the names of the labs here are this machine, so that pages
have an origin that is not loopback's, over plain HTTP.
"""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from typing_extensions import override

from tests.helpers.api_server import ApiServer, serving

CHROMIUM = "/usr/bin/chromium"
LAB, STRICT = "gpu.lab.test", "strict.lab.test"
PASSWORD = "correct horse"
FLAGS = (
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    f"--host-resolver-rules=MAP {LAB} 127.0.0.1, MAP {STRICT} 127.0.0.1",
)  # fmt: skip
FETCH = """async ([method, url, body, csrf]) => {
    const headers = {};
    if (body !== null) headers["Content-Type"] = "application/json";
    if (csrf) headers["X-Stoker-CSRF"] = csrf;
    const sent = body === null ? undefined : JSON.stringify(body);
    try {
        const answer = await fetch(url, {method, headers, body: sent, credentials: "include"});
        return [answer.status, await answer.json()];
    } catch (error) {
        return [0, String(error)];
    }
}"""
BLIND = """async ([url, body]) => {
    const how = {method: "POST", body, mode: "no-cors", credentials: "include"};
    try { return (await fetch(url, how)).type; } catch (error) { return String(error); }
}"""
"""What a page may send anywhere without asking. It learns nothing of the answer."""
FORM = """url => {
    const form = document.createElement("form");
    Object.assign(form, {action: url, method: "post", enctype: "text/plain"});
    document.body.append(form);
    form.submit();
}"""
STREAM = """url => new Promise(resolve => {
    const stream = new EventSource(url, {withCredentials: true});
    stream.onopen = () => resolve("open");
    stream.onerror = () => { stream.close(); resolve("refused"); };
})"""
LOGIN = {"name": "ana", "password": PASSWORD, "kind": "session"}
TASK = {"command": ["true"], "hold": True}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    home = tmp_path_factory.mktemp("plain")
    with serving(home, is_lab=True, plain_http=True, host_names=[LAB]) as server:
        server.token = server.add_person("ana", password=PASSWORD)
        yield server


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The same without `plain_http`."""
    with serving(tmp_path_factory.mktemp("strict"), is_lab=True, host_names=[STRICT]) as server:
        server.token = server.add_person("ana", password=PASSWORD)
        yield server


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context()
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def ask(page: Page, method: str, url: str, body: object = None, csrf: str = "") -> Any:
    """`fetch` by the page: status and answer; 0 when the browser gave nothing to the page."""
    target = url if url.startswith("http") else f"/api/v1{url}"
    return page.evaluate(FETCH, [method, target, body, csrf])


def waiting(server: ApiServer) -> int:
    return len(server.request("GET", "/tasks").json["tasks"])


def test_plain_http_under_another_name_warns_and_works_with_a_cookie_of_its_own(
    lab: ApiServer, page: Page, context: BrowserContext
) -> None:
    page.goto(f"http://{LAB}:{lab.port}/")
    warning = page.get_by_role("alert")
    assert warning.is_visible()
    assert "not encrypted" in warning.inner_text()

    status, told = ask(page, "POST", "/login", LOGIN)

    assert status == 200
    assert "not encrypted" in told["warning"]
    [cookie] = context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["secure"]) == ("stoker", True, False)
    assert page.evaluate("document.cookie") == ""
    status, me = ask(page, "GET", "/me")
    assert (status, me["person"]["name"], me["csrf"]) == (200, "ana", told["csrf"])
    assert me["warning"] == told["warning"]
    assert ask(page, "POST", "/tasks", TASK, told["csrf"])[0] == 201
    status, refused = ask(page, "POST", "/tasks", TASK)
    assert (status, refused["code"]) == (403, "csrf")


def test_without_leave_there_is_no_session_in_clear(
    strict: ApiServer, page: Page, context: BrowserContext
) -> None:
    page.goto(f"http://{STRICT}:{strict.port}/")

    status, refused = ask(page, "POST", "/login", LOGIN)

    assert (status, refused["code"]) == (403, "needs_tls")
    assert refused["hint"]
    assert context.cookies() == []


def test_on_the_machine_itself_the_cookie_is_bound_to_the_host(
    strict: ApiServer, page: Page, context: BrowserContext
) -> None:
    page.goto(strict.url)
    assert page.get_by_role("alert").count() == 0

    status, told = ask(page, "POST", "/login", LOGIN)

    assert (status, told["warning"]) == (200, None)
    [cookie] = context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["secure"]) == ("__Host-stoker", True, True)
    assert ask(page, "GET", "/me")[1]["warning"] is None
    assert ask(page, "POST", "/tasks", TASK, told["csrf"])[0] == 201


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A page of somebody else, with nothing in it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    @override
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_page_of_another_origin_neither_reads_nor_changes(
    lab: ApiServer, elsewhere: int, page: Page, context: BrowserContext
) -> None:
    ours, api = f"http://{LAB}:{lab.port}/", f"http://{LAB}:{lab.port}/api/v1"
    page.goto(ours)
    csrf = ask(page, "POST", "/login", LOGIN)[1]["csrf"]
    assert ask(page, "POST", "/tasks", TASK, csrf)[0] == 201
    before = waiting(lab)
    # the same host on another port: a browser calls that the same site, and sends the cookie along
    other = context.new_page()
    other.goto(f"http://{LAB}:{elsewhere}/")

    for method, path, body in (
        ("GET", "/me", None), ("GET", "/tasks", None), ("POST", "/tasks", TASK),
        ("POST", "/logout", None), ("DELETE", "/tasks/1", None),
    ):  # fmt: skip
        status, told = ask(other, method, api + path, body, csrf)
        assert status == 0, (method, path, told)
        assert "Failed to fetch" in told
    for path in ("/tasks", "/logout", "/tasks/1/cancel"):
        with other.expect_event("requestfailed") as sent:
            told = other.evaluate(BLIND, [api + path, '{"command": ["true"]}'])
        assert "Failed to fetch" in told
        assert "BLOCKED_BY_RESPONSE" in str(sent.value.failure), "it did not even arrive"
    assert other.evaluate(STREAM, api + "/events/stream") == "refused"
    with other.expect_response(api + "/tasks") as answered:
        other.evaluate(FORM, api + "/tasks")
    assert "stoker=" in answered.value.request.all_headers()["cookie"], "it proves nothing without"
    assert (answered.value.status, answered.value.json()["code"]) == (403, "foreign_origin")

    assert waiting(lab) == before
    assert ask(page, "GET", "/me")[0] == 200, "still logged in"
