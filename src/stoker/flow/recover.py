"""After a restart: know again what the records say, and expect it of the engine.

Writes nothing but the epoch, so it makes progress under a crash loop. What really happened to the
attempts is found out by `watch`, from the same facts as always.
"""

from __future__ import annotations

import logging

from stoker.domain.lifecycle import State
from stoker.engines.base import AttemptUnknown, LiveAttempt, StopOrder
from stoker.scheduler.view import needs_of

from .context import Flow, Live
from .finish import collect_again

log = logging.getLogger("stoker.flow")


async def recover(flow: Flow) -> None:
    """Called once, before the loop."""
    flow.epoch = await flow.store.raise_epoch()
    for row in await flow.store.waiting():
        if row.state is State.QUEUED:
            flow.view.enqueue(row.key, needs_of(row.spec), row.position, row.version)
    expected = []
    for task, attempt in await flow.store.live():
        flow.live[attempt.id] = Live(task, attempt)
        flow.view.take(attempt.id, attempt.allocation)
        expected.append(
            LiveAttempt(
                attempt=attempt,
                state=task.state,
                spec=task.spec,
                owner=task.owner,
                stop_cause=task.stop_cause,
            )
        )
    flow.engine.reconcile(expected)
    log.info(
        "event=recovered epoch=%s waiting=%s live=%s", flow.epoch, len(flow.view), len(flow.live)
    )


async def unknown(flow: Flow, fact: AttemptUnknown) -> None:
    """A node has an attempt that is not alive in our records."""
    if fact.attempt in flow.live:
        return
    attempt = await flow.store.attempt(fact.attempt)
    if attempt is None:
        # Not of these records: a restored or another database. Never guess: leave it, and say so.
        log.warning("event=attempt_in_doubt attempt=%s node=%s", fact.attempt, fact.node)
        return
    if not fact.ended:
        flow.engine.stop([StopOrder(attempt=attempt, cause="cancel", grace_s=10)])
        return
    await collect_again(flow, fact.attempt)
