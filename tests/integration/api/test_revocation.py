"""What is taken away is good for nothing from then on, open streams included."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from msgspec import structs

from stoker.access.tokens import kept_as
from stoker.api.streams import LOOK_S
from stoker.domain.person import SCOPES, ScopeName
from stoker.flow import stop
from stoker.lab.book import Put, Remove
from tests.helpers.api_server import ApiServer, SseStream

from .browser import PASSWORD, Browser


def put(lab: ApiServer, name: str, **changed: object) -> None:
    book = lab.flow.book
    lab.run(book.amend([Put("person", name, structs.replace(book.people[name], **changed))]))


def log_out(lab: ApiServer, token: str) -> None:
    assert lab.request("POST", "/logout", token=token).json["revoked"] == [kept_as(token)[:12]]


def revoke(lab: ApiServer, token: str) -> None:
    other = lab.request("POST", "/login", {"name": "ana", "password": PASSWORD}, token="")
    reply = lab.request("DELETE", f"/tokens/{kept_as(token)[:12]}", token=other.json["token"])
    assert reply.status == 200


def change_password(lab: ApiServer, token: str) -> None:
    other = lab.request("POST", "/login", {"name": "ana", "password": PASSWORD}, token="")
    body = {"old": PASSWORD, "new": "another horse"}
    reply = lab.request("PUT", "/me/password", body, token=other.json["token"])
    assert kept_as(token)[:12] in reply.json["revoked"]
    assert lab.request("GET", "/me", token=other.json["token"]).status == 200


def lock(lab: ApiServer, token: str) -> None:
    put(lab, "ana", locked=True)


def expire(lab: ApiServer, token: str) -> None:
    put(lab, "ana", expires=date(2020, 1, 1))


def remove(lab: ApiServer, token: str) -> None:
    lab.run(lab.flow.book.amend([Remove("person", "ana")]))


def time_of_the_account(lab: ApiServer, token: str) -> None:
    put(lab, "ana", expires=lab.clock.now().astimezone().date())
    lab.clock.ahead += timedelta(days=1)


def time_of_the_token(lab: ApiServer, token: str) -> None:
    lab.clock.ahead += timedelta(days=90, seconds=1)


CAUSES = [
    log_out, revoke, change_password, lock, expire, remove, time_of_the_account, time_of_the_token,
]  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_open_streams_end(lab: ApiServer, cause: Callable[[ApiServer, str], None]) -> None:
    lab.add_person("ana", password=PASSWORD)
    bystander = lab.add_person("bo")
    token = lab.request("POST", "/login", {"name": "ana", "password": PASSWORD}, token="").json[
        "token"
    ]
    task = lab.request(
        "POST", "/tasks", {"command": ["true"], "name": "forever"}, token=token
    ).json["id"]
    with (
        lab.sse("/events/stream", token=token) as events,
        lab.sse(f"/tasks/{task}/log/stream", token=token) as log,
        lab.sse("/events/stream", token=bystander) as others,
    ):
        assert events.next().event == "reset"
        assert others.next().event == "reset"

        cause(lab, token)

        assert ended(events)
        assert ended(log)
        assert lab.request("GET", "/tasks", token=token).status in (401, 403)
        lab.request("POST", "/tasks", {"command": ["true"], "hold": True}, token=bystander)
        assert others.next().event == "event"
    lab.run(cancel_all(lab))


async def cancel_all(lab: ApiServer) -> None:
    for live in list(lab.flow.live.values()):
        await stop.cancel(lab.flow, live.task.key, "root")


def ended(stream: SseStream) -> bool:
    """Reads to the end of it; a stream that goes on runs into the connection's time limit."""
    for _ in stream:
        pass
    return True


def test_time_is_looked_at_often_enough() -> None:
    assert LOOK_S <= 0.5


def test_a_session_that_is_left_alone_ends_its_streams(lab: ApiServer) -> None:
    lab.add_person("ana", password=PASSWORD)
    browser = Browser(lab)
    browser.log_in("ana")
    with lab.sse("/events/stream", token="", **browser.headers("GET")) as stream:
        assert stream.next().event == "reset"
        lab.clock.ahead += timedelta(hours=8, seconds=1)
        assert ended(stream)


def test_who_is_no_admin_any_more_reads_no_more_as_one(lab: ApiServer) -> None:
    token = lab.add_person("root", role="admin")
    with lab.sse("/events/stream", token=token) as stream:
        assert stream.next().event == "reset"
        put(lab, "root", role="user")
        assert ended(stream)
    assert lab.request("GET", "/tasks", token=token).status == 200


def test_logging_out_forgets_the_cookie(lab: ApiServer) -> None:
    lab.add_person("ana", password=PASSWORD)
    browser = Browser(lab)
    browser.log_in("ana")
    reply = browser.send("POST", "/logout")
    assert reply.headers["Set-Cookie"].startswith("__Host-stoker=; Path=/;")
    assert reply.headers["Set-Cookie"].endswith("Max-Age=0")
    assert browser.send("GET", "/me").json["code"] == "session_expired"


# ---- tokens


