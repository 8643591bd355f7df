"""The document says everything that is checked, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from stoker.api.app import ROUTES
from stoker.api.openapi import WHY, build_document, statuses
from stoker.api.route import PREFIX, Route, route
from stoker.domain.task import fields
from stoker.wire import Health

DOCUMENT = build_document(ROUTES, version="1.2.3")
SCHEMAS = DOCUMENT["components"]["schemas"]


def operation(declared: Route) -> Any:
    return DOCUMENT["paths"][PREFIX + declared.path][declared.method.lower()]


def test_every_route_is_there_once() -> None:
    described = {
        (method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item
    }
    assert described == {(r.method, PREFIX + r.path) for r in ROUTES}
    assert len({r.name for r in ROUTES}) == len(ROUTES)


@pytest.mark.parametrize("declared", ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_every_route_says_what_it_is_and_every_status(declared: Route) -> None:
    described = operation(declared)
    assert described["summary"].endswith(".")
    assert set(described["responses"]) == {str(status) for status in statuses(declared)}
    assert {int(status) for status in described["responses"]} - {declared.status} <= set(WHY)
    assert ("401" in described["responses"]) == (declared.access != "open")
    assert (described.get("security") == []) == (declared.access == "open")


def test_request_bodies_are_closed_and_answers_open() -> None:
    for declared in ROUTES:
        if declared.body is not None:
            assert SCHEMAS[declared.body.__name__]["additionalProperties"] is False
    for name in ("TaskView", "TaskSpec", "Problem", "NodeView"):
        assert "additionalProperties" not in SCHEMAS[name]


def test_every_field_of_a_task_is_described() -> None:
    for name in ("Submission", "TaskSpec"):
        properties = SCHEMAS[name]["properties"]
        assert list(properties) == [field.name for field in fields()]
        assert all("description" in json.dumps(described) for described in properties.values())
    assert SCHEMAS["TaskView"]["properties"]["spec"] == {"$ref": "#/components/schemas/TaskSpec"}
    assert SCHEMAS["EventView"]["properties"]["values"] == {"type": "object"}


def test_parameters_carry_their_limits() -> None:
    found = {
        parameter["name"]: parameter
        for parameter in DOCUMENT["paths"]["/api/v1/tasks"]["get"]["parameters"]
    }
    assert found["limit"]["schema"] == {
        "type": "integer", "minimum": 1, "maximum": 500, "default": 50,
    }  # fmt: skip
    assert found["state"]["schema"]["type"] == "array"
    assert "unfinished" in found["state"]["schema"]["items"]["enum"]
    assert found["cursor"]["schema"] == {"type": "string", "minLength": 1, "maxLength": 500}
    assert all(parameter["description"] for parameter in found.values())


def test_every_reference_leads_somewhere() -> None:
    text = msgspec.json.encode(DOCUMENT).decode()
    names = {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert names <= set(SCHEMAS)
    assert "http://" not in text
    assert "https://" not in text


def test_a_route_without_a_decision_on_access_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="access"):
        route("GET", "/x", answer=Health)  # type: ignore[call-arg]
