"""A task's output by offset: from the node while it lives, from our copy afterwards.

Offsets are those of the output itself and stay the same over the hand-over, so a reader that goes
on where it was sees every byte once.
"""

from __future__ import annotations

from msgspec import Struct

from stoker.domain.attempt import Attempt
from stoker.domain.errors import UnknownLog, UnknownTask
from stoker.domain.key import TaskKey
from stoker.domain.task import TaskSpec

from .collect import streams
from .context import Flow


class LogPart(Struct, frozen=True):
    offset: int
    """Of `data`; above the one asked for when the middle was not kept."""
    data: bytes
    size: int
    ended: bool
    """The attempt is over: `size` will not grow."""


async def read(
    flow: Flow,
    key: TaskKey,
    *,
    stream: str = "stdout",
    offset: int = 0,
    limit: int = 1 << 20,
    attempt: str | None = None,
) -> LogPart:
    """Bytes of the named attempt, or of the last one. A negative offset counts from the end."""
    task = await flow.store.task(key)
    if task is None:
        raise UnknownTask(id=str(key))
    wanted = attempt or task.attempt
    if wanted is None:
        raise UnknownLog("no_attempt_yet", id=str(key))
    record = await flow.store.attempt(wanted)
    if record is None or record.task != key:
        raise UnknownLog("unknown_attempt", id=str(key), attempt=wanted)
    _check_stream(task.spec, stream)
    if offset < 0:
        whole = await _read(flow, record, stream, 0, 0)
        offset = max(0, whole.size + offset)
    return await _read(flow, record, stream, offset, limit)


def _check_stream(spec: TaskSpec, stream: str) -> None:
    if stream in streams(spec):
        return
    if stream == "stderr" and spec.stderr in ("merge", spec.stdout) and spec.stdout != "discard":
        raise UnknownLog("log_merged", field="stream")
    raise UnknownLog("log_discarded", field="stream")


async def _read(flow: Flow, attempt: Attempt, stream: str, offset: int, limit: int) -> LogPart:
    ended = attempt.ended_at is not None
    copy = _from_copy(flow, attempt, stream, offset, limit)
    if copy is not None:
        return copy
    try:
        chunk = await flow.engine.read_log(attempt, 0, stream, offset, limit)
    except UnknownLog:
        # It may have been copied and forgotten while we asked.
        copy = _from_copy(flow, attempt, stream, offset, limit)
        if copy is not None:
            return copy
        if not ended:
            return LogPart(offset, b"", 0, False)
        raise
    return LogPart(chunk.offset, chunk.data, chunk.size, ended)


def _from_copy(
    flow: Flow, attempt: Attempt, stream: str, offset: int, limit: int
) -> LogPart | None:
    found = flow.logs.read(attempt.id, 0, stream, offset, limit)
    if found is None:
        return None
    start, data, size = found
    return LogPart(start, data, size, True)
