"""Nodes and their cards, as the last sample showed them; taking one out and back in."""

from __future__ import annotations

from stoker.domain.errors import UnknownNode
from stoker.flow import nodes as fleet
from stoker.flow import overview
from stoker.wire import DrainWish, NodeView

from .query import NoQuery
from .route import Call, route


@route("GET", "/nodes", access="person", scope="tasks:read", answer=list[NodeView])
async def nodes(call: Call[NoQuery, None]) -> list[NodeView]:
    """Every node: its room, its cards, and who holds them."""
    return call.sight.nodes(overview.nodes(call.parts.flow))


@route(
    "POST", "/nodes/{node}/drain", access="admin", scope="admin", body=DrainWish, answer=NodeView
)
async def drain_node(call: Call[NoQuery, DrainWish]) -> NodeView:
    """Start nothing new on it; what runs there goes on. Kept over restarts."""
    flow, name = call.parts.flow, _known(call)
    await call.note("node.drain", f"node {name}", why=call.body.why)
    await fleet.drain(flow, name, call.body.why, call.who.name)
    return _shown(call)


@route("POST", "/nodes/{node}/resume", access="admin", scope="admin", answer=NodeView)
async def resume_node(call: Call[NoQuery, None]) -> NodeView:
    """Let tasks start on it again."""
    flow, name = call.parts.flow, _known(call)
    await call.note("node.resume", f"node {name}")
    await fleet.resume(flow, name, call.who.name)
    return _shown(call)


ROUTES = (nodes, drain_node, resume_node)


def _known(call: Call[NoQuery, DrainWish] | Call[NoQuery, None]) -> str:
    if call.node not in call.parts.flow.view.rooms:
        raise UnknownNode(node=call.node[:100])
    return call.node


def _shown(call: Call[NoQuery, DrainWish] | Call[NoQuery, None]) -> NodeView:
    return next(node for node in overview.nodes(call.parts.flow) if node.name == call.node)
