"""Queues, teams, quotas and node labels. Everybody sees what concerns him; admins change them.

Writes through lab (the book of what was decided) and flow. A change names the version it was made
for: nobody overwrites what he has not seen.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from stoker.domain.errors import UnknownEntry, UnknownNode
from stoker.flow import overview
from stoker.flow import queues as flow_queues
from stoker.lab import queues as lab_queues
from stoker.wire import NodeView
from stoker.wire_queues import (
    LabelsWish,
    MembersWish,
    QueueRemoved,
    QueueView,
    QueueWish,
    Quotas,
    QuotaView,
    QuotaWish,
    TeamRemoved,
    TeamView,
    TeamWish,
)

from .query import NoQuery, Query
from .route import Call, route


class RemoveQueueQuery(Query, frozen=True, kw_only=True):
    move_to: Annotated[
        str, Meta(description="Another queue, where tasks go that wait in this one", max_length=100)
    ] = ""


# ---- queues


@route("GET", "/queues", access="person", scope="tasks:read", answer=list[QueueView])
async def list_queues(call: Call[NoQuery, None]) -> list[QueueView]:
    """The queues that the caller may use, the first to be served first; admins see all."""
    return flow_queues.queues(call.parts.flow, call.who.name, all=call.who.is_admin)


@route("GET", "/queues/{queue}", access="person", scope="tasks:read", answer=QueueView)
async def show_queue(call: Call[NoQuery, None]) -> QueueView:
    """One queue that the caller may use."""
    return _queue(call)


@route(
    "PUT",
    "/queues/{queue}",
    access="admin",
    scope="admin",
    body=QueueWish,
    answer=QueueView,
    refusals=(409,),
    versioned=True,
)
async def put_queue(call: Call[NoQuery, QueueWish]) -> QueueView:
    """Make a queue (If-Match: 0), or change all that one allows. Waiting tasks start on new terms."""
    book = call.parts.flow.book
    await lab_queues.put_queue(book, call.named("queue"), call.body, call.version, _by(call))
    return _queue(call)


@route(
    "DELETE",
    "/queues/{queue}",
    access="admin",
    scope="admin",
    query=RemoveQueueQuery,
    answer=QueueRemoved,
    refusals=(409,),
)
async def remove_queue(call: Call[RemoveQueueQuery, None]) -> QueueRemoved:
    """Remove a queue. Refused while tasks wait in it, unless `move_to` says where they go."""
    name = call.named("queue")
    moved = await flow_queues.remove_queue(call.parts.flow, name, call.query.move_to, _by(call))
    return QueueRemoved(name=name, moved=moved)


# ---- teams


@route("GET", "/teams", access="person", scope="tasks:read", answer=list[TeamView])
async def list_teams(call: Call[NoQuery, None]) -> list[TeamView]:
    """Every team; of those who are no admins their own."""
    return flow_queues.teams(call.parts.flow, _own_team(call))


@route(
    "PUT",
    "/teams/{team}",
    access="admin",
    scope="admin",
    body=TeamWish,
    answer=TeamView,
    refusals=(409,),
    versioned=True,
)
async def put_team(call: Call[NoQuery, TeamWish]) -> TeamView:
    """Make a team (If-Match: 0), or change it. Its members stay."""
    name = call.named("team")
    await lab_queues.put_team(call.parts.flow.book, name, call.body, call.version, _by(call))
    return flow_queues.team(call.parts.flow, name)


@route(
    "POST",
    "/teams/{team}/members",
    access="admin",
    scope="admin",
    body=MembersWish,
    answer=TeamView,
    refusals=(412,),
)
async def change_members(call: Call[NoQuery, MembersWish]) -> TeamView:
    """Take people into a team, or out of it. A person is in one team at most."""
    name, wish = call.named("team"), call.body
    await lab_queues.change_members(call.parts.flow.book, name, wish.add, wish.remove, _by(call))
    return flow_queues.team(call.parts.flow, name)


@route(
    "DELETE",
    "/teams/{team}",
    access="admin",
    scope="admin",
    answer=TeamRemoved,
    refusals=(409, 412),
)
async def remove_team(call: Call[NoQuery, None]) -> TeamRemoved:
    """Remove a team. Its members are in none then. Refused while a queue is for it."""
    name = call.named("team")
    members = await lab_queues.drop_team(call.parts.flow.book, name, _by(call))
    return TeamRemoved(name=name, members=members)


# ---- quotas


@route("GET", "/quotas", access="person", scope="tasks:read", answer=Quotas)
async def list_quotas(call: Call[NoQuery, None]) -> Quotas:
    """What everybody and every team may hold, and holds; of those who are no admins their own."""
    flow, who = call.parts.flow, call.who
    people = flow_queues.quotas(flow, None if who.is_admin else who.name)
    return Quotas(people=tuple(people), teams=tuple(flow_queues.teams(flow, _own_team(call))))


@route(
    "PUT",
    "/people/{person}/quota",
    access="admin",
    scope="admin",
    body=QuotaWish,
    answer=QuotaView,
    refusals=(412,),
)
async def set_quota(call: Call[NoQuery, QuotaWish]) -> QuotaView:
    """How many GPUs a person may hold at the same time. What runs goes on."""
    name = call.named("person")
    await lab_queues.set_quota(call.parts.flow.book, name, call.body.most_cards, _by(call))
    return flow_queues.quota(call.parts.flow, name)


# ---- labels


@route(
    "PUT",
    "/nodes/{node}/labels",
    access="admin",
    scope="admin",
    body=LabelsWish,
    answer=NodeView,
    refusals=(412,),
)
async def label_node(call: Call[NoQuery, LabelsWish]) -> NodeView:
    """Give a node exactly these labels, by which queues name nodes."""
    flow = call.parts.flow
    if call.node not in flow.view.rooms:
        raise UnknownNode(node=call.node[:100])
    await lab_queues.set_labels(flow.book, call.node, call.body.labels, _by(call))
    return next(node for node in overview.nodes(flow) if node.name == call.node)


ROUTES = (
    list_queues, show_queue, put_queue, remove_queue, list_teams, put_team, change_members,
    remove_team, list_quotas, set_quota, label_node,
)  # fmt: skip


def _queue(call: Call[Any, Any]) -> QueueView:
    name, who = call.named("queue"), call.who
    for view in flow_queues.queues(call.parts.flow, who.name, all=who.is_admin):
        if view.name == name:
            return view
    raise UnknownEntry("no_such_queue", queue=name[:100])


def _own_team(call: Call[Any, Any]) -> str | None:
    """None: all of them."""
    return None if call.who.is_admin else call.who.person.team


def _by(call: Call[Any, Any]) -> lab_queues.By:
    return lab_queues.By(call.who.name, call.parts.flow.clock.now(), call.who.origin)
