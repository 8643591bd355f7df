"""Everything the OpenAPI document allows and forbids, thrown at a lab's server by a stranger, a user
and an admin.

No 5xx, no undeclared status, no answer that breaks its schema; a stranger gets nothing but what is
open, and no answer to the user holds a word of what is private to others. STOKER_FUZZ_EXAMPLES
raises the number of cases for each route and role.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import schemathesis
from hypothesis import Phase, settings
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    missing_required_header,
    negative_data_rejection,
    positive_data_acceptance,
)

from stoker.access.tokens import kept_as, new_secret
from stoker.api.app import ROUTES
from stoker.api.route import PREFIX
from stoker.domain.person import Credential, Person
from stoker.domain.task import TaskSpec
from stoker.flow import submit
from stoker.lab.book import Put
from tests.helpers.api_server import ApiServer, serving

from .conftest import by_name
from .test_fuzz import SOME_TASKS, fuzzed, schema

EXAMPLES = int(os.environ.get("STOKER_FUZZ_EXAMPLES", "3"))
FEW = 25
MANY = 10_000
"""Cases for each role, when very many were asked for."""
OPEN = {(route.method, PREFIX + route.path) for route in ROUTES if route.access == "open"}
CANARY = "CANARY-of-another"

PHASES = fuzzed.phases if EXAMPLES > FEW else [Phase.generate]
"""The document's own examples are many."""

pytestmark = pytest.mark.timeout(120 + EXAMPLES)

some = settings(fuzzed, max_examples=EXAMPLES, phases=PHASES)
routes = schema.exclude(path_regex="stream$").parametrize()


class Lab:
    """A server with a user and an admin who stay what they are, whatever is sent in their name."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.cases: Counter[str] = Counter()
        self._people = {"user": Person(name="user"), "admin": Person(name="admin", role="admin")}
        self._known: dict[str, tuple[str, Credential]] = {}
        for name, person in self._people.items():
            token = server.add_person(name, role=person.role)
            self._known[name] = token, server.flow.book.credentials[kept_as(token)]
        for number in range(SOME_TASKS):
            owner = ("user", "somebody", "admin")[number % 3]
            private = "own" if owner == "user" else CANARY
            spec = TaskSpec(
                command=("true", private),
                env={"SECRET": private},
                description=private,
                name="forever" if number % 4 == 0 else "",
                hold=number % 4 == 1,
            )
            server.run(submit.submit(server.flow, owner, [spec], batch=False))

    def headers(self, role: str) -> dict[str, str]:
        """Of a token that is good: some routes take one away, lock somebody, or ask for a new
        password."""
        book, (token, credential) = self.server.flow.book, self._known[role]
        kept = book.credentials.get(kept_as(token))
        person = book.people.get(role)
        expected = self._people[role]
        if kept is None or person is None or (person.locked, person.must_change, person.role) != (
            expected.locked, expected.must_change, expected.role
        ):  # fmt: skip
            token = new_secret()
            self._known[role] = token, credential
            changes = [Put("person", role, expected), Put("credential", kept_as(token), credential)]
            self.server.run(book.amend(changes))
        return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with serving(tmp_path_factory.mktemp("home"), by_name, is_lab=True) as server:
        yield Lab(server)


@routes
@some
def test_a_stranger(case: schemathesis.Case[Any], lab: Lab) -> None:
    response = sent(case, lab, "stranger", {})
    if response.status_code < 300:
        assert (case.method, case.path) in OPEN


@routes
@some
def test_a_user(case: schemathesis.Case[Any], lab: Lab) -> None:
    response = sent(case, lab, "user", lab.headers("user"))
    assert CANARY.encode() not in response.content


@routes
@some
def test_an_admin(case: schemathesis.Case[Any], lab: Lab) -> None:
    sent(case, lab, "admin", lab.headers("admin"))


def test_there_were_many(lab: Lab) -> None:
    fewest = min(lab.cases[role] for role in ("stranger", "user", "admin"))
    assert fewest >= MANY or "STOKER_SOAK" not in os.environ, lab.cases


def sent(
    case: schemathesis.Case[Any], lab: Lab, role: str, headers: dict[str, str]
) -> schemathesis.Response:
    lab.cases[role] += 1
    response = case.call(base_url=lab.server.url, headers=headers, timeout=20)
    # what a type cannot say is refused too; who may do it is not in the document
    excluded: list[Any] = [positive_data_acceptance, ignored_auth]
    asked = parse_qs(urlsplit(str(response.request.url)).query, keep_blank_values=True)
    if set(case.query or {}) - set(asked):
        # a forbidden value without any text vanishes on the way: nothing is left to refuse
        excluded.append(negative_data_rejection)
    if response.status_code in (401, 403, 404, 428):  # before anybody looks at what is missing
        excluded.append(missing_required_header)
    case.validate_response(response, excluded_checks=excluded)
    return response
