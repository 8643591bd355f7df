"""Nodes and their cards, as the last sample showed them."""

from __future__ import annotations

from stoker.flow import overview
from stoker.wire import NodeView

from .query import NoQuery
from .route import Call, route


@route("GET", "/nodes", access="token", answer=list[NodeView])
async def nodes(call: Call[NoQuery, None]) -> list[NodeView]:
    """Every node: its room, its cards, and who holds them."""
    return overview.nodes(call.parts.flow)


ROUTES = (nodes,)
