"""After a restart: know again what the records say, and expect it of the engine.

Writes nothing but the epoch, so it makes progress under a crash loop. What really happened to the
attempts is found out by `watch`, from the same facts as always; what was left half done of arrays
is named here and done by the loop.
"""

from __future__ import annotations

import logging

from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.sweep import render
from stoker.engines.base import AttemptUnknown, LiveAttempt, StopOrder
from stoker.scheduler.needs import sign_of
from stoker.scheduler.room import Holding
from stoker.store.base import WaitingRow

from . import remind
from .arrays import indices_of, look_at
from .collect import collect_again
from .context import ArrayState, Flow, Live
from .depend import look
from .follow import follow
from .keep import recall
from .restored import begin
from .strangers import meet

log = logging.getLogger("stoker.flow")


async def recover(flow: Flow) -> None:
    """Called once, before the loop."""
    flow.epoch = await flow.store.raise_epoch()
    await recall(flow)
    flow.view.tick(flow.clock.now())  # before anybody is judged by the time
    waiting = await flow.store.waiting()
    await _recover_arrays(flow, waiting)
    for row in waiting:
        follow(flow, _task(row))
    expected = [
        _recover_live(flow, Live(task, attempt)) for task, attempt in await flow.store.live()
    ]
    await look(flow)
    for id, state in flow.arrays.items():
        if state.is_over or state.state is State.STOPPING:
            look_at(flow, id)
    flow.engine.reconcile(expected)
    await remind.recall(flow)
    await begin(flow)
    log.info(
        "event=recovered epoch=%s waiting=%s live=%s", flow.epoch, len(flow.view), len(flow.live)
    )


async def unknown(flow: Flow, fact: AttemptUnknown) -> None:
    """A node has an attempt that is not alive in our records."""
    if fact.attempt in flow.live:
        return
    attempt = await flow.store.attempt(fact.attempt)
    if attempt is None and fact.attempt not in flow.uncollected:
        meet(flow, fact)  # of another history: never guess, leave it, and say so
        return
    if attempt is not None and not fact.ended:
        flow.engine.stop([StopOrder(attempt=attempt, cause="cancel", grace_s=10)])
        return
    await collect_again(flow, fact.attempt)


async def _recover_arrays(flow: Flow, waiting: list[WaitingRow]) -> None:
    """First of all: what an element may do depends on its array."""
    unfolded = {row.id: row for row in await flow.store.arrays()}
    whole = {row.key.id: _task(row) for row in waiting if row.key.element == PLAIN}
    stopping = [TaskKey(id) for id in unfolded if id not in whole]
    for task in [whole[id] for id in unfolded if id in whole] + await flow.store.tasks(stopping):
        row, indices = unfolded[task.id], indices_of(task.spec)
        flow.arrays[task.id] = ArrayState(
            task.state,
            task.version,
            len(indices),
            indices.minus(row.unfolded),
            outcomes=dict(row.outcomes),
            owner=task.owner,
        )
        if task.state is State.STOPPING:
            follow(flow, task)


def _recover_live(flow: Flow, live: Live) -> LiveAttempt:
    task, attempt = live.task, live.attempt
    flow.live[attempt.id] = live
    sign = sign_of(task.key, task.owner, task.spec)
    flow.view.take(
        Holding(
            attempt.id,
            task.key,
            sign.owner,
            sign.queue,
            sign.needs,
            (attempt.allocation,),
            task.started_at or attempt.placed_at,
            sign.limit_s,
            sign.array,
        )
    )
    follow(flow, task)
    return LiveAttempt(
        attempt=attempt,
        state=task.state,
        spec=render(task.spec, task.element),
        owner=task.owner,
        account=flow.account(task.owner, attempt.allocation.node),
        stop_cause=task.stop_cause,
        submitted_at=task.submitted_at,
        version=task.version,
    )


def _task(row: WaitingRow) -> Task:
    """As much of a waiting task as memory follows."""
    return Task(
        id=row.key.id,
        element=row.key.element,
        owner=row.owner,
        spec=row.spec,
        state=row.state,
        version=row.version,
        position=row.position,
        submitted_at=row.submitted_at,
        attempts=row.attempts,
        anyway=row.anyway,
        not_before=row.not_before,
        never_ran=row.never_ran,
        retried=row.attempts if row.not_before is not None else 0,
    )
