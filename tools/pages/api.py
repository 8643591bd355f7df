"""Routes and bodies of the HTTP API, from the table of routes and its OpenAPI document."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.api.app import ROUTES
from stoker.api.openapi import ANY_ROUTE, WHY, build_document, statuses
from stoker.api.route import PREFIX, Route

from .declared import field_notes
from .markdown import table

MOST_SHOWN = 2**53
"""A limit beyond this is no limit to a person."""


def page() -> str:
    document = build_document(ROUTES, version="")
    every = ", ".join(f"{status} ({WHY[status]})" for status in ANY_ROUTE)
    parts = [
        "# HTTP API",
        "",
        f"JSON over HTTP below `{PREFIX}`. The same as an OpenAPI 3.1 document: `GET {PREFIX}/openapi.json`.",
        "",
        "- **Token.** `Authorization: Bearer TOKEN`, from the file `token` in the state folder. Routes "
        "marked *open* need none.",
        "- **Strict.** Unknown fields and parameters, wrong types and values out of range are refused, "
        "naming the field. Answers may gain fields.",
        "- **Errors** have one shape, [Problem](#problem): `code`, `message`, `field`, `hint`; the "
        "sentences follow `Accept-Language` (English or Chinese). Codes: [errors.md](errors.md).",
        "- **Times** are ISO 8601 in UTC; `id` is a string.",
        "- **For everybody.** While there is an announcement, every answer carries it as "
        "`Stoker-Announcement`; while scheduling is paused, `Stoker-Paused` says by whom, since when and why, as JSON. "
        "Both are percent-encoded UTF-8.",
        "- **Streams** are server-sent events, resumable by `Last-Event-ID`.",
        f"- Any route may answer {every}; with a token route also 401.",
        "",
        "## Routes",
        "",
        *table(
            ("route", "does"),
            ((f"[{_title(r)}](#{_slug(_title(r))})", r.about) for r in ROUTES),
        ),
        "",
    ]
    for route in ROUTES:
        parts += _route(route, document)
    parts += ["## Bodies", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += [f"### {name}", "", *_struct(name, schema), ""]
    return "\n".join(parts)


def _title(route: Route) -> str:
    return f"{route.method} {route.path}"


def _slug(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _route(route: Route, document: dict[str, Any]) -> list[str]:
    operation = document["paths"][PREFIX + route.path][route.method.lower()]
    lines = [
        f"### {_title(route)}",
        "",
        route.about + (" *Open.*" if route.access == "open" else ""),
        "",
    ]
    query = [p for p in operation["parameters"] if p["in"] == "query"]
    if query:
        rows = [
            (f"`{p['name']}`", _shape(p["schema"]), _json(p["schema"].get("default", ...)), p["description"])
            for p in query
        ]  # fmt: skip
        lines += [*table(("parameter", "kind", "default", "means"), rows), ""]
    if route.body is not None:
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        lines += [f"Body: {_shape(body)}.", ""]
    answer = operation["responses"][str(route.status)]
    (media, content), *_ = answer["content"].items()
    shape = f"{_shape(content['schema'])}" if media == "application/json" else f"`{media}`"
    lines += [f"Answers {route.status} with {shape}.", ""]
    if route.headers:
        said = [(f"`{name}`", about) for name, about in route.headers.items()]
        lines += [*table(("header", "says"), said), ""]
    own = [s for s in statuses(route) if s not in (*ANY_ROUTE, 401, route.status)]
    if own:
        lines += ["Also: " + ", ".join(f"{status} ({WHY[status]})" for status in own) + ".", ""]
    return lines


def _struct(name: str, schema: dict[str, Any]) -> list[str]:
    notes = field_notes(name)
    lines = [schema["description"], ""] if schema.get("description") else []
    rows = [
        (
            f"`{field}`",
            _shape(inner),
            _json(inner.get("default", ...)),
            inner.get("description") or notes.get(field, ""),
        )
        for field, inner in schema.get("properties", {}).items()
    ]
    return [*lines, *table(("field", "kind", "default", "means"), rows)]


def _shape(schema: dict[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_shape(kind) for kind in schema["anyOf"]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_shape(schema.get('items') or {'type': 'anything'})}"
    limits = [
        f"{sign} {schema[key]}"
        for key, sign in (("minimum", "≥"), ("maximum", "≤"), ("maxLength", "at most"))
        if key in schema and abs(schema[key]) < MOST_SHOWN
    ]
    return ", ".join([schema.get("format", kind), *limits])


def _json(value: Any) -> str:
    return "–" if value is ... else f"`{msgspec.json.encode(value).decode()}`"
