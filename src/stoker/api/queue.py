"""What a person does with a task: hold, release, edit, move, requeue, hand it over again, delete.

Writes only through flow. An edit names the version it was made for (If-Match): nobody overwrites
what he has not seen.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from stoker.domain.errors import Conflict, InvalidSpec
from stoker.domain.key import TaskKey, parse_key
from stoker.flow import again, queue, remove
from stoker.store.readers import listed_row
from stoker.wire import Created, Deletion, Move, Submission, TaskView

from .query import NoQuery, Query
from .route import Call, route
from .views import shown


class ReleaseQuery(Query, frozen=True, kw_only=True):
    anyway: Annotated[
        bool, Meta(description="Run it although what it waits for did not come true")
    ] = False


class ResubmitQuery(Query, frozen=True, kw_only=True):
    failed: Annotated[
        bool,
        Meta(
            description="Of an array that has ended: only elements that failed, timed out or were lost"
        ),
    ] = False


class DeleteQuery(Query, frozen=True, kw_only=True):
    with_successors: Annotated[
        bool, Meta(description="Delete those that wait for it too, and those that wait for them")
    ] = False


@route(
    "POST",
    "/tasks/{id}/hold",
    access="person",
    scope="tasks:write",
    task="act",
    answer=TaskView,
    refusals=(409,),
)
async def hold_task(call: Call[NoQuery, None]) -> TaskView:
    """Keep a waiting task from starting until it is released."""
    flow = call.parts.flow
    return call.shown(await queue.hold(flow, call.key, call.who.name))


@route(
    "POST",
    "/tasks/{id}/release",
    access="person",
    scope="tasks:write",
    task="act",
    query=ReleaseQuery,
    answer=TaskView,
    refusals=(409,),
)
async def release_task(call: Call[ReleaseQuery, None]) -> TaskView:
    """Let a held task start when its turn comes."""
    flow = call.parts.flow
    anyway = call.query.anyway
    return call.shown(await queue.release(flow, call.key, call.who.name, anyway=anyway))


@route(
    "PUT",
    "/tasks/{id}/spec",
    access="person",
    scope="tasks:write",
    task="act",
    body=Submission,
    answer=TaskView,
    refusals=(409, 429),
    versioned=True,
)
async def edit_task(call: Call[NoQuery, Submission]) -> TaskView:
    """Change what a waiting task asks for. Of a finished one a new task is made."""
    flow = call.parts.flow
    await call.sight.check_after([call.body])
    return call.shown(await queue.edit(flow, call.key, call.body, call.version, call.who.name))


@route(
    "POST",
    "/tasks/{id}/move",
    access="person",
    scope="tasks:write",
    task="act",
    body=Move,
    answer=TaskView,
    refusals=(409,),
)
async def move_task(call: Call[NoQuery, Move]) -> TaskView:
    """Give a waiting task another place in line."""
    flow, wish = call.parts.flow, call.body
    other = _other(wish)
    if other is not None and not await call.sight.knows(other):
        raise Conflict("not_same_line", id=str(other))  # as for one that is not there
    return call.shown(await queue.move(flow, call.key, wish.to, other, call.who.name))


@route(
    "POST",
    "/tasks/{id}/requeue",
    access="person",
    scope="tasks:write",
    task="act",
    answer=TaskView,
    refusals=(409,),
)
async def requeue_task(call: Call[NoQuery, None]) -> TaskView:
    """End what runs of a task and put it back in line."""
    flow = call.parts.flow
    return call.shown(await queue.requeue(flow, call.key, call.who.name))


@route(
    "POST",
    "/tasks/{id}/resubmit",
    access="person",
    scope="tasks:write",
    task="act",
    query=ResubmitQuery,
    status=201,
    answer=Created,
    refusals=(409, 429),
)
async def resubmit_task(call: Call[ResubmitQuery, None]) -> Created:
    """Hand over the same once more, as a new task. Those that wait for the old one follow."""
    flow = call.parts.flow
    call.parts.fair_use.take(call.who.name, 0)
    task = await again.resubmit(flow, call.key, call.who.name, failed=call.query.failed)
    return Created(id=str(task.key), state=task.state)


@route(
    "GET",
    "/tasks/{id}/successors",
    access="person",
    scope="tasks:read",
    task="see",
    answer=list[TaskView],
)
async def list_successors(call: Call[NoQuery, None]) -> list[TaskView]:
    """Waiting tasks that wait for this one, and those that wait for them, the nearest first."""
    await call.task()
    sight = call.sight
    return [
        shown(sight.row(listed_row(task), task.owner), call.language, call.counts)
        for task in await remove.successors(call.parts.flow, call.key)
        if sight.may_know(task.owner)
    ]


@route(
    "DELETE",
    "/tasks/{id}",
    access="person",
    scope="tasks:write",
    task="act",
    query=DeleteQuery,
    answer=Deletion,
    refusals=(409,),
)
async def delete_task(call: Call[DeleteQuery, None]) -> Deletion:
    """Remove a waiting or finished task, its output and its history, for good. Those that wait
    for it go with it only if they are the caller's, or the caller is an admin."""
    flow, who = call.parts.flow, call.who
    gone = await remove.delete(
        flow,
        call.key,
        who.name,
        with_successors=call.query.with_successors,
        only_of=None if who.is_admin else who.name,
    )
    return Deletion(deleted=tuple(str(key) for key in gone))


ROUTES = (
    hold_task, release_task, edit_task, move_task, requeue_task, resubmit_task, list_successors,
    delete_task,
)  # fmt: skip


def _other(wish: Move) -> TaskKey | None:
    """The task that `before` and `after` need, and the others do not."""
    if wish.to in ("first", "last"):
        if wish.other is not None:
            raise InvalidSpec("move_without_other", field="other", to=wish.to)
        return None
    if wish.other is None:
        raise InvalidSpec("missing_field", field="other")
    key = parse_key(wish.other)
    if key is None:
        raise InvalidSpec("not_an_id", field="other", value=wish.other)
    return key
