"""Holes that the systems before this one had, each tried on ours. None may be here.

What is tried elsewhere for every route (no token, foreign host, foreign origin, others' tasks) is
tried here only in the words of the old hole.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from stoker.access.tokens import new_secret
from stoker.api.app import ROUTES
from stoker.config import Settings
from stoker.engines.base import LaunchOrder
from stoker.engines.fake import Behaviour
from stoker.wire_people import NewCode
from tests.helpers.api_server import ApiServer, Reply, serving

GUESSES = ("", "atestb", "admin", "root", "password", "123456", "stoker", "None", "null", "test")
PAYLOADS = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}", "javascript:alert(1)",
    "</textarea><svg/onload=alert(1)>",
)  # fmt: skip
AWAY = ("redirect_url", "redirect", "next", "url", "return_to", "continue")
UPWARDS = (
    "..", "../1", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%5c..%5cetc", "1%2f..%2f2", "1%00",
    "/etc/passwd", "....//....//etc/passwd", "%252e%252e%252f", "~root", ".",
)  # fmt: skip
SHELL_WORDS = (
    "`touch pwned`", "$(touch pwned)", '"; touch pwned; "', "'; touch pwned; '", "a  b", "it's",
    'say "hi"', "${HOME}", "$HOME", "\\", "*", "~", "; touch pwned", "&& touch pwned",
    "| touch pwned", "> pwned", "\n touch pwned", "%s%n", "中文", "\x1b[31m",
)  # fmt: skip
SHELL_VERBS = (
    "get_folder", "get_file", "file_operate", "test_env", "exec", "eval", "shell", "terminal",
    "files", "upload", "admin", "login.php", "console", "create", "query",
)  # fmt: skip

launched: list[LaunchOrder] = []


def remember(order: LaunchOrder) -> Behaviour:
    launched.append(order)
    return Behaviour()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with serving(tmp_path_factory.mktemp("home"), remember, is_lab=True) as server:
        yield server


@pytest.fixture(scope="module")
def ana(lab: ApiServer) -> str:
    return lab.add_person("ana")


@pytest.fixture(scope="module")
def held(lab: ApiServer, ana: str) -> str:
    """A task of Ana's that waits."""
    return submitted(lab, ana, command=["true"], hold=True)


def submitted(lab: ApiServer, token: str, **spec: object) -> str:
    reply = lab.request("POST", "/tasks", spec, token=token)
    assert reply.status == 201, reply.body
    return str(reply.json["id"])


def is_plain(reply: Reply) -> bool:
    """Nothing that a browser would run, frame or follow."""
    return (
        reply.headers["Content-Type"] == "application/json"
        and reply.headers["X-Content-Type-Options"] == "nosniff"
        and "default-src 'none'" in reply.headers["Content-Security-Policy"]
        and "Location" not in reply.headers
    )


# ---- who comes in


def test_no_default_password_no_default_token(tmp_path: Path) -> None:
    """A fresh lab knows nobody, so nobody can come in by any guess."""
    with serving(tmp_path, is_lab=True) as fresh:
        assert fresh.flow.book.people == {}
        for guess in GUESSES:
            for scheme in ("Bearer", "Basic"):
                headers = {"Authorization": f"{scheme} {guess}"}
                assert fresh.request("GET", "/tasks", headers=headers).status == 401
            for path in ("/login", "/api/login", "/admin/login"):
                for name in ("root", "admin", "stoker", ""):
                    body = {"name": name, "password": guess}
                    reply = fresh.request("POST", path, body, headers={"Authorization": ""})
                    assert reply.status >= 400


def test_secrets_are_new_each_time_and_long() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(len(secret) >= 43 for secret in made)


def test_it_listens_on_this_machine_only_unless_told() -> None:
    assert Settings(Path("/nowhere")).listen.startswith("127.0.0.1:")


SECRETIVE = ("passw", "psw", "hash", "key", "secret", "token", "csrf", "cookie", "sealed", "url")
ONCE: dict[tuple[str, str], set[str]] = {
    ("POST", "/login"): {"token", "csrf"},
    ("POST", "/tokens"): {"token"},
    ("POST", "/people"): {"one_time_password"},
    ("POST", "/people/batch"): {"one_time_password"},
    ("POST", "/people/{person}/password"): {"one_time_password"},
    # the session's own page asks for its word after it was loaded again
    ("GET", "/me"): {"csrf"},
    ("PUT", "/me"): {"csrf"},
    ("POST", "/me/confirm"): {"csrf"},
    # what an act is chained with: it opens nothing
    ("GET", "/audit"): {"hash"},
}
"""Answers with something secret in them that was made for whoever asked, shown this once."""


