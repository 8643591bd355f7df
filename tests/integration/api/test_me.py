"""Oneself: settings, passwords, usual fields of tasks; and what one person has of all this."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.client import Client, TaskSpec
from tests.helpers.api_server import ApiServer

from .browser import PASSWORD


def test_own_settings_are_changed_one_by_one(lab: ApiServer) -> None:
    token = lab.add_person("ana", email="old@lab.example")
    reply = lab.request("PUT", "/me", {"language": "zh", "notify": ["failed"]}, token=token)
    assert reply.status == 200
    person = lab.request("GET", "/me", token=token).json["person"]
    assert (person["language"], person["notify"]) == ("zh", ["failed"])
    assert person["email"] == "old@lab.example"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"role": "admin"}, "role"),
        ({"must_change": False}, "must_change"),
        ({"language": "fr"}, "language"),
        ({"email": "nowhere"}, "email"),
        ({"notify": ["everything"]}, "notify[0]"),
        ({"defaults": {"gpus": "1"}}, "defaults.gpus"),
        ({"defaults": {"command": ["x"]}}, "defaults.command"),
    ],
)
def test_what_is_not_for_oneself_to_say_is_refused(
    lab: ApiServer, body: object, field: str
) -> None:
    reply = lab.request("PUT", "/me", body, token=lab.add_person("ana"))
    assert (reply.status, reply.json["field"]) == (422, field)


def test_the_language_counts_where_the_request_says_none(lab: ApiServer) -> None:
    token = lab.add_person("ana", language="zh")
    assert "没有" in lab.request("GET", "/tasks/999", token=token).json["message"]
    english = lab.request("GET", "/tasks/999", token=token, headers={"Accept-Language": "en"})
    assert "没有" not in english.json["message"]


def test_usual_fields_count_where_a_submission_does_not_say_them(lab: ApiServer) -> None:
    token = lab.add_person("ana", defaults={"gpus": 2, "time_limit_s": 60, "hold": True})

    def submit(path: str, body: Any) -> Any:
        reply = lab.request("POST", path, body, token=token)
        assert reply.status in (200, 201), reply.body
        return reply.json

    def spec(id: str) -> Any:
        return lab.request("GET", f"/tasks/{id}", token=token).json["task"]["spec"]

    one = spec(submit("/tasks", {"command": ["true"], "gpus": 0})["id"])
    assert (one["gpus"], one["time_limit_s"], one["hold"]) == (0, 60, True)
    tasks = [{"command": ["true"]}, {"command": ["true"], "time_limit_s": None}]
    first, second = map(spec, submit("/tasks/batch", {"tasks": tasks})["ids"])
    assert (first["gpus"], first["time_limit_s"]) == (2, 60)
    assert (second["gpus"], second["time_limit_s"]) == (2, None)
    assert submit("/tasks/preview", {"command": ["true"]})["starts"] is None  # it is held
    bad = lab.request("POST", "/tasks", {"command": ["true"], "gpu": 1}, token=token)
    assert (bad.status, bad.json["field"]) == (422, "gpu")
    for raw in (b"[]", b"{", b"\xff", b'{"tasks": 1}', b'{"tasks": [1]}'):
        for path in ("/tasks", "/tasks/batch"):
            assert lab.request("POST", path, raw=raw, token=token).status in (400, 422)


def test_the_client_leaves_to_the_settings_what_nobody_said(lab: ApiServer) -> None:
    token = lab.add_person("ana", defaults={"gpus": 2, "hold": True})
    spec = TaskSpec(command=("true",))
    with Client(lab.url, token) as client:
        usual = client.task(client.submit(spec).id).task
        (many,) = client.submit_many([spec])
        meant = client.task(client.submit(spec, said=["gpus"]).id).task
        assert (usual.spec.gpus, usual.state) == (2, "HELD")
        assert client.task(many).task.spec.gpus == 2
        assert (meant.spec.gpus, meant.state) == (0, "HELD")


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"old": PASSWORD, "new": "short"}, "password_too_short", "new"),
        ({"old": PASSWORD, "new": "anastasia"}, "password_is_name", "new"),
        ({"old": PASSWORD, "new": PASSWORD}, "password_same", "new"),
        ({"old": PASSWORD, "new": "x" * 2000}, "password_too_long", "new"),
        ({"old": PASSWORD, "new": "with\0a NUL"}, "nul", "new"),
        ({"new": "long enough"}, "missing_field", "old"),
    ],
)
def test_a_password_that_cannot_be_the_new_one(
    lab: ApiServer, body: object, code: str, field: str
) -> None:
    token = lab.add_person("anastasia", password=PASSWORD)
    reply = lab.request("PUT", "/me/password", body, token=token)
    assert (reply.status, reply.json["code"], reply.json["field"]) == (422, code, field)


def test_a_password_made_by_somebody_else_is_only_good_for_choosing_one(lab: ApiServer) -> None:
    lab.add_person("ana", password="one-time-word", must_change=True)

    def log_in(password: str) -> Any:
        return lab.request("POST", "/login", {"name": "ana", "password": password}, token="").json

    told = log_in("one-time-word")
    assert told["must_change"] is True
    token = told["token"]
    assert lab.request("GET", "/tasks", token=token).json["code"] == "password_must_change"
    wrong = lab.request("PUT", "/me/password", {"old": "x", "new": PASSWORD}, token=token)
    assert (wrong.json["code"], wrong.json["field"]) == ("wrong_password", "old")
    without = lab.request("PUT", "/me/password", {"new": PASSWORD}, token=token)
    assert without.json["field"] == "old"
    body = {"old": "one-time-word", "new": PASSWORD}
    assert lab.request("PUT", "/me/password", body, token=token).status == 200
    assert lab.request("GET", "/tasks", token=token).status == 200
    assert log_in(PASSWORD)["must_change"] is False
    assert log_in("one-time-word")["code"] == "wrong_password"


# ---- one person


def test_one_person_needs_no_log_in(server: ApiServer) -> None:
    for method, path, body in (
        ("POST", "/login", {"name": "ana", "password": PASSWORD}),
        ("POST", "/logout", None),
        ("PUT", "/me/password", {"new": PASSWORD}),
        ("POST", "/me/confirm", {"password": PASSWORD}),
        ("GET", "/tokens", None),
        ("POST", "/tokens", {"label": "x", "scopes": ["account"]}),
        ("DELETE", "/tokens/000000000000", None),
    ):
        reply = server.request(method, path, body)
        assert (reply.status, reply.json["code"]) == (409, "one_person_mode")
        assert "one_person" in reply.json["hint"]


def test_one_person_has_settings_too(server: ApiServer) -> None:
    me = server.request("GET", "/me").json
    assert (me["mode"], me["person"]["name"], me["person"]["role"]) == (
        "one_person",
        "ana",
        "admin",
    )
    assert (me["csrf"], me["expires_at"], me["fresh"]) == (None, None, True)
    changed = server.request("PUT", "/me", {"language": "zh", "defaults": {"hold": True}})
    assert changed.json["person"]["language"] == "zh"
    me = server.request("GET", "/me").json
    assert (me["person"]["language"], me["person"]["role"]) == ("zh", "admin")
    id = server.submit()
    assert server.task(id)["state"] == "HELD"
    server.request("PUT", "/me", {"defaults": {}})
    cookie = {"Cookie": "__Host-stoker=stk_x"}
    assert server.request("GET", "/me", token="", headers=cookie).json["code"] == "no_token"
