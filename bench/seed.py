"""Records of a past, written through the store before a server starts.

The finished tasks ran on a node that is gone (`past`), so that they share nothing with the node of
the figure: no launch number, no card, no spool.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stoker.domain.event import Ended, Event, Placed, Started, Submitted
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import replay
from stoker.domain.node import Allocation, HeldGpu, Incarnation
from stoker.domain.outcome import End
from stoker.domain.position import first_position
from stoker.domain.task import TaskSpec
from stoker.store.base import Change
from stoker.store.recorder import open_store

from .figure import chunks

NODE = "past"
PIECE = 2_000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
FAILED = End(outcome="failed", reason="exit_code", exit_code=1)
DONE = End(outcome="succeeded", reason="exit_zero", exit_code=0)


def finished(count: int) -> Callable[[Path], None]:
    """Puts `count` finished tasks into a new home; every tenth has failed."""

    def prepare(home: Path) -> None:
        asyncio.run(_write(home / "stoker.db", count))

    return prepare


async def _write(path: Path, count: int) -> None:
    store = open_store(path)
    try:
        for piece in chunks(count, PIECE):
            ids = store.next_ids(len(piece))
            await store.record([_past(id) for id in ids])
    finally:
        store.close()


def _past(id: int) -> Change:
    key, attempt = TaskKey(id), secrets.token_hex(16)
    at = BEGAN + timedelta(seconds=id)
    spec = TaskSpec(
        command=("python", "train.py", "--seed", str(id)), name=f"past-{id}", workdir="/", gpus=1
    )
    events: tuple[Event, ...] = (
        Submitted(at=at, owner="ana", spec=spec, position=first_position(id)),
        Placed(
            at=at,
            attempt=attempt,
            allocation=Allocation(node=NODE, gpus=(HeldGpu(id % 8, f"GPU-past-{id % 8}"),)),
            incarnation=Incarnation("past-boot", "past-spool"),
            launch_number=id,
            epoch=1,
        ),
        Started(at=at + timedelta(seconds=1), attempt=attempt),
        Ended(at=at + timedelta(hours=1), attempt=attempt, end=DONE if id % 10 else FAILED),
    )
    return Change(replay(key, events), events)