def test_no_answer_has_a_place_for_a_password() -> None:
    """The old settings page showed everybody's, in clear."""
    told: dict[tuple[str, str], set[str]] = {}
    seen = set()
    for route in ROUTES:
        for name, kind in field_kinds(route.answer):
            seen.add(name)
            # whether there is one is no secret
            if kind is not bool and any(word in name for word in SECRETIVE):
                told.setdefault((route.method, route.path), set()).add(name)
    assert {"owner", "has_password", "code"} <= seen
    assert told == ONCE


def test_a_code_to_come_in_with_is_in_one_answer_only() -> None:
    """Other answers call the name of a reason a code; this one is not named like a password."""
    made = [(r.method, r.path) for r in ROUTES if r.answer is NewCode]
    assert made == [("POST", "/people/{person}/code")]
    assert all(
        NewCode not in kinds_in(route.answer) for route in ROUTES if route.answer is not NewCode
    )


def field_kinds(kind: Any) -> Iterator[tuple[str, Any]]:
    """Every field of a type of answer with its type, and of the types in it."""
    for one in kinds_in(kind):
        yield from get_type_hints(one).items()


def kinds_in(kind: Any) -> set[Any]:
    """The structs that an answer is made of."""
    found: set[Any] = set()
    left = [kind]
    while left:
        one = left.pop()
        left += getattr(one, "__args__", ())
        if isinstance(one, type) and issubclass(one, msgspec.Struct) and one not in found:
            found.add(one)
            left += get_type_hints(one).values()
    return found


def test_no_shell_without_a_name_and_none_with_one(lab: ApiServer, ana: str) -> None:
    for verb in SHELL_VERBS:
        for path in (f"/{verb}", f"/tasks/1/{verb}", f"/api/{verb}"):
            for method in ("GET", "POST"):
                body = {"command": "id", "mode": verb} if method == "POST" else None
                stranger = lab.request(method, path, body, headers={"Authorization": ""})
                assert stranger.status == 401
                assert lab.request(method, path, body, token=ana).status in (404, 405)


def test_bodies_are_json_and_nothing_that_is_executed(lab: ApiServer, ana: str) -> None:
    pickled = (
        b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93."
    )
    for kind in ("application/x-pickle", "application/x-yaml", "text/xml", "text/plain"):
        reply = lab.request(
            "POST", "/tasks", raw=pickled, token=ana, headers={"Content-Type": kind}
        )
        assert reply.status == 415
    assert lab.request("POST", "/tasks", raw=pickled, token=ana).status == 400
    python = b"{'command': ['true']}"
    assert lab.request("POST", "/tasks", raw=python, token=ana).json["code"] == "not_json"


# ---- what a link can do


def test_no_get_changes_anything(lab: ApiServer, ana: str, held: str) -> None:
    """Tasks were cancelled by following a link."""
    before = lab.flow.news.last
    for route in ROUTES:
        path = route.path.replace("{id}", held).replace("{node}", "testbed")
        if route.media_type != "text/event-stream":
            reply = lab.request("GET", path, token=ana)
            gets = {r.path for r in ROUTES if r.method == "GET"}
            assert reply.status == 405 or route.path in gets, path
    assert lab.flow.news.last == before
    assert lab.request("GET", f"/tasks/{held}", token=ana).json["task"]["state"] == "HELD"


def test_nobody_is_sent_elsewhere(lab: ApiServer, ana: str, held: str) -> None:
    for route in ROUTES:
        path = route.path.replace("{id}", held).replace("{node}", "testbed")
        for name in AWAY if route.method == "GET" else ():
            for target in ("http://evil.example", "//evil.example", "%2f%2fevil.example"):
                reply = lab.request("GET", f"{path}?{name}={target}", token=ana)
                assert (reply.status, reply.json["code"]) == (422, "unknown_parameter")
                assert "Location" not in reply.headers
    for path in ("/api/v1//evil.example", "/api//evil.example/..", "/api/v1/tasks/"):
        reply = lab.request("GET", path, token=ana)
        assert not 300 <= reply.status < 400
        assert "Location" not in reply.headers


def test_a_page_elsewhere_cannot_act_for_somebody(lab: ApiServer, ana: str, held: str) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        reply = lab.request("POST", f"/tasks/{held}/cancel", token=ana, headers=headers)
        assert reply.status in (403, 421)


