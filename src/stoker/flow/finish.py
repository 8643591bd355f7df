"""An attempt is over: another one, or the end. This file alone decides between them.

Cards are free when the end is committed, never before. Then the log is copied, then the node may
forget; dying in between only means doing it again, because the node lists the attempt until then.
"""

from __future__ import annotations

import asyncio
import logging

from stoker.domain.attempt import Attempt
from stoker.domain.errors import EngineError, UnknownLog
from stoker.domain.event import Ended, Event, Requeued, Started
from stoker.domain.lifecycle import State, Task
from stoker.domain.outcome import End, lost
from stoker.domain.task import TaskSpec
from stoker.engines.base import AttemptEnded, AttemptLost, AttemptNeverRan, LogChunk
from stoker.runner import killpoint

from .commit import commit, moved
from .context import Flow
from .place import queue_again

log = logging.getLogger("stoker.flow")

HEAD = 32 << 20
TAIL = 224 << 20
"""Kept of an output: its first and last bytes, as the node does for its own logs."""
CHUNK = 1 << 20


async def finish(flow: Flow, fact: AttemptEnded | AttemptLost | AttemptNeverRan) -> None:
    """Record the end of an attempt, free its cards, collect its log."""
    live = flow.live.get(fact.attempt)
    if live is None:
        if fact.attempt not in flow.collecting:
            await collect_again(flow, fact.attempt)
        return
    task = live.task
    events = _events(flow, task, fact)
    killpoint.reach(killpoint.COLLECT)
    change = moved(task, *events)
    await commit(flow, [change])
    killpoint.reach(killpoint.COLLECTED)
    del flow.live[fact.attempt]
    flow.view.free(fact.attempt)
    flow.replan()
    queue_again(flow, change.task)
    small = fact.log if isinstance(fact, AttemptEnded) else None
    flow.later(collect(flow, live.attempt, task.spec, small))


async def collect_again(flow: Flow, id: str) -> None:
    """A node still has an attempt whose end is recorded: its log or our word did not arrive."""
    attempt = await flow.store.attempt(id)
    if attempt is None or attempt.ended_at is None:
        return
    task = await flow.store.task(attempt.task)
    if task is not None:
        flow.later(collect(flow, attempt, task.spec))


async def collect(flow: Flow, attempt: Attempt, spec: TaskSpec, small: bytes | None = None) -> None:
    """Copy an ended attempt's output, then let its node forget it. May be repeated."""
    if attempt.id in flow.collecting:
        return
    flow.collecting.add(attempt.id)
    try:
        for stream in streams(spec):
            if flow.logs.has(attempt.id, 0, stream):
                continue
            if small is not None and stream == "stdout" and not spec.stdout:
                await asyncio.to_thread(_keep, flow, attempt.id, stream, small)
            else:
                await _copy(flow, attempt, stream)
    except (EngineError, OSError) as error:
        log.warning("event=log_not_copied attempt=%s reason=%s", attempt.id, error)
        return  # the node lists it again, and so we come back
    finally:
        flow.collecting.discard(attempt.id)
    flow.engine.forget(attempt.allocation.node, [attempt])


def _keep(flow: Flow, attempt: str, stream: str, whole: bytes) -> None:
    copy = flow.logs.copy(attempt, 0, stream)
    copy.write(0, whole)
    copy.keep(len(whole))


def streams(spec: TaskSpec) -> tuple[str, ...]:
    """The outputs of a task that can be read."""
    names = [] if spec.stdout == "discard" else ["stdout"]
    if spec.stderr not in ("merge", "discard", spec.stdout):
        names.append("stderr")
    return tuple(names)


def _events(
    flow: Flow, task: Task, fact: AttemptEnded | AttemptLost | AttemptNeverRan
) -> tuple[Event, ...]:
    now = flow.clock.now()
    stopping = task.state is State.STOPPING
    match fact:
        case AttemptNeverRan():
            end = None
            again = not stopping or task.stop_cause == "requeue"
        case AttemptLost():
            end = lost(fact.evidence, stopping=stopping)
            again = task.stop_cause == "requeue" if stopping else task.spec.requeue_on_loss
        case AttemptEnded():
            end = fact.end
            again = fact.requeue and task.stop_cause == "requeue"
    if again:
        return (Requeued(at=now, attempt=fact.attempt, end=end),)
    if end is None:
        end = End(outcome="cancelled", reason="cancelled")
    ended = Ended(at=now, attempt=fact.attempt, end=end)
    started_at = fact.started_at if isinstance(fact, AttemptEnded) else None
    if task.state is State.STARTING and started_at is not None:
        return Started(at=started_at, attempt=fact.attempt), ended
    return (ended,)


async def _copy(flow: Flow, attempt: Attempt, stream: str) -> None:
    """The first and the last part of an output, piece by piece; holes stay holes."""
    copy = flow.logs.copy(attempt.id, 0, stream)
    offset, size = 0, 1
    try:
        while offset < size:
            chunk: LogChunk = await flow.engine.read_log(attempt, 0, stream, offset, CHUNK)
            size = chunk.size
            if not chunk.data:
                break
            copy.write(chunk.offset, chunk.data)
            offset = chunk.offset + len(chunk.data)
            if HEAD <= offset < size - TAIL:
                offset = size - TAIL
    except UnknownLog:
        copy.drop()
    except BaseException:
        copy.drop()
        raise
    else:
        await asyncio.to_thread(copy.keep, size)
