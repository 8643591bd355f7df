"""Why a task waits, or would: every reason, who holds what, and what would start it now.

Nothing is recorded here. A preview is refused exactly as a submit would be.
"""

from __future__ import annotations

from stoker.domain.lifecycle import WAITING
from stoker.flow import overview
from stoker.flow.submit import preview
from stoker.wire import Submission, WhyView

from .query import NoQuery
from .route import Call, route
from .views import NO_WAIT


@route("GET", "/tasks/{id}/why", access="person", scope="tasks:read", task="see", answer=WhyView)
async def why_task(call: Call[NoQuery, None]) -> WhyView:
    """Why it waits; everything is empty for one that does not."""
    task = await call.task()
    if task.state not in WAITING:
        return NO_WAIT
    told = overview.explain(call.parts.flow, task)
    return call.sight.why(told, task.owner, call.language)


@route(
    "POST",
    "/tasks/preview",
    access="person",
    scope="tasks:read",
    body=Submission,
    answer=WhyView,
    refusals=(409, 429),
    completes=True,
)
async def preview_task(call: Call[NoQuery, Submission]) -> WhyView:
    """What would happen to this task if it were handed over now."""
    flow, sight = call.parts.flow, call.sight
    await sight.check_after([call.body])
    told = await preview(flow, call.who.name, call.body)
    return sight.why(told, call.who.name, call.language)


ROUTES = (why_task, preview_task)
