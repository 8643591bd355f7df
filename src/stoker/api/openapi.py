"""The OpenAPI 3.1 document, made from the table of routes and the structs of wire.py.

Schemas are msgspec's own, so what is documented is what is checked: request bodies are closed,
answers are open. Every status a route can answer is declared. No page loads anything from
elsewhere: there is only the document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from stoker.wire import Problem

from .route import PREFIX, Route

REF = "#/components/schemas/{name}"


def _in_path(name: str, description: str, **schema: object) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", **(schema or {"minLength": 1})},
    }


TASK_ID = _in_path(
    "id",
    "A task: `17`, or `17_3` for element 3 of array 17",
    pattern="^[1-9][0-9]{0,17}(_(0|[1-9][0-9]{0,17}))?$",
)
NODE = _in_path("node", "A node's name")
TOKEN = _in_path("token", "A token's or session's `id`: twelve digits", pattern="^[0-9a-f]{12}$")
PERSON = _in_path("person", "A person's name")
CHANNEL = _in_path(
    "channel",
    "A channel's name: `mail`, or one of your own choice",
    pattern="^[a-z0-9][a-z0-9_-]{0,31}$",
)
SETTING = _in_path("setting", "A setting's name")
QUEUE = _in_path("queue", "A queue's name")
TEAM = _in_path("team", "A team's name")
IN_PATH = {
    "{id}": TASK_ID,
    "{node}": NODE,
    "{token}": TOKEN,
    "{person}": PERSON,
    "{channel}": CHANNEL,
    "{setting}": SETTING,
    "{queue}": QUEUE,
    "{team}": TEAM,
}
IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": "The `version` that the edit was made for",
    "schema": {"type": "string", "pattern": '^("[0-9]{1,18}"|[0-9]{1,18})$'},
}
SESSION = {"type": "apiKey", "in": "cookie", "name": "__Host-stoker"}
ANY_ROUTE = (400, 403, 421, 422, 500, 503)
"""Bytes that are not UTF-8, foreign origin, foreign host, bad parameters, a fault of ours, a disk
that refuses."""
WHY = {
    400: "Not JSON, or not UTF-8",
    401: "No token, or not the right one",
    403: "Sent by a page of another site, or not allowed to this person or token",
    404: "There is no such thing",
    409: "It is not in a state for that",
    412: "Somebody changed it after that version",
    413: "The body is too large",
    415: "The body does not say that it is JSON",
    421: "Not a host name of this server",
    422: "A field or parameter is wrong; it is named",
    428: "The version it is about (If-Match) was not said",
    429: "Too many at the moment: Retry-After says when to come back",
    500: "A fault of the server",
    503: "The disk or the node does not answer; try again later",
}


def build_document(routes: Sequence[Route], *, version: str) -> dict[str, Any]:
    """The whole document."""
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, schema_of)
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stoker", "version": version},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}, "session": SESSION},
        },
        "security": [{"token": []}, {"session": []}],
    }


def statuses(route: Route) -> list[int]:
    """Everything this route may answer."""
    found = {route.status, *ANY_ROUTE, *route.refusals}
    if route.access != "open":
        found.add(401)
    if any(name in route.path for name in IN_PATH):
        found.add(404)
    if route.versioned:
        found |= {412, 428}
    if route.body is not None:
        found |= {413, 415}
    return sorted(found)


def _types(routes: Iterable[Route]) -> list[Any]:
    found: list[Any] = [Problem]
    for route in routes:
        for kind in (route.body, route.answer):
            if kind not in (None, bytes, *found):
                found.append(kind)
    return found


def _operation(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    parameters = [parameter for name, parameter in IN_PATH.items() if name in route.path]
    if route.versioned:
        parameters.append(IF_MATCH)
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "parameters": parameters + _parameters(route),
        "responses": {
            str(status): _response(route, status, schema_of) for status in statuses(route)
        },
    }
    if route.access == "open":
        operation["security"] = []
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema_of[route.body]}},
        }
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    schema: dict[str, Any] = msgspec.json.schema(route.query)["$defs"][route.query.__name__]
    found = []
    for name, described in schema["properties"].items():
        plain = _without_null(described)
        parameter = {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": plain.pop("description", ""),
            "schema": plain,
        }
        found.append(parameter)
    return found


def _response(route: Route, status: int, schema_of: dict[Any, Any]) -> dict[str, Any]:
    if status != route.status:
        content = {"application/json": {"schema": schema_of[Problem]}}
        return {"description": WHY[status], "content": content}
    schema = {"type": "string"} if route.answer is bytes else schema_of[route.answer]
    answer: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {kind: {"schema": schema} for kind in route.media_type.split(", ")},
    }
    if route.headers:
        answer["headers"] = {
            name: {"description": about, "required": True, "schema": {"type": "string"}}
            for name, about in route.headers.items()
        }
    return answer


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is left out, never null."""
    kinds: list[dict[str, Any]] = [
        kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}
    ]
    if schema.get("default", ...) is None:
        schema = {key: value for key, value in schema.items() if key != "default"}
    if len(kinds) == 1:
        return {key: value for key, value in schema.items() if key != "anyOf"} | kinds[0]
    return schema
