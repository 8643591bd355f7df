"""Another time limit for a task that waits or runs. Writes only through flow."""

from __future__ import annotations

from stoker.domain.errors import InvalidSpec
from stoker.flow import extend
from stoker.wire import Extension, TaskView

from .query import NoQuery
from .route import Call, route


@route(
    "POST",
    "/tasks/{id}/extend",
    access="person",
    scope="tasks:write",
    task="act",
    body=Extension,
    answer=TaskView,
    refusals=(409,),
)
async def extend_task(call: Call[NoQuery, Extension]) -> TaskView:
    """Give a task that has not ended another time limit: its owner up to the maximum of its queue,
    admins beyond. Of an array: everything that has not ended."""
    wish = call.body
    said = [wish.time_limit_s is not None, wish.add_s is not None, wish.no_limit]
    if sum(said) != 1:
        raise InvalidSpec("which_limit", field="time_limit_s")
    task = await extend.extend(
        call.parts.flow,
        call.key,
        extend.Wish(
            limit_s=wish.time_limit_s,
            add_s=wish.add_s,
            by=call.who.name,
            beyond=call.who.is_admin,
        ),
    )
    return call.shown(task)


ROUTES = (extend_task,)
