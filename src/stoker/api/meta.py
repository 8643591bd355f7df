"""About the server itself: health, version, and the description of this API. Open to all.

A stranger learns whether it works, and nothing about nodes, people or paths.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from stoker.flow import overview
from stoker.wire import Health, Version

from .answer import Answer
from .query import NoQuery
from .route import PREFIX, Call, route


@route("GET", "/health", access="open", answer=Health)
async def health(call: Call[NoQuery, None]) -> Health:
    """Whether it works; for whom is known here, also what is wrong
    if not, and what everybody should know."""
    found = overview.health(call.parts.flow)
    return found if call.who.name else structs.replace(found, problems=(), notices=())


@route("GET", "/version", access="open", answer=Version)
async def version(call: Call[NoQuery, None]) -> Version:
    """Which version this is; for admins also where it keeps its state."""
    home = call.parts.home if call.who.is_admin else ""
    return Version(version=call.parts.version, api=PREFIX.rpartition("/")[2], home=home)


@route("GET", "/openapi.json", access="open", answer=dict[str, Any])
async def openapi(call: Call[NoQuery, None]) -> Answer:
    """This description."""
    return Answer(call.parts.document)


ROUTES = (health, version, openapi)
