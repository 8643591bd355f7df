"""Who may call what: every route, every kind of caller, one's own task, another's, and none at all.

What is expected follows from how a route is declared; a row (`rows.py`) only says how to call it. A
route that has no row fails the first test: whoever adds one writes down its parameters and a body
that is valid, and the rest is tested by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, get_args

import pytest

from stoker.access.tokens import kept_as, public_id
from stoker.api.app import ROUTES
from stoker.api.route import Route
from stoker.domain.person import SCOPES
from stoker.domain.task import TaskSpec
from stoker.flow import submit
from stoker.lab.book import RULE, Put
from tests.helpers.api_server import ApiServer, serving

from .rows import PASSWORD, ROWS

QUIET = TaskSpec(command=("true",), hold=True, start_after="2999-01-01T00:00:00Z")
"""Does nothing by itself, whatever is done to it."""
NOBODYS = "not-there"

Role = Literal[
    "nobody", "wrong_token", "old_token", "locked", "expired", "lacking", "must_change",
    "user", "part_admin", "stale_admin", "admin", "keeper",
]  # fmt: skip
ROLES: tuple[Role, ...] = get_args(Role)
Whose = Literal["own", "other", "missing"]
Refusal = tuple[int, str]

AT_THE_WALL: dict[str, Refusal] = {
    "nobody": (401, "no_token"),
    "wrong_token": (401, "bad_token"),
    "old_token": (401, "token_expired"),
    "locked": (403, "account_locked"),
    "expired": (403, "account_expired"),
    "lacking": (403, "missing_scope"),
}
"""Who comes to no route that is not open."""


def verdict(route: Route, role: Role, whose: Whose, level: str) -> Refusal | None:
    """How this call must be refused; None: it is let in."""
    if route.access == "open":
        return None
    return AT_THE_WALL.get(role) or _by_role(route, role) or _by_task(route, role, whose, level)


def _by_role(route: Route, role: Role) -> Refusal | None:
    if role == "part_admin" and route.scope == "admin":
        return 403, "missing_scope"
    if role == "must_change" and route.scope != "account":
        return 403, "password_must_change"
    if route.access == "admin":
        if role in ("user", "must_change", "part_admin"):
            return 403, "admins_only"
        if role == "stale_admin" and route.method != "GET":
            return 403, "password_again"
    return None


def _by_task(route: Route, role: Role, whose: Whose, level: str) -> Refusal | None:
    if route.task is None or whose == "own":
        return None
    if whose == "missing":
        return 404, "unknown_task"
    if role == "stale_admin" and route.task == "act":
        return 403, "password_again"
    if role in ("admin", "stale_admin", "keeper"):
        return None
    if level == "nothing":
        return 404, "unknown_task"
    return None if route.task == "see" else (403, "not_yours")


class Lab:
    """Somebody of each kind."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        now = datetime.now(UTC)
        long_ago = now - timedelta(days=2)
        self._password = server.run(server.passwords.hashed(PASSWORD))

        def add(name: str, **known: Any) -> str:
            token = server.add_person(name, **known)
            book = server.flow.book
            server.run(book.amend([Put("person", name, book.people[name], self._password)]))
            return token

        self.tokens: dict[Role, str] = {
            "wrong_token": "stk_" + "0" * 43,
            "old_token": add("old_token", expires_at=long_ago),
            "locked": add("locked", locked=True),
            "expired": add("expired", expires=date(2020, 1, 1)),
            "must_change": add("must_change", must_change=True),
            "user": add("user"),
            "part_admin": add("part_admin", role="admin", scopes=SCOPES[:-1]),
            "stale_admin": add("stale_admin", role="admin", password_at=long_ago),
            "admin": add("admin", role="admin"),
            "keeper": server.token,
        }
        self.lacking = {
            scope: add(f"lacks_{scope}", role="admin", scopes=[s for s in SCOPES if s != scope])
            for scope in SCOPES
        }
        for name in ("somebody", "porter", "leaver", "edited"):
            server.add_person(name, password=PASSWORD if name == "porter" else None)
        self._tasks: dict[str, str] = {}
        self._furnish()
        book = server.flow.book
        self._people, self._credentials = dict(book.people), dict(book.credentials)

    def _furnish(self) -> None:
        """What some routes take away."""
        amend, admin = self.server.flow.book.amend, self.tokens["admin"]
        self.server.run(amend([Put(RULE, "notice_hosts", "127.0.0.1")]))
        for path, body in (
            ("/queues/spare", {}), ("/teams/old", {}), ("/teams/crew", {}),
            ("/me/channels/kept", {"url": "http://127.0.0.1:9/x"}),
            ("/mail", {"host": "mail.example", "sender": "lab@mail.example"}),
            ("/announcement", {"text": "x"}), ("/pause", {}),
        ):  # fmt: skip
            reply = self.server.request("PUT", path, body, token=admin, headers={"If-Match": "0"})
            assert reply.status == 200, reply.body

    def token(self, role: Role, route: Route) -> str | None:
        if role == "lacking":
            return self.lacking[route.scope] if route.scope is not None else None
        return self.tokens.get(role)

    def task(self, role: Role, whose: Whose, route: Route) -> str:
        """One that nothing has been done to yet; or an id that nobody has."""
        if route.task is None:
            return ""
        if whose == "missing":
            return "999999"
        mine = f"lacks_{route.scope}" if role == "lacking" else role
        owner = mine if whose == "own" else "somebody"
        if owner not in self._tasks:
            made = self.server.run(submit.submit(self.server.flow, owner, [QUIET], batch=False))
            self._tasks[owner] = str(made[0].key)
        return self._tasks[owner]

    def call(
        self, route: Route, role: Role, task: str, *, is_there: bool = True
    ) -> tuple[int, str]:
        """The status of the answer, and its code if it is a refusal. Unless `is_there`, of a name
        that nobody has."""
        row = ROWS[route.method, route.path]
        named = row.params if is_there else dict.fromkeys(row.params, NOBODYS)
        path = route.path.format(id=task, **named)
        token = self.token(role, route)
        known = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection = self.server.connect()
        try:
            kind = {"Content-Type": "application/json"} if row.body is not None else {}
            body = None if row.body is None else json.dumps(row.body)
            connection.request(
                route.method, f"/api/v1{path}", body, {**known, **kind, **row.headers}
            )
            response = connection.getresponse()
            if response.status < 400:
                return response.status, ""
            return response.status, str(json.loads(response.read())["code"])
        finally:
            connection.close()

    def used(self, task: str) -> None:
        """Something may have been done: another task is needed, and people as they were."""
        self._tasks = {owner: id for owner, id in self._tasks.items() if id != task}
        book = self.server.flow.book
        lost = [
            Put(kind, name, value, self._password if name in self.tokens else None)
            for kind, were, now in (
                ("person", self._people, book.people),
                ("credential", self._credentials, book.credentials),
            )
            for name, value in were.items()
            if now.get(name) != value or name in self.tokens
        ]
        self.server.run(book.amend(lost))

    def recorded(self) -> Any:
        """The number of the last event of all tasks, and all that was decided about the lab."""
        book = self.server.flow.book
        decided = (
            book.people, book.credentials, book.queues, book.teams, book.nodes, book.channels,
            book.changed_rules,
        )  # fmt: skip
        kept = [dict(some) for some in decided]
        kept[1] = dict.fromkeys(book.credentials)  # when one was last used may change
        return self.server.flow.news.last, kept, book.mail, book.announcement, book.pause


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with serving(tmp_path_factory.mktemp("home"), is_lab=True, keeper="keeper") as server:
        yield Lab(server)


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert {(route.method, route.path) for route in ROUTES} == set(ROWS)


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_everybody_gets_what_the_declaration_says(lab: Lab, route: Route) -> None:
    cases: list[Whose] = ["own"] if route.task is None else ["own", "other", "missing"]
    row = ROWS[route.method, route.path]
    for level in ("queue",) if route.task is None else ("queue", "all", "nothing"):
        lab.server.others_see(level)
        for role in ROLES if level == "queue" else ("user", "part_admin", "admin"):
            for whose in cases:
                task = lab.task(role, whose, route)
                expected, before = verdict(route, role, whose, level), lab.recorded()
                status, code = lab.call(route, role, task)
                about = (route.method, route.path, role, whose, level, status, code)
                if expected is None and route.method != "GET":
                    lab.used(task)
                if expected is not None:
                    assert (status, code) == expected, about
                    assert lab.recorded() == before, about
                else:
                    assert status not in (401, 403) or code in row.says_no, about
                    assert status < 500, about
                    assert code != "unknown_task", about
                    if route.task is None and role == "admin":
                        assert status == (row.answers or route.status), about


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if ROWS[route.method, route.path].missing],
    ids=lambda r: f"{r.method} {r.path}",
)
def test_what_is_not_there_is_said_to_who_may_know_only(lab: Lab, route: Route) -> None:
    """Nobody finds out by asking which names there are."""
    for role in ROLES:
        expected, before = verdict(route, role, "own", "queue"), lab.recorded()
        found = lab.call(route, role, "", is_there=False)
        missing = ROWS[route.method, route.path].missing
        assert found == (expected or (404, missing)), (route.method, route.path, role)
        assert lab.recorded() == before


