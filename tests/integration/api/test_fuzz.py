"""Everything the OpenAPI document allows and forbids, thrown at a real server.

No 5xx, no undeclared status, no answer that breaks its schema, nothing accepted that the document
forbids. STOKER_FUZZ_EXAMPLES raises the number of cases for each route.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    missing_required_header,
    negative_data_rejection,
    positive_data_acceptance,
)

from stoker.api.app import ROUTES
from stoker.api.openapi import build_document, statuses
from stoker.api.route import Route
from stoker.domain.task import NOT_YET, fields
from tests.conftest import DATABASE
from tests.helpers.api_server import ApiServer, serving

from .conftest import by_name

EXAMPLES = int(os.environ.get("STOKER_FUZZ_EXAMPLES", "25"))
STREAMS = [route for route in ROUTES if route.media_type == "text/event-stream"]
SOME_TASKS = 20

SOME_SETTINGS = ("policy", "patient_s", "reuse_any")
"""One of each kind, none of which makes a server useless."""

pytestmark = pytest.mark.timeout(120 + EXAMPLES)

fuzzed = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
schema = schemathesis.openapi.from_dict(build_document(ROUTES, version="0"))


@schema.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    """Most ids that are drawn belong to no task: lead half of the good ones to one that is there."""
    id = path_parameters["id"] if path_parameters and "id" in path_parameters else None
    if isinstance(id, str) and re.fullmatch(r"[1-9][0-9]*[02468]", id):
        path_parameters["id"] = str(int(id) % SOME_TASKS + 1)
    node = path_parameters["node"] if path_parameters and "node" in path_parameters else None
    if isinstance(node, str) and len(node) == 1:
        path_parameters["node"] = "testbed"
    name = path_parameters["setting"] if path_parameters and "setting" in path_parameters else None
    if isinstance(name, str) and len(name) <= len(SOME_SETTINGS):
        path_parameters["setting"] = SOME_SETTINGS[len(name) - 1]
    return path_parameters


@pytest.fixture(scope="module")
def fuzz_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with fuzzable(request, tmp_path_factory.mktemp("home"), DATABASE) as running:
        yield running


@contextmanager
def fuzzable(request: pytest.FixtureRequest, home: Path, kind: str) -> Iterator[ApiServer]:
    """A server with some tasks, its records in a database of this kind."""
    records = "" if kind == "sqlite" else request.getfixturevalue("postgres").fresh()
    with serving(home, by_name, records) as running:
        for number in range(SOME_TASKS):
            running.submit(name="forever" if number % 4 == 0 else "", hold=number % 4 == 1)
        yield running


@schema.exclude(path_regex="stream$").parametrize()
@fuzzed
def test_the_document_holds(case: schemathesis.Case[Any], fuzz_server: ApiServer) -> None:
    holds(case, fuzz_server)


def holds(case: schemathesis.Case[Any], fuzz_server: ApiServer) -> None:
    response = case.call(base_url=fuzz_server.url, headers=fuzz_server.headers(), timeout=20)
    # what a type cannot say is refused too: `not_yet`, paths, NUL, more GPUs than there are
    excluded: list[Any] = [positive_data_acceptance]
    sent = parse_qs(urlsplit(str(response.request.url)).query, keep_blank_values=True)
    if set(case.query or {}) - set(sent):
        # a forbidden value without any text vanishes on the way: nothing is left to refuse
        excluded.append(negative_data_rejection)
    if response.status_code == 428:  # HTTP's own word for a missing If-Match
        assert response.json()["code"] == "if_match_missing"
        excluded.append(missing_required_header)
    case.validate_response(response, excluded_checks=excluded)


@pytest.mark.parametrize("route", STREAMS, ids=lambda route: route.path)
@fuzzed
@given(
    id=st.sampled_from(["1", "2", "20", "0", "x"]),
    query=st.dictionaries(
        st.sampled_from(["offset", "after", "stream", "attempt", "limit", "x"]),
        st.one_of(st.integers().map(str), st.sampled_from(["stdout", "stderr", ""]), st.text()),
        max_size=3,
    ),
    last=st.one_of(st.none(), st.integers().map(str), st.text("0123456789-x", max_size=30)),
)
def test_streams_answer_what_they_declare(
    fuzz_server: ApiServer, route: Route, id: str, query: dict[str, str], last: str | None
) -> None:
    target = route.path.replace("{id}", id)
    pairs = {name: value.encode("utf-8", "surrogatepass") for name, value in query.items()}
    headers = {} if last is None else {"Last-Event-ID": last}
    with fuzz_server.sse(f"{target}?{urlencode(pairs)}", **headers) as stream:
        assert stream.status in statuses(route)
        assert stream.status < 500
        if stream.status != 200:
            assert stream.response.headers["Content-Type"] == "application/json"


ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
STRATEGIES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.one_of(ANY_TEXT, st.sampled_from(["/", "/tmp", "discard", "merge", "+/x", ""])),
    int: st.integers(min_value=-2, max_value=2**70),
    bool: st.booleans(),
    dict[str, str]: st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=3),
    tuple[int, ...]: st.lists(st.integers(-1, 5), max_size=3),
    tuple[str, ...]: st.lists(st.one_of(ANY_TEXT, st.sampled_from(["1", "2:ok"])), max_size=3),
    Literal["exclusive", "shared", "reuse"]: st.sampled_from(["exclusive", "shared", "reuse", ""]),
    dict[str, tuple[str, ...]]: st.dictionaries(ANY_TEXT, st.lists(ANY_TEXT, max_size=2)),
    tuple[str, ...] | str: st.one_of(ANY_TEXT, st.lists(ANY_TEXT, max_size=3)),
}
SPECS = st.fixed_dictionaries(
    {"command": STRATEGIES[tuple[str, ...] | str]},
    optional={
        field.name: STRATEGIES[field.kind]
        for field in fields()
        if field.name not in NOT_YET | {"command"}
    },
)


@fuzzed
@given(spec=SPECS)
def test_a_task_is_taken_exactly_or_its_field_is_named(
    fuzz_server: ApiServer, spec: dict[str, Any]
) -> None:
    taken_exactly(fuzz_server, spec)


def taken_exactly(fuzz_server: ApiServer, spec: dict[str, Any]) -> None:
    reply = fuzz_server.request("POST", "/tasks", spec)
    if reply.status == 201:
        shown = fuzz_server.task(reply.json["id"])["spec"]
        assert {name: shown[name] for name in spec} == spec
    elif reply.status == 409:
        assert (reply.json["code"], reply.json["field"]) == ("urgent_already", "urgent")
    else:
        assert reply.status == 422
        needs = {"shared_needs_memory": "mode"}
        field = needs.get(reply.json["code"], reply.json["field"])
        assert re.match(r"\w+", field)[0] in spec  # type: ignore[index]


def test_after_all_this_it_still_works(fuzz_server: ApiServer) -> None:
    fuzz_server.request("POST", "/nodes/testbed/resume")
    fuzz_server.request("DELETE", "/pause")
    # tasks that run for ever may have been handed over again, until every core was theirs
    for group in ("waiting", "live"):
        found = fuzz_server.request("GET", f"/tasks?state={group}&limit=500").json["tasks"]
        for task in found:
            fuzz_server.request("POST", f"/tasks/{task['id']}/cancel")
    id = fuzz_server.submit(name="still here")
    fuzz_server.wait_for(id, "FINISHED")
    assert fuzz_server.request("GET", f"/tasks/{id}/log").body == b"still here"
