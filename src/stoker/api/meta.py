"""About the server itself: health, version, and the description of this API. Open to all."""

from __future__ import annotations

from typing import Any

from stoker.flow import overview
from stoker.wire import Health, Version

from .answer import Answer
from .query import NoQuery
from .route import PREFIX, Call, route


@route("GET", "/health", access="open", answer=Health)
async def health(call: Call[NoQuery, None]) -> Health:
    """Whether it works, and what is wrong if not."""
    return overview.health(call.parts.flow)


@route("GET", "/version", access="open", answer=Version)
async def version(call: Call[NoQuery, None]) -> Version:
    """Which version this is."""
    return Version(version=call.parts.version, api=PREFIX.rpartition("/")[2], home=call.parts.home)


@route("GET", "/openapi.json", access="open", answer=dict[str, Any])
async def openapi(call: Call[NoQuery, None]) -> Answer:
    """This description."""
    return Answer(call.parts.document)


ROUTES = (health, version, openapi)