def test_routes_that_name_something_say_when_it_is_not_there() -> None:
    makes = {"/queues/{queue}", "/teams/{team}", "/me/channels/{channel}"}
    for route in ROUTES:
        row = ROWS[route.method, route.path]
        can_miss = bool(row.params) and not (route.method == "PUT" and route.path in makes)
        assert bool(row.missing) == (can_miss and route.path != "/tokens/{token}"), route.path


def test_a_token_is_taken_away_by_whose_it_is_and_by_admins(lab: Lab) -> None:
    gone, other = (404, "unknown_token"), lab.server.add_person("other")
    refused: dict[Role, tuple[int, str]] = {
        "user": gone, "part_admin": gone, "must_change": gone, "stale_admin": (403, "password_again"),
    }  # fmt: skip

    def take_away(role: Role, id: str) -> tuple[int, str]:
        reply = lab.server.request("DELETE", f"/tokens/{id}", token=lab.tokens[role])
        return reply.status, reply.json.get("code", "")

    for role, expected in refused.items():
        before = lab.recorded()
        assert take_away(role, public_id(kept_as(other))) == expected, role
        assert take_away(role, NOBODYS) == gone
        assert lab.recorded() == before
        assert take_away(role, public_id(kept_as(lab.tokens[role]))) == (200, "")
        lab.used("")
    assert take_away("admin", public_id(kept_as(other))) == (200, "")
    assert lab.server.request("GET", "/me", token=other).json["code"] == "bad_token"


