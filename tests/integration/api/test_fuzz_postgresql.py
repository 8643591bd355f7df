"""A few of the fuzz test's cases for each route, on PostgreSQL. `make soak` throws them all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings

from tests.helpers.api_server import ApiServer

from .test_fuzz import SPECS, fuzzable, fuzzed, holds, schema, taken_exactly

FEW = 2


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    with fuzzable(request, tmp_path_factory.mktemp("home"), "postgresql") as running:
        yield running


@schema.exclude(path_regex="stream$").parametrize()
@settings(fuzzed, max_examples=FEW)
def test_the_document_holds(case: schemathesis.Case[Any], server: ApiServer) -> None:
    holds(case, server)


@settings(fuzzed, max_examples=10 * FEW)
@given(spec=SPECS)
def test_a_task_is_taken_exactly_or_its_field_is_named(
    server: ApiServer, spec: dict[str, Any]
) -> None:
    taken_exactly(server, spec)
