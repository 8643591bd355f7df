"""Retention: what the lab no longer wants to keep is deleted, with its output, a little at a time.

Only tasks and whole arrays that have finished, the oldest end first: those that ended too long ago,
and those that enough others have ended after. Never what an unfinished task waits for, or would
again if it were put back in line. Each leaves a `Deleted` event by `retention`.
Dying anywhere only means doing it again: the rule is asked anew each time, and output that was left
behind (also by a person's delete) is found at a later start. Such strays must be older than a week,
so that going back to a backup of the last days costs nobody a log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from stoker.domain.errors import StaleWrite, StoreDown
from stoker.domain.event import Deleted
from stoker.domain.lifecycle import Task

from . import depend
from .commit import erase
from .context import Flow
from .remove import drop

log = logging.getLogger("stoker.flow")

BY = "retention"
EVERY_S = 3600.0
BATCH = 50
"""Deleted in one transaction. Somebody who edits meanwhile waits so long."""
PAUSE_S = 0.05
"""Between two batches: everybody else comes first."""
STRAYS_AFTER_S = 60.0
"""After a start there is more urgent work than looking for strays."""
STRAYS_OLDER = timedelta(days=7)


async def run(flow: Flow) -> None:
    """At the start, every hour, and at once when the lab has decided anew; until cancelled."""
    strays = asyncio.create_task(_strays(flow))
    try:
        while True:
            flow.retain_anew.clear()
            await _tried(flow, retain)
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S if flow.retention.is_set else None):
                    await flow.retain_anew.wait()
    finally:
        strays.cancel()


async def _strays(flow: Flow) -> None:
    """Once."""
    await asyncio.sleep(STRAYS_AFTER_S)
    await _tried(flow, remove_strays)


async def retain(flow: Flow) -> int:
    """Delete what is kept no longer; how many tasks and arrays that were. May be repeated."""
    count, last = 0, None
    while flow.retention.is_set and not flow.outdated:
        async with flow.editing:  # nobody begins to wait for one of these meanwhile
            found = await _outlived(flow, last)
            wanted = needed(flow)
            gone = [task for task in found if task.id not in wanted]
            if gone:
                await _delete(flow, gone)
        if not found:
            break
        count, last = count + len(gone), found[-1]
        await asyncio.sleep(PAUSE_S)
    if count:
        log.info("event=retained deleted=%s", count)
    return count


def needed(flow: Flow) -> set[int]:
    """Tasks and arrays that an unfinished task waits for, in whole or in part."""
    waiting = {key.id for key in flow.successors}
    live = (one.task for one in flow.live.values() if not one.task.anyway)
    return waiting | {found.key.id for task in live for found in depend.after_of(task.spec)}


async def remove_strays(flow: Flow) -> int:
    """Remove output of attempts that are not recorded; of how many. In small steps."""
    count = 0
    batches = flow.logs.batches(flow.clock.now() - STRAYS_OLDER)
    while (attempts := await asyncio.to_thread(next, batches, None)) is not None:
        strays = await flow.store.absent(attempts)
        await asyncio.to_thread(_remove, flow, strays)
        count += len(strays)
        await asyncio.sleep(PAUSE_S)
    if count:
        log.info("event=strays_removed attempts=%s", count)
    return count


async def _outlived(flow: Flow, after: Task | None) -> list[Task]:
    rule = flow.retention
    before = flow.clock.now() - timedelta(days=rule.days) if rule.days else None
    return await flow.store.outlived(before, rule.tasks or None, after, BATCH)


async def _delete(flow: Flow, gone: Sequence[Task]) -> None:
    attempts = await flow.store.attempts_of([task.key for task in gone])
    await erase(flow, gone, Deleted(at=flow.clock.now(), by=BY))
    drop(flow, gone, attempts)


def _remove(flow: Flow, attempts: Sequence[str]) -> None:
    for attempt in attempts:
        flow.logs.remove(attempt)


async def _tried(flow: Flow, step: Callable[[Flow], Awaitable[int]]) -> None:
    """What fails is tried again another time; nobody waits for it."""
    try:
        await step(flow)
    except (StoreDown, StaleWrite, OSError) as error:
        log.warning("event=%s_failed reason=%s", step.__name__, error)
    except Exception:
        log.exception("event=%s_failed", step.__name__)