def test_only_admins_ask_about_somebody_else(lab: Lab) -> None:
    users: tuple[Role, ...] = ("user", "part_admin")
    admins: tuple[Role, ...] = ("admin", "stale_admin")
    for path in ("/tokens", "/share"):
        for name in ("somebody", NOBODYS):
            for role in users:
                reply = lab.server.request("GET", f"{path}?person={name}", token=lab.tokens[role])
                assert (reply.status, reply.json["code"]) == (403, "admins_only"), (path, role)
        for role in admins:
            reply = lab.server.request("GET", f"{path}?person=somebody", token=lab.tokens[role])
            assert reply.status == 200


def test_the_folders_own_token_makes_nobody_a_person(lab: Lab) -> None:
    """It is good for all that an admin does, and for nothing that is somebody's own."""
    own = {
        ("POST", "/logout"), ("PUT", "/me"), ("PUT", "/me/password"), ("POST", "/me/confirm"),
        ("POST", "/tasks"), ("POST", "/tasks/batch"),
        ("POST", "/tokens"), ("PUT", "/me/channels/{channel}"), ("PUT", "/me/notify"),
    }  # fmt: skip
    for route in ROUTES:
        if (route.method, route.path) in own:
            assert lab.call(route, "keeper", "") == (409, "own_token"), route.path
    assert "keeper" not in lab.server.flow.book.people


@pytest.mark.parametrize("whose", ["array", "element"])
def test_elements_of_anothers_array_are_anothers(lab: Lab, whose: str) -> None:
    lab.server.others_see("queue")
    spec = TaskSpec(command=("true",), hold=True, array="0-3")
    made = lab.server.run(submit.submit(lab.server.flow, "somebody", [spec], batch=False))
    task = f"{made[0].id}_2" if whose == "element" else str(made[0].id)
    for route in ROUTES:
        if route.task in ("act", "read"):
            assert lab.call(route, "user", task) == (403, "not_yours"), route.path
