"""An attempt is over and its end is recorded: its output is copied, then its node may forget it.

Dying in between only means doing it again, because the node lists the attempt until then.
"""

from __future__ import annotations

import asyncio
import logging

from stoker.domain.attempt import Attempt
from stoker.domain.errors import EngineError, UnknownLog
from stoker.domain.task import TaskSpec
from stoker.engines.base import LogChunk

from .context import Flow

log = logging.getLogger("stoker.flow")

HEAD = 32 << 20
TAIL = 224 << 20
"""Kept of an output: its first and last bytes, as the node does for its own logs."""
CHUNK = 1 << 20


async def collect(flow: Flow, attempt: Attempt, spec: TaskSpec, small: bytes | None = None) -> None:
    """Copy an ended attempt's output, then let its node forget it. May be repeated."""
    if attempt.id in flow.collecting:
        return
    flow.collecting.add(attempt.id)
    flow.uncollected[attempt.id] = attempt
    try:
        await _copy_all(flow, attempt, spec, small)
    except (EngineError, OSError) as error:
        if attempt.id in flow.collecting:
            log.warning("event=log_not_copied attempt=%s reason=%s", attempt.id, error)
            return  # the node lists it again, and so we come back
    finally:
        deleted = attempt.id not in flow.collecting
        flow.collecting.discard(attempt.id)
    if deleted:
        await asyncio.to_thread(flow.logs.remove, attempt.id)
    _let_forget(flow, attempt)


async def collect_again(flow: Flow, id: str) -> None:
    """A node still has an attempt whose end is recorded: its log or our word did not arrive."""
    attempt = await flow.store.attempt(id)
    if attempt is None:
        deleted = flow.uncollected.get(id)
        if deleted is not None:
            _let_forget(flow, deleted)
        return
    if attempt.ended_at is None:
        return
    task = await flow.store.task(attempt.task)
    if task is not None:
        flow.later(collect(flow, attempt, task.spec))


def streams(spec: TaskSpec) -> tuple[str, ...]:
    """The outputs of a task that can be read."""
    names = [] if spec.stdout == "discard" else ["stdout"]
    if spec.stderr not in ("merge", "discard", spec.stdout):
        names.append("stderr")
    return tuple(names)


async def _copy_all(flow: Flow, attempt: Attempt, spec: TaskSpec, small: bytes | None) -> None:
    for stream in streams(spec):
        if flow.logs.has(attempt.id, 0, stream):
            continue
        if small is not None and stream == "stdout" and not spec.stdout:
            await asyncio.to_thread(_keep, flow, attempt.id, stream, small)
        else:
            await _copy(flow, attempt, stream)


def _let_forget(flow: Flow, attempt: Attempt) -> None:
    flow.uncollected.pop(attempt.id, None)
    flow.engine.forget(attempt.allocation.node, [attempt])


def _keep(flow: Flow, attempt: str, stream: str, whole: bytes) -> None:
    copy = flow.logs.copy(attempt, 0, stream)
    copy.write(0, whole)
    copy.keep(len(whole))


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
