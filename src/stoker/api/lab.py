"""What is said to the whole lab: the announcement, and the pause of scheduling."""

from __future__ import annotations

from stoker.flow import pause as pausing
from stoker.flow.context import Flow
from stoker.lab import announce as announcing
from stoker.wire_admin import AnnouncementView, AnnouncementWish, PauseView, PauseWish

from .query import NoQuery
from .route import Call, route


@route("GET", "/announcement", access="person", scope="tasks:read", answer=AnnouncementView)
async def announcement(call: Call[NoQuery, None]) -> AnnouncementView:
    """What everybody is shown."""
    return _announcement(call.parts.flow)


@route(
    "PUT",
    "/announcement",
    access="admin",
    scope="admin",
    body=AnnouncementWish,
    answer=AnnouncementView,
    refusals=(409,),
)
async def announce(call: Call[NoQuery, AnnouncementWish]) -> AnnouncementView:
    """Show this line to everybody, until it is cleared. While there is one, every answer carries it
    in the header Stoker-Announcement, percent-encoded."""
    flow = call.parts.flow
    await announcing.announce(flow.book, call.body.text, **call.stamp)
    return _announcement(flow)


@route(
    "DELETE",
    "/announcement",
    access="admin",
    scope="admin",
    answer=AnnouncementView,
    refusals=(409,),
)
async def clear_announcement(call: Call[NoQuery, None]) -> AnnouncementView:
    """Show nothing any more."""
    flow = call.parts.flow
    await announcing.clear(flow.book, **call.stamp)
    return _announcement(flow)


@route("GET", "/pause", access="person", scope="tasks:read", answer=PauseView)
async def scheduling(call: Call[NoQuery, None]) -> PauseView:
    """Whether scheduling is paused."""
    return _pause(call.parts.flow)


@route(
    "PUT",
    "/pause",
    access="admin",
    scope="admin",
    body=PauseWish,
    answer=PauseView,
    refusals=(409,),
)
async def pause_scheduling(call: Call[NoQuery, PauseWish]) -> PauseView:
    """Start nothing new; what runs goes on, and tasks are taken as before. Kept over restarts."""
    flow, who = call.parts.flow, call.who
    await pausing.pause(flow, call.body.why, who=who.name, origin=who.origin)
    return _pause(flow)


@route("DELETE", "/pause", access="admin", scope="admin", answer=PauseView, refusals=(409,))
async def resume_scheduling(call: Call[NoQuery, None]) -> PauseView:
    """Let tasks start again."""
    flow, who = call.parts.flow, call.who
    await pausing.unpause(flow, who=who.name, origin=who.origin)
    return _pause(flow)


ROUTES = (
    announcement,
    announce,
    clear_announcement,
    scheduling,
    pause_scheduling,
    resume_scheduling,
)


def _announcement(flow: Flow) -> AnnouncementView:
    said = flow.book.announcement
    if said is None:
        return AnnouncementView()
    return AnnouncementView(text=said.text, by=said.by, at=said.at)


def _pause(flow: Flow) -> PauseView:
    found = flow.book.pause
    if found is None:
        return PauseView(paused=False)
    return PauseView(paused=True, by=found.by, at=found.at, why=found.why)
