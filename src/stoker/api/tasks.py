"""Tasks: hand over, list, look at, cancel. Writes only through flow."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal, cast

from msgspec import Meta, structs

from stoker.domain.lifecycle import LIVE, WAITING, State
from stoker.domain.outcome import Outcome
from stoker.flow import overview, stop
from stoker.flow import submit as submitting
from stoker.store.paging import Query as Wanted
from stoker.store.paging import Sort
from stoker.store.readers import listed_row
from stoker.wire import Batch, BatchCreated, Created, Submission, TaskDetail, TaskPage, TaskView

from .answer import to_json
from .login import check_somebody
from .query import MOST_INTEGER, NoQuery, Query
from .route import Call, route
from .views import attempt_view, listed, shown, wait_reason

MOST_ROWS = 500

StateWord = Literal[
    "HELD", "QUEUED", "STARTING", "RUNNING", "STOPPING", "FINISHED",
    "waiting", "live", "unfinished", "finished",
]  # fmt: skip
GROUPS: dict[str, frozenset[State]] = {
    "waiting": WAITING,
    "live": LIVE,
    "unfinished": WAITING | LIVE,
    "finished": frozenset({State.FINISHED}),
}
Order = Literal[
    "id", "-id", "submitted", "-submitted", "finished", "-finished", "position", "-position"
]


class TasksQuery(Query, frozen=True, kw_only=True):
    state: Annotated[
        tuple[StateWord, ...],
        Meta(description="Any of these states or groups of states", max_length=10),
    ] = ()
    owner: (
        Annotated[str, Meta(description="Only this person's", min_length=1, max_length=200)] | None
    ) = None
    outcome: Annotated[Outcome, Meta(description="Only those that ended so")] | None = None
    name: (
        Annotated[str, Meta(description="Part of the name", min_length=1, max_length=200)] | None
    ) = None
    elements: Annotated[
        bool, Meta(description="Elements of arrays that are tasks of their own too")
    ] = False
    array: (
        Annotated[
            int, Meta(description="Only elements of this array, by index", ge=1, le=MOST_INTEGER)
        ]
        | None
    ) = None
    sort: Annotated[Order, Meta(description="By what; `-` for descending")] = "-id"
    cursor: (
        Annotated[str, Meta(description="`next` of the page before", min_length=1, max_length=500)]
        | None
    ) = None
    limit: Annotated[int, Meta(description="Rows at most", ge=1, le=MOST_ROWS)] = 50


class TaskQuery(Query, frozen=True, kw_only=True):
    waits: Annotated[
        bool, Meta(description="Say why it waits, which takes a while when many tasks do")
    ] = True


@route(
    "POST",
    "/tasks",
    access="person",
    scope="tasks:write",
    body=Submission,
    status=201,
    answer=Created,
    refusals=(409, 413, 429),
    completes=True,
)
async def submit(call: Call[NoQuery, Submission]) -> Created:
    """Hand over one task. It is recorded when this is answered."""
    flow = call.parts.flow
    check_somebody(call)
    call.parts.fair_use.take(call.who.name, call.body_bytes)
    if call.body.after:
        await call.sight.check_after([call.body])
    task = (await submitting.submit(flow, call.who.name, [call.body], batch=False))[0]
    return Created(id=str(task.key), state=task.state)


@route(
    "POST",
    "/tasks/batch",
    access="person",
    scope="tasks:write",
    body=Batch,
    status=201,
    answer=BatchCreated,
    refusals=(409, 413, 429),
    completes=True,
)
async def submit_batch(call: Call[NoQuery, Batch]) -> BatchCreated:
    """Hand over many tasks: all are recorded, or none."""
    flow = call.parts.flow
    check_somebody(call)
    call.parts.fair_use.take(call.who.name, _largest(call))
    await call.sight.check_after(call.body.tasks, batch=True)
    tasks = await submitting.submit(flow, call.who.name, call.body.tasks, batch=True)
    return BatchCreated(ids=tuple(str(task.key) for task in tasks))


@route("GET", "/tasks", access="person", scope="tasks:read", query=TasksQuery, answer=TaskPage)
async def list_tasks(call: Call[TasksQuery, None]) -> TaskPage:
    """Tasks, newest first unless asked otherwise, page by page."""
    wanted, readers, sight = _wanted(call.query), call.parts.readers, call.sight
    if sight.is_alone:
        if wanted.owner not in ("", call.who.name):
            return TaskPage(tasks=(), next=None)
        wanted = structs.replace(wanted, owner=call.who.name)
    if wanted.name or wanted.owner or wanted.outcome:  # no index: may look at every task there is
        rows, following = await asyncio.to_thread(readers.page, wanted)
    else:
        rows, following = readers.page(wanted)
    return TaskPage(tasks=listed(sight.rows(rows), call.language, call.counts), next=following)


@route(
    "GET",
    "/tasks/{id}",
    access="person",
    scope="tasks:read",
    task="see",
    query=TaskQuery,
    answer=TaskDetail,
)
async def show_task(call: Call[TaskQuery, None]) -> TaskDetail:
    """All about one task: why it waits, its attempts, what happened to it."""
    task, flow, sight = await call.task(), call.parts.flow, call.sight
    found = call.parts.readers.detail(task.key)
    # an element that nothing has happened to yet has no row: it is as its array says
    row, attempts, events = found or (listed_row(task), [], [])
    asked = call.query.waits and task.state in WAITING
    waits = overview.explain(flow, task).reasons if asked else ()
    return TaskDetail(
        task=shown(sight.row(row, task.owner), call.language, call.counts),
        waits=tuple(wait_reason(reason, call.language) for reason in sight.reasons(waits)),
        attempts=sight.attempts([attempt_view(attempt) for attempt in attempts], task.owner),
        events=sight.events(events, task.owner),
        unconfirmed=overview.unconfirmed(flow, task),
    )


@route(
    "POST",
    "/tasks/{id}/cancel",
    access="person",
    scope="tasks:write",
    task="act",
    answer=TaskView,
    refusals=(409,),
)
async def cancel_task(call: Call[NoQuery, None]) -> TaskView:
    """End a task, wherever it is. The wish is recorded when this is answered."""
    flow = call.parts.flow
    return call.shown(await stop.cancel(flow, call.key, call.who.name))


ROUTES = (submit, submit_batch, list_tasks, show_task, cancel_task)


def _largest(call: Call[NoQuery, Batch]) -> int:
    """Bytes of the largest task of a batch; looked for only where one could be too large."""
    most = call.parts.flow.book.rules.spec_bytes
    if not most or call.body_bytes <= most:
        return call.body_bytes
    return max((len(to_json(task)) for task in call.body.tasks), default=0)


def _wanted(query: TasksQuery) -> Wanted:
    states: set[State] = set()
    for word in query.state:
        states |= GROUPS.get(word) or {State(word)}
    descending = query.sort.startswith("-")
    return Wanted(
        states=frozenset(states),
        owner=query.owner or "",
        name=query.name or "",
        outcome=query.outcome or "",
        elements=query.elements,
        array=query.array,
        sort=cast("Sort", query.sort.removeprefix("-")),
        descending=descending,
        cursor=query.cursor or "",
        limit=query.limit,
    )
