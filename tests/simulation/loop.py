"""An event loop on virtual time: when nothing is ready, the clock jumps to the next timer.

One thread, no sockets, no wall clock: what runs in which order depends only on what was asked for.
`run_in_executor` does its work at once. `die_after` calls back after so many steps of the loop, so
that a server can be killed at any of its await points.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from heapq import heappop
from typing import Any

from typing_extensions import override

MOST_STEPS = 400_000
"""More than any scenario needs: a loop that spins is a finding, not a hang."""


class Stalled(Exception):
    """Nothing is ready and no timer is set, or the loop spins without end."""


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self.steps = 0
        self._deadly: tuple[int, Callable[[], None]] | None = None
        self._made = 0
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._ready: Any
        self._scheduled: Any
        self.set_task_factory(_make_task)  # type: ignore[arg-type]

    @override
    def time(self) -> float:
        return self._now

    @override
    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def die_after(self, steps: int, act: Callable[[], None]) -> None:
        """Call `act` before the step that comes so many steps from now."""
        self._deadly = (self.steps + steps, act)

    def begin_again(self) -> None:
        """So many steps more."""
        self.steps, self._deadly = 0, None

    def spare(self) -> None:
        """Nobody is to die any more."""
        self._deadly = None

    def unfinished(self) -> list[asyncio.Task[Any]]:
        """Tasks that are not done, oldest first."""
        return list(self._tasks.values())

    # ---- inside

    def _run_once(self) -> None:
        """One step: everything that is ready now; before that, time passes if nothing is."""
        self._count()
        ready, scheduled = self._ready, self._scheduled
        if not ready:
            while scheduled and scheduled[0].cancelled():
                heappop(scheduled)._scheduled = False
            if not scheduled:
                raise Stalled("nothing will ever happen")
            self._now = max(self._now, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self._now:
            timer = heappop(scheduled)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _count(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Stalled("the loop spins")
        if self._deadly is not None and self.steps >= self._deadly[0]:
            act, self._deadly = self._deadly[1], None
            act()

    def _write_to_self(self) -> None:
        """Nobody sleeps."""

    def remember(self, task: asyncio.Task[Any]) -> None:
        self._made += 1
        number = self._made
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))


def _make_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **more: Any
) -> asyncio.Task[Any]:
    assert isinstance(loop, VirtualLoop)
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **more)
    loop.remember(task)
    return task
