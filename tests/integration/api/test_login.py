"""Logging in over real HTTP: passwords, the system's, one-time codes, throttling, the trail."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from stoker.access.codes import new_code
from stoker.access.passwords import Passwords
from stoker.access.tokens import kept_as
from stoker.domain.errors import EngineUnreachable
from stoker.domain.person import Tries
from stoker.engines.fake import Behaviour
from stoker.lab.book import Put
from tests.helpers.api_server import ApiServer, Reply, serving

from .browser import PASSWORD, Browser


def log_in(server: ApiServer, name: str, password: str = PASSWORD, **more: Any) -> Reply:
    return server.request("POST", "/login", {"name": name, "password": password} | more, token="")


def code_for(server: ApiServer, name: str) -> str:
    return server.run(new_code(server.flow.book, server.clock, name, by="root"))


def acts(server: ApiServer) -> list[tuple[str, str, str]]:
    found = server.run(server.flow.store.audited(None, 100))
    return [(one.act.who, one.act.act, one.act.on) for one in reversed(found)]


def _counts(kept: Tries) -> list[int]:
    return [failures.count for failures in kept.failed.values()]


def system_says(server: ApiServer, answer: Any) -> None:
    async def login(args: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    server.engine.verbs["login"] = login


def refusal(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json["code"]


def test_a_token_by_name_and_password(lab: ApiServer) -> None:
    lab.add_person("ana", password=PASSWORD)

    reply = log_in(lab, "ana", label="laptop")

    assert reply.status == 200
    token = reply.json["token"]
    assert reply.json["csrf"] is None
    assert reply.json["must_change"] is False
    assert "Set-Cookie" not in reply.headers
    me = lab.request("GET", "/me", token=token).json
    assert (me["person"]["name"], me["mode"], me["kind"]) == ("ana", "lab", "token")
    assert me["scopes"] == ["tasks:read", "tasks:write", "account"]
    assert lab.request("POST", "/tasks", {"command": ["true"]}, token=token).status == 201
    (who, act, on) = acts(lab)[-1]
    assert (who, act, on) == ("ana", "login", f"token {kept_as(token)[:12]}")


def test_an_admin_gets_the_admin_scope(lab: ApiServer) -> None:
    lab.add_person("root", role="admin", password=PASSWORD)
    token = log_in(lab, "root").json["token"]
    assert "admin" in lab.request("GET", "/me", token=token).json["scopes"]


def test_unknown_and_wrong_are_refused_alike(lab: ApiServer) -> None:
    lab.add_person("ana", password=PASSWORD)
    lab.add_person("bo")  # has no password yet

    replies = [log_in(lab, "ana", "wrong horse"), log_in(lab, "nobody"), log_in(lab, "bo")]

    assert [refusal(reply) for reply in replies] == [(403, "wrong_password")] * 3
    assert len({reply.body for reply in replies}) == 1


def test_locked_and_expired_are_told_to_who_knows_the_password(lab: ApiServer) -> None:
    lab.add_person("ana", password=PASSWORD, locked=True)
    lab.add_person("bo", password=PASSWORD, expires=date(2020, 1, 1))

    assert refusal(log_in(lab, "ana")) == (403, "account_locked")
    assert refusal(log_in(lab, "bo")) == (403, "account_expired")
    assert refusal(log_in(lab, "ana", "wrong horse")) == (403, "wrong_password")
    assert refusal(log_in(lab, "bo", "wrong horse")) == (403, "wrong_password")


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "missing_field", "name"),
        ({"name": "ana"}, "missing_field", "password"),
        ({"name": "ana", "password": 1}, "wrong_type", "password"),
        ({"name": "ana", "password": "x\0y"}, "nul", "password"),
        ({"name": "ana", "password": "x" * 1025}, "too_long", "password"),
        ({"name": "n" * 65, "password": "x"}, "too_long", "name"),
        ({"code": "x", "password": "x"}, "code_alone", "code"),
        ({"code": "x", "surprise": "x"}, "unknown_field", "surprise"),
        ({"name": "ana", "password": "x", "kind": "code"}, "not_a_choice", "kind"),
    ],
)
def test_bad_bodies_name_the_field(lab: ApiServer, body: Any, code: str, field: str) -> None:
    reply = lab.request("POST", "/login", body, token="")
    assert (reply.status, reply.json["code"], reply.json["field"]) == (422, code, field)


def test_strangers_cannot_send_much(lab: ApiServer) -> None:
    reply = lab.request("POST", "/login", {"code": "x" * (1 << 17)}, token="")
    assert refusal(reply) == (413, "body_too_large")


def test_a_one_time_code_is_good_once(lab: ApiServer) -> None:
    lab.add_person("ana", must_change=True)
    code = code_for(lab, "ana")

    reply = lab.request("POST", "/login", {"code": code}, token="")
    again = lab.request("POST", "/login", {"code": code}, token="")

    assert reply.status == 200
    assert reply.json["must_change"] is True
    assert refusal(again) == (403, "wrong_code")
    token = reply.json["token"]
    assert refusal(lab.request("GET", "/tasks", token=token)) == (403, "password_must_change")
    refused = lab.request("POST", "/tokens", {"label": "x", "scopes": ["tasks:read"]}, token=token)
    assert refused.json["code"] == "password_must_change"
    # who came by a code has no old password to show
    assert lab.request("PUT", "/me/password", {"new": PASSWORD}, token=token).status == 200
    assert lab.request("GET", "/tasks", token=token).status == 200
    assert log_in(lab, "ana").status == 200
    second = lab.request("PUT", "/me/password", {"new": "another one"}, token=token)
    assert (second.status, second.json["field"]) == (422, "old")


def test_a_code_used_twice_at_the_same_moment_is_good_once(lab: ApiServer) -> None:
    lab.add_person("ana")
    code = code_for(lab, "ana")

    with ThreadPoolExecutor(8) as pool:
        replies = list(
            pool.map(lambda _: lab.request("POST", "/login", {"code": code}, token=""), range(8))
        )

    assert sorted(reply.status for reply in replies) == [200] + [403] * 7
    assert {reply.json.get("code") for reply in replies} == {None, "wrong_code"}


def test_codes_expire_and_are_no_tokens(lab: ApiServer) -> None:
    lab.add_person("ana")
    code = code_for(lab, "ana")
    assert refusal(lab.request("GET", "/me", token=code)) == (401, "bad_token")
    lab.clock.ahead += timedelta(days=1, seconds=1)
    assert refusal(lab.request("POST", "/login", {"code": code}, token="")) == (403, "wrong_code")


def test_the_hash_rises_with_what_is_asked_of_it(lab: ApiServer) -> None:
    lab.add_person("ana")
    book, weak = lab.flow.book, Passwords(memory_kib=64, rounds=1)
    old = lab.run(weak.hashed(PASSWORD))
    lab.run(book.amend([Put("person", "ana", book.people["ana"], old)]))

    assert log_in(lab, "ana").status == 200

    new = lab.run(book.store.secret("person", "ana"))
    assert new is not None
    assert new != old
    assert not lab.passwords.is_outdated(new)
    assert log_in(lab, "ana").status == 200
    weak.close()


# ---- the system's passwords


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        ({"ok": True}, 200, ""),
        ({"code": "wrong_password"}, 403, "wrong_password"),
        ({"code": "no_account"}, 403, "wrong_password"),
        ({"code": "account_locked"}, 403, "unix_account_locked"),
        ({"code": "account_expired"}, 403, "unix_account_expired"),
        ({"code": "not_allowed"}, 403, "unix_account_not_allowed"),
        ({"code": "pam_unavailable"}, 503, "login_unreachable"),
        ({}, 503, "login_unreachable"),
    ],
)
def test_the_system_is_asked_by_a_node(lab: ApiServer, answer: Any, status: int, code: str) -> None:
    lab.add_person("ana", login="system", account="aurora")
    system_says(lab, answer)

    reply = log_in(lab, "ana")

    assert reply.status == status
    if code:
        assert reply.json["code"] == code
    args = {"account": "aurora", "password": PASSWORD}
    assert lab.engine.calls[-1] == ("testbed", "", "login", args)


def test_when_no_node_answers_that_is_said_and_not_held_against_anybody(lab: ApiServer) -> None:
    lab.add_person("ana", login="system")

    system_says(lab, EngineUnreachable(node="testbed"))
    for _ in range(8):
        reply = log_in(lab, "ana")
        assert refusal(reply) == (503, "login_unreachable")
    system_says(lab, {"ok": True})
    token = log_in(lab, "ana").json["token"]
    changed = lab.request("PUT", "/me/password", {"old": "x", "new": "long enough"}, token=token)
    assert refusal(changed) == (409, "password_of_system")


# ---- throttling


def test_too_many_failures_wait_even_over_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path, is_lab=True) as lab:
        lab.add_person("ana", password=PASSWORD)
        failures = 0
        while failures < 12:
            reply = log_in(lab, "ana", "wrong horse")
            failures += reply.status == 403
            if reply.status == 429:
                lab.clock.ahead += timedelta(seconds=int(reply.headers["Retry-After"]))
        reply = log_in(lab, "ana", "wrong horse")
        assert refusal(reply) == (429, "too_many_logins")
        assert 100 < int(reply.headers["Retry-After"]) <= 128
        ahead = lab.clock.ahead
        lab.until(lambda: (kept := lab.flow.book.tries) and 12 in _counts(kept))
        assert [act for act in acts(lab) if act[1] == "login.refused"] == [
            ("", "login.refused", "person ana")
        ]

    again = ApiServer(tmp_path, lab.behave, tmp_path / "stoker.db", is_lab=True)
    again.clock.ahead = ahead
    again.start()
    try:
        reply = log_in(again, "ana")  # the right one, but it has to wait
        assert refusal(reply) == (429, "too_many_logins")
        assert 0 < int(reply.headers["Retry-After"]) <= 900
        again.clock.ahead += timedelta(seconds=int(reply.headers["Retry-After"]))
        assert log_in(again, "ana").status == 200
    finally:
        again.stop()


def test_throttling_holds_for_confirming_and_changing_too(lab: ApiServer) -> None:
    lab.add_person("ana", password=PASSWORD)
    token = log_in(lab, "ana").json["token"]
    for number in range(6):
        body = {"old": "wrong horse", "new": "long enough"}
        way = (
            ("PUT", "/me/password", body)
            if number % 2
            else ("POST", "/me/confirm", {"password": "x"})
        )
        last = lab.request(*way, token=token)
    assert refusal(last) == (429, "too_many_logins")
    assert lab.request("GET", "/me", token=token).status == 200


# ---- sessions


def test_a_session_is_a_cookie_that_scripts_cannot_read(lab: ApiServer) -> None:
    lab.add_person("ana", password=PASSWORD)
    browser = Browser(lab)

    reply = browser.log_in("ana")

    assert reply.json["token"] is None
    name, _, rest = reply.headers["Set-Cookie"].partition("=")
    assert name == "__Host-stoker"
    for part in ("; Secure", "; HttpOnly", "; SameSite=Lax", "; Path=/", "; Max-Age=604800"):
        assert part in rest
    me = browser.send("GET", "/me")
    assert (me.json["kind"], me.json["csrf"]) == ("session", browser.csrf)
    assert browser.send("POST", "/tasks", {"command": ["true"]}).status == 201
    secret = browser.cookie.partition("=")[2]
    assert refusal(lab.request("GET", "/me", token=secret)) == (401, "bad_token")


def test_logging_in_gives_another_session_and_ends_the_one_before(lab: ApiServer) -> None:
    lab.add_person("ana", password=PASSWORD)
    browser = Browser(lab)
    browser.log_in("ana")
    before = browser.cookie

    browser.cookie = "__Host-stoker=chosen-by-somebody-else"
    browser.log_in("ana")
    assert "chosen" not in browser.cookie
    assert browser.cookie != before

    browser.cookie = before
    browser.log_in("ana")
    assert browser.cookie != before
    assert browser.send("GET", "/me").status == 200
    assert refusal(browser.send("GET", "/me", Cookie=before)) == (401, "session_expired")


def test_a_session_ends_when_idle_and_at_the_latest_after_a_week(lab: ApiServer) -> None:
    lab.add_person("ana", password=PASSWORD)
    browser, begun = Browser(lab), lab.clock.ahead

    def use_after(**time: int) -> Reply:
        lab.clock.ahead = begun + timedelta(**time)
        reply = browser.send("GET", "/me")
        if reply.status == 200:  # uses are written down beside the requests
            soon = lab.clock.now() - timedelta(minutes=11)
            lab.until(lambda: (credentials[hashed].used_at or soon) > soon)
        return reply

    browser.log_in("ana")
    credentials, hashed = lab.flow.book.credentials, kept_as(browser.cookie.partition("=")[2])
    assert use_after(hours=7).status == 200
    assert use_after(hours=14).status == 200
    assert refusal(use_after(hours=22, minutes=1)) == (401, "session_expired")

    browser.log_in("ana")
    begun, hashed = lab.clock.ahead, kept_as(browser.cookie.partition("=")[2])
    for hours in range(6, 7 * 24, 6):
        assert use_after(hours=hours).status == 200
    assert refusal(use_after(days=7, seconds=1)) == (401, "session_expired")


def test_plain_http_under_another_name_needs_to_be_allowed(tmp_path: Path) -> None:
    with serving(tmp_path, is_lab=True, host_names=["lab.example"]) as lab:
        lab.add_person("ana", password=PASSWORD)
        browser = Browser(lab, f"lab.example:{lab.port}")
        assert refusal(browser.log_in("ana")) == (403, "needs_tls")
        local = Browser(lab)
        local.log_in("ana")
        for cookie in (local.cookie, local.cookie.replace("__Host-", "")):
            assert refusal(browser.send("GET", "/me", Cookie=cookie)) == (401, "no_token")


def test_plain_http_that_is_allowed_has_another_cookie(tmp_path: Path) -> None:
    with serving(tmp_path, is_lab=True, host_names=["lab.example"], plain_http=True) as lab:
        lab.add_person("ana", password=PASSWORD)
        browser = Browser(lab, f"lab.example:{lab.port}")
        reply = browser.log_in("ana")
        assert reply.headers["Set-Cookie"].startswith("stoker=stk_")
        assert "Secure" not in reply.headers["Set-Cookie"]
        assert browser.send("POST", "/tasks", {"command": ["true"]}).status == 201
        assert Browser(lab).send("GET", "/me", Cookie=browser.cookie).json["code"] == "no_token"


# ---- secrets


def test_secrets_are_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    lab = ApiServer(tmp_path, lambda _: Behaviour(), tmp_path / "stoker.db", is_lab=True)
    lab.start()
    lab.add_person("ana", password=PASSWORD)
    code = code_for(lab, "ana")
    token = log_in(lab, "ana").json["token"]
    browser = Browser(lab)
    browser.with_code(code)
    log_in(lab, PASSWORD, "typed in the wrong field")
    log_in(lab, "ana", "wrong horse battery")
    browser.send("PUT", "/me/password", {"old": PASSWORD, "new": "another horse"})
    session = browser.cookie.partition("=")[2]
    answers = [
        browser.send("GET", path).body
        for path in ("/me", "/tokens", "/tasks", "/events", "/health")
    ]
    trail = repr(lab.run(lab.flow.store.audited(None, 100)))
    book = repr(dict(lab.flow.book.credentials)) + repr(dict(lab.flow.book.people))
    lab.stop()
    files = b"".join(path.read_bytes() for path in tmp_path.glob("stoker.db*"))
    secrets = (PASSWORD, "another horse", "wrong horse battery", token, session, code)
    for secret in secrets:
        for where in (trail, book, caplog.text, *(answer.decode() for answer in answers)):
            assert secret not in where
        assert secret.encode() not in files
