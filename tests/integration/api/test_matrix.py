"""Who may call what: every route, every kind of caller, one's own task, another's, and none at all.

What is expected follows from how a route is declared; a row only says how to call it. A route that
has no row here fails the first test: whoever adds one writes down its parameters and a body that
is valid, and the rest is tested by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple, get_args

import pytest

from stoker.api.app import ROUTES
from stoker.api.route import Route
from stoker.domain.person import SCOPES
from stoker.domain.task import TaskSpec
from stoker.flow import submit
from stoker.lab.book import Put
from tests.helpers.api_server import ApiServer, serving

SPEC = {"command": ["true"], "hold": True}
QUIET = TaskSpec(command=("true",), hold=True, start_after="2999-01-01T00:00:00Z")
"""Does nothing by itself, whatever is done to it."""
SEEN = {"If-Match": "1"}


class Row(NamedTuple):
    """How a route is called by somebody who may."""

    body: Any = None
    params: Mapping[str, str] = {}
    """Parameters of the path but the task."""
    headers: Mapping[str, str] = {}
    says_no: frozenset[str] = frozenset()
    """Codes with which its handler refuses, with 401 or 403, somebody who was let in."""


ROWS: dict[tuple[str, str], Row] = {
    ("POST", "/tasks"): Row(SPEC),
    ("POST", "/tasks/batch"): Row({"tasks": [SPEC]}),
    ("POST", "/tasks/preview"): Row(SPEC),
    ("GET", "/tasks"): Row(),
    ("GET", "/tasks/export"): Row(),
    ("GET", "/tasks/{id}"): Row(),
    ("GET", "/tasks/{id}/why"): Row(),
    ("GET", "/tasks/{id}/successors"): Row(),
    ("GET", "/tasks/{id}/log"): Row(),
    ("GET", "/tasks/{id}/log/stream"): Row(),
    ("POST", "/tasks/{id}/cancel"): Row(),
    ("POST", "/tasks/{id}/hold"): Row(),
    ("POST", "/tasks/{id}/release"): Row(),
    ("PUT", "/tasks/{id}/spec"): Row(SPEC, headers=SEEN),
    ("POST", "/tasks/{id}/move"): Row({"to": "first"}),
    ("POST", "/tasks/{id}/requeue"): Row(),
    ("POST", "/tasks/{id}/resubmit"): Row(),
    ("DELETE", "/tasks/{id}"): Row(),
    ("GET", "/events"): Row(),
    ("GET", "/events/stream"): Row(),
    ("GET", "/nodes"): Row(),
    ("POST", "/nodes/{node}/drain"): Row({"why": "x"}, {"node": "testbed"}),
    ("POST", "/nodes/{node}/resume"): Row(params={"node": "testbed"}),
    ("GET", "/health"): Row(),
    ("GET", "/version"): Row(),
    ("GET", "/openapi.json"): Row(),
}

Role = Literal[
    "nobody", "wrong_token", "old_token", "locked", "expired", "lacking", "must_change",
    "user", "part_admin", "stale_admin", "admin",
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
    if role in ("admin", "stale_admin"):
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
        add = server.add_person
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
        }
        self.lacking = {
            scope: add(f"lacks_{scope}", role="admin", scopes=[s for s in SCOPES if s != scope])
            for scope in SCOPES
        }
        add("somebody")
        self._tasks: dict[str, str] = {}
        book = server.flow.book
        self._people, self._credentials = dict(book.people), dict(book.credentials)

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

    def call(self, route: Route, role: Role, task: str) -> tuple[int, str]:
        """The status of the answer, and its code if it is a refusal."""
        row = ROWS[route.method, route.path]
        path = route.path.format(id=task, **row.params)
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
            Put(kind, name, value)
            for kind, were, now in (
                ("person", self._people, book.people),
                ("credential", self._credentials, book.credentials),
            )
            for name, value in were.items()
            if now.get(name) != value
        ]
        if lost:
            self.server.run(book.amend(lost))

    def recorded(self) -> int:
        """The number of the last event of all tasks."""
        return self.server.flow.news.last


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with serving(tmp_path_factory.mktemp("home"), is_lab=True) as server:
        yield Lab(server)


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    assert {(route.method, route.path) for route in ROUTES} == set(ROWS)


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_everybody_gets_what_the_declaration_says(lab: Lab, route: Route) -> None:
    cases: list[Whose] = ["own"] if route.task is None else ["own", "other", "missing"]
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
                    says_no = ROWS[route.method, route.path].says_no
                    assert status not in (401, 403) or code in says_no, about
                    assert status < 500, about
                    assert code != "unknown_task", about


@pytest.mark.parametrize("whose", ["array", "element"])
def test_elements_of_anothers_array_are_anothers(lab: Lab, whose: str) -> None:
    lab.server.others_see("queue")
    spec = TaskSpec(command=("true",), hold=True, array="0-3")
    made = lab.server.run(submit.submit(lab.server.flow, "somebody", [spec], batch=False))
    task = f"{made[0].id}_2" if whose == "element" else str(made[0].id)
    for route in ROUTES:
        if route.task in ("act", "read"):
            assert lab.call(route, "user", task) == (403, "not_yours"), route.path
