"""Before a running task reaches its limit, and when a task has waited long: somebody is told.

One timer, for the next moment at which something is due; no task is looked at before. A moment is
a time on the clock, and `told` (kept over restarts, written before anything is said) is the last
one that was dealt with: so each word is said once, and what became due while nobody served is said
then. A limit that was extended has moments of its own.

Limits are told of a day and an hour ahead, where they are at least twice as long. A long wait is
told of once, and only of tasks that have never begun and that nothing but room keeps from starting.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

from stoker.domain.errors import StoreDown
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.limits import leads_of

from .context import Flow, Live
from .tell import tell

log = logging.getLogger("stoker.flow")

LONGEST_S = 600.0
"""The timer never sleeps longer: clocks are set, and the lab changes its mind."""
SCAN_S = 600
"""Long waits are told of this late at most, so that a long line is not looked through each second."""
TOLD = "told"
_ROOM = 1000


def mind(flow: Flow, live: Live, since: datetime) -> None:
    """It runs, or its limit is another one: its moments after `since` are due from now on."""
    own = flow.reminders
    first = own.due[0] if own.due else None
    _push(flow, live, since)
    if own.due and own.due[0] != first:
        own.sooner.set()


async def recall(flow: Flow) -> None:
    """After a restart, once all live tasks are known."""
    text = await flow.store.recall(TOLD)
    with suppress(ValueError):
        flow.reminders.told = datetime.fromisoformat(text) if text else None
    since = flow.reminders.told or flow.clock.now()
    for live in flow.live.values():
        mind(flow, live, since)


async def run(flow: Flow) -> None:
    """Until cancelled."""
    own = flow.reminders
    while True:
        own.sooner.clear()
        try:
            delay = await remind(flow)
        except StoreDown as error:  # nothing was said: the next round says it
            log.warning("event=not_reminded reason=%s", error)
            delay = LONGEST_S
        except Exception:
            log.exception("event=remind_failed")
            delay = LONGEST_S
        with suppress(TimeoutError):
            await asyncio.wait_for(own.sooner.wait(), delay)


async def remind(flow: Flow) -> float:
    """Say what is due; how many seconds until something may be due again."""
    own, now = flow.reminders, flow.clock.now()
    if own.told is None:  # the first start of all: nobody is told what is long past
        own.told = now
    near, long = _limits_near(flow, now), await _long_waits(flow, now)
    if near or long:
        await _keep(flow, near, now)
    for task, values in near:
        tell(flow, "limit_near", task, **values)
    for task in long:
        waited_s = int((now - task.submitted_at).total_seconds())
        tell(flow, "waiting_long", task, waited_s=waited_s)
    moments = [moment for moment in (own.due[0][0] if own.due else None, own.scan_at) if moment]
    left = min(((moment - now).total_seconds() for moment in moments), default=LONGEST_S)
    return min(max(left, 0.05), LONGEST_S)


def _push(flow: Flow, live: Live, since: datetime) -> None:
    task, own = live.task, flow.reminders
    if task.state is not State.RUNNING:
        return
    for lead_s in leads_of(task.spec.time_limit_s):
        moment = _moment(task, lead_s)
        if moment is not None and moment > since:
            heappush(own.due, (moment, live.attempt.id, lead_s))
    if len(own.due) > _ROOM + 4 * len(flow.live):
        _tidy(flow)


async def _keep(flow: Flow, near: list[tuple[Task, dict[str, object]]], now: datetime) -> None:
    """Durable before anything is said. StoreDown: nothing was, and it is due as before."""
    own, before = flow.reminders, flow.reminders.told
    own.told = max(now, before or now)
    try:
        await flow.store.remember(TOLD, own.told.isoformat())
    except BaseException:
        own.told, own.scan_at = before, None
        for task, _ in near:
            live = flow.live.get(task.attempt or "")
            if live is not None:
                _push(flow, live, before or now)
        raise


def _limits_near(flow: Flow, now: datetime) -> list[tuple[Task, dict[str, object]]]:
    own, found = flow.reminders, {}
    while own.due and own.due[0][0] <= now:
        moment, attempt, lead_s = heappop(own.due)
        live = flow.live.get(attempt)
        if live is None or live.task.state is not State.RUNNING:
            continue
        task, limit_s = live.task, live.task.spec.time_limit_s
        if limit_s is None or _moment(task, lead_s) != moment:
            continue  # its limit is another one
        ends_at = moment + timedelta(seconds=lead_s)
        left_s = int((ends_at - now).total_seconds())
        if left_s > 0:  # of two that became due while nobody served, the nearer one is said
            found[attempt] = (task, {"left_s": left_s, "limit_s": limit_s, "ends_at": ends_at})
    return list(found.values())


async def _long_waits(flow: Flow, now: datetime) -> list[Task]:
    """Those that have waited so long since we last looked."""
    own, most_s = flow.reminders, flow.book.rules.waiting_long_s
    if not most_s:
        own.scan_at = None
        return []
    if own.scan_at is not None and now < own.scan_at:
        return []
    most, told = timedelta(seconds=most_s), own.told or now
    due: list[TaskKey] = []
    first = now + most  # who comes later is due later
    for waiting in flow.view.entries():
        moment = waiting.since + most
        if moment > now:
            first = min(first, moment)
        elif moment > told and flow.view.ready(waiting.key) is not None:
            due.append(waiting.key)
    own.scan_at = max(first, now + timedelta(seconds=SCAN_S))
    tasks = await flow.store.tasks(due) if due else []
    return [task for task in tasks if task.state is State.QUEUED and not task.attempts]


def _moment(task: Task, lead_s: int) -> datetime | None:
    """So long before its limit."""
    limit_s = task.spec.time_limit_s
    if limit_s is None or task.started_at is None:
        return None
    return task.started_at + timedelta(seconds=limit_s - lead_s)


def _tidy(flow: Flow) -> None:
    """Leave out what has ended."""
    own = flow.reminders
    own.due = [one for one in own.due if one[1] in flow.live]
    heapify(own.due)