def make(lab: ApiServer, token: str, *scopes: ScopeName, **more: object) -> tuple[int, str, str]:
    body = {"label": "ci", "scopes": list(scopes)} | more
    reply = lab.request("POST", "/tokens", body, token=token)
    return reply.status, reply.json.get("token", ""), reply.json.get("code", "")


def test_a_token_makes_none_that_is_good_for_more(lab: ApiServer) -> None:
    token = lab.add_person("ana", scopes=["tasks:read", "account"])
    status, made, _ = make(lab, token, "tasks:read")
    assert status == 201
    assert lab.request("GET", "/tasks", token=made).status == 200
    assert lab.request("GET", "/tokens", token=made).json["code"] == "missing_scope"
    assert make(lab, token, "tasks:read", "tasks:write")[2] == "scope_beyond"
    assert make(lab, made, "tasks:read")[2] == "missing_scope"


def test_the_admin_scope_needs_a_password_given_a_short_while_ago(lab: ApiServer) -> None:
    program = lab.add_person("root", role="admin", password=PASSWORD)
    assert make(lab, program, "admin")[2] == "password_again"
    login = lab.request("POST", "/login", {"name": "root", "password": PASSWORD}, token="")
    token = login.json["token"]
    assert make(lab, token, "admin")[0] == 201
    lab.clock.ahead += timedelta(minutes=15)
    assert make(lab, token, "admin")[2] == "password_again"
    drain = lab.request("POST", "/nodes/testbed/drain", {"why": "x"}, token=token)
    assert drain.json["code"] == "password_again"
    wrong = lab.request("POST", "/me/confirm", {"password": "wrong horse"}, token=token)
    assert wrong.json["code"] == "wrong_password"
    assert lab.request("GET", "/me", token=token).json["fresh"] is False
    assert lab.request("POST", "/me/confirm", {"password": PASSWORD}, token=token).json["fresh"]
    assert make(lab, token, "admin")[0] == 201
    user = lab.add_person("bo", scopes=SCOPES)
    assert make(lab, user, "admin")[2] == "admins_only"


def test_tokens_are_listed_without_their_text_and_taken_away(lab: ApiServer) -> None:
    ana, bo = lab.add_person("anna"), lab.add_person("bob")
    root = lab.add_person("root", role="admin")
    _, made, _ = make(lab, ana, "tasks:read", days=1)

    listed = lab.request("GET", "/tokens", token=ana)

    assert made.encode() not in listed.body
    newest, first = listed.json
    assert (newest["id"], newest["label"], newest["current"]) == (kept_as(made)[:12], "ci", False)
    assert first["current"] is True
    assert lab.request("GET", "/tokens?person=anna", token=bo).json["code"] == "admins_only"
    assert len(lab.request("GET", "/tokens?person=anna", token=root).json) == 2
    path = f"/tokens/{newest['id']}"
    assert lab.request("DELETE", path, token=bo).json["code"] == "unknown_token"
    assert lab.request("GET", "/tasks", token=made).status == 200
    assert lab.request("DELETE", path, token=root).status == 200
    assert lab.request("GET", "/tasks", token=made).json["code"] == "bad_token"
    assert lab.request("DELETE", path, token=ana).status == 404
    _, short, _ = make(lab, ana, "tasks:read", days=1)
    lab.clock.ahead += timedelta(days=1)
    assert lab.request("GET", "/tasks", token=short).json["code"] == "token_expired"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"label": "x"}, "scopes"),
        ({"label": "x", "scopes": []}, "scopes"),
        ({"label": "x", "scopes": ["everything"]}, "scopes[0]"),
        ({"label": "", "scopes": ["account"]}, "label"),
        ({"label": "x", "scopes": ["account"], "days": 0}, "days"),
        ({"label": "x", "scopes": ["account"], "days": 3651}, "days"),
    ],
)
def test_bad_wishes_name_the_field(lab: ApiServer, body: object, field: str) -> None:
    reply = lab.request("POST", "/tokens", body, token=lab.add_person("ana"))
    assert (reply.status, reply.json["field"]) == (422, field)


def test_when_it_was_used_is_written_down_now_and_then(lab: ApiServer) -> None:
    token = lab.add_person("ana")

    def used_at() -> Any:
        return lab.flow.book.credentials[kept_as(token)].used_at

    lab.request("GET", "/me", token=token)
    lab.until(lambda: used_at() is not None)
    first = used_at()
    lab.clock.ahead += timedelta(minutes=9)
    lab.request("GET", "/me", token=token)
    lab.clock.ahead += timedelta(minutes=2)
    lab.request("GET", "/me", token=token)
    lab.until(lambda: used_at() != first)
    assert used_at() - first > timedelta(minutes=10)


def test_what_has_expired_is_swept_away(lab: ApiServer) -> None:
    lab.add_person("ana", password=PASSWORD)
    browser = Browser(lab)
    browser.log_in("ana")
    old = kept_as(browser.cookie.partition("=")[2])
    lab.clock.ahead += timedelta(days=8)
    lab.request("GET", "/me", token=lab.add_person("bo"))
    lab.until(lambda: old not in lab.flow.book.credentials)
