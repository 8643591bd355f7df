"""What every step works on: records, engine, view, clock. Plain values, no logic of its own.

`live` mirrors the records for STARTING, RUNNING and STOPPING tasks and is changed only after a
commit. Room is taken in the view before a commit and given back when it fails: so two steps that
run at the same time never give out a card twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from stoker.domain.attempt import Attempt
from stoker.domain.lifecycle import Task
from stoker.domain.node import Incarnation
from stoker.engines.base import Engine, NodeSampled
from stoker.scheduler.view import View
from stoker.store.base import LogShelf, Store

from .news import News

log = logging.getLogger("stoker.flow")


class Clock(Protocol):
    def now(self) -> datetime: ...


class Live(Struct):
    """A task with an attempt that holds cards."""

    task: Task
    attempt: Attempt
    stuck: str = ""
    """Why it cannot be ended."""


class NodeState(Struct):
    """What is known of a node beside its room."""

    incarnation: Incarnation
    launch_number: int
    """The highest given out."""
    since: datetime
    why: str = ""
    sample: NodeSampled | None = None


class Flow:
    def __init__(
        self,
        *,
        store: Store,
        engine: Engine,
        logs: LogShelf,
        clock: Clock,
        new_attempt: Callable[[], str],
        owner: str,
    ) -> None:
        self.store, self.engine, self.logs, self.clock = store, engine, logs, clock
        self.new_attempt = new_attempt
        self.owner = owner
        self.epoch = 0
        self.view = View()
        self.live: dict[str, Live] = {}
        self.nodes: dict[str, NodeState] = {}
        self.collecting: set[str] = set()
        """Ended attempts whose log is being copied."""
        self.news = News()
        self.wake = asyncio.Event()
        self.unplanned = True
        """Something changed since the line was last planned."""
        self.store_problem = ""
        """Why the last commit failed; "" once one has gone well."""
        self.outdated = False
        """Another server has taken over: nothing may be ordered any more."""
        self._background: set[asyncio.Task[None]] = set()

    def replan(self) -> None:
        """Something may start now."""
        self.unplanned = True
        self.wake.set()

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this beside the loop. It handles its own errors; `drain` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)

    async def drain(self) -> None:
        """Wait for what `later` began."""
        while self._background:
            await asyncio.wait(self._background)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("event=background_failed", exc_info=task.exception())