# ---- what people type


@pytest.mark.parametrize("payload", PAYLOADS)
def test_script_in_a_name_is_text(lab: ApiServer, ana: str, payload: str) -> None:
    """Every row was rendered as it was typed: stored script ran in everybody's browser."""
    id = submitted(
        lab,
        ana,
        command=[payload],
        name=payload,
        description=payload,
        env={"X": payload},
        hold=True,
    )
    for path in ("/tasks", f"/tasks/{id}", f"/tasks/{id}/why", "/events?limit=500", "/nodes"):
        reply = lab.request("GET", path, token=ana)
        assert reply.status == 200
        assert is_plain(reply)
    shown = lab.request("GET", f"/tasks/{id}", token=ana).json["task"]["spec"]
    assert (shown["name"], shown["command"]) == (payload, [payload])
    refused = lab.request("POST", "/tasks", {"command": ["x"], "queue": payload}, token=ana)
    assert refused.status == 422
    assert is_plain(refused)


@pytest.mark.parametrize("text", UPWARDS)
def test_no_way_upwards(lab: ApiServer, ana: str, text: str) -> None:
    """Files were read, written and deleted through `..` in a name."""
    for path in (f"/tasks/{text}", f"/tasks/{text}/log", f"/nodes/{text}/drain", f"/{text}"):
        for method in ("GET", "POST", "DELETE"):
            reply = lab.request(method, path, token=ana)
            assert reply.status in (400, 403, 404, 405, 415, 422), (method, path)
            assert b"root:" not in reply.body
    reply = lab.request("GET", f"/tasks/1/log?attempt={text}&stream=stdout", token=ana)
    assert reply.status in (404, 422)
    reply = lab.request("GET", f"/tasks/1/log?stream={text}", token=ana)
    assert reply.status == 422


def test_a_name_is_never_a_path(lab: ApiServer, ana: str, tmp_path: Path) -> None:
    """Another's key was overwritten by giving its name; a name could have a slash in it."""
    before = everything_below(lab.home.parent)
    for name in ("../../escaped", "/etc/passwd", "a/b/c", "..", "stoker.db", "x\x00y"):
        lab.request("POST", "/tasks", {"command": ["true"], "name": name, "hold": True}, token=ana)
    new = {path for path in everything_below(lab.home.parent) - before if "stoker.db" not in path}
    assert new == set()


def everything_below(folder: Path) -> set[str]:
    return {os.path.join(base, name) for base, _, names in os.walk(folder) for name in names}


@pytest.mark.parametrize("word", SHELL_WORDS)
def test_quotes_and_back_ticks_arrive_as_they_were_typed(
    lab: ApiServer, ana: str, word: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They were run on the server, or replaced on the way. Here no shell stands in between."""
    monkeypatch.chdir(tmp_path)
    spec = {"command": ["printf", word], "env": {"X": word}, "workdir": "/", "name": word[:20]}
    reply = lab.request("POST", "/tasks", spec, token=ana)
    assert reply.status == 201, reply.json
    id = int(reply.json["id"])
    lab.until(lambda: any(order.attempt.task_id == id for order in launched))
    order = next(order for order in launched if order.attempt.task_id == id)
    assert order.spec.command == ("printf", word)
    assert order.spec.env["X"] == word
    assert list(tmp_path.iterdir()) == []


# ---- others' tasks


def test_a_tasks_number_is_no_key_to_it(lab: ApiServer, ana: str, held: str) -> None:
    """Anybody could read anybody's task by its number, stop it and delete it."""
    bo = lab.add_person("bo")
    for method, below in (("GET", "/log"), ("POST", "/cancel"), ("POST", "/hold"), ("DELETE", "")):
        reply = lab.request(method, f"/tasks/{held}{below}", token=bo)
        assert (reply.status, reply.json["code"]) == (403, "not_yours")
    seen = lab.request("GET", f"/tasks/{held}", token=bo).json["task"]
    assert (seen["reduced"], seen["spec"]["command"]) == (True, "")
    assert lab.request("GET", f"/tasks/{held}", token=ana).json["task"]["state"] == "HELD"


def test_what_is_kept_is_closed_to_other_accounts(lab: ApiServer) -> None:
    """`chmod 777` was recommended."""
    kept = list(lab.home.glob("stoker.db*"))
    assert kept
    for path in kept:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
