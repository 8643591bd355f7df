"""The loop: wake on facts and requests, take in what was seen, start what can start.

No step awaits a node. A step that fails is logged and tried again; the loop itself never ends
until it is told to, or another server has taken over.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from stoker.engines.base import Fact

from . import remind, retain
from .conclude import conclude
from .context import Flow
from .depend import look
from .place import place
from .watch import watch

log = logging.getLogger("stoker.flow")

RETRY_S = 1.0


async def run(flow: Flow) -> None:
    """Until cancelled, or outdated."""
    seen: list[Fact] = []
    pump = asyncio.create_task(_pump(flow, seen))
    retaining = asyncio.create_task(retain.run(flow))
    reminding = asyncio.create_task(remind.run(flow))
    try:
        while not flow.outdated and not pump.done():
            await flow.wake.wait()
            flow.wake.clear()
            await _turn(flow, seen)
            await asyncio.sleep(0)  # a turn may not wait for anything: let others go on as well
    finally:
        for beside in (pump, retaining, reminding):
            beside.cancel()
            with suppress(asyncio.CancelledError):
                await beside


async def _turn(flow: Flow, seen: list[Fact]) -> None:
    facts, seen[:] = list(seen), []
    try:
        left = await watch(flow, facts)
        seen[:0] = left
        if not flow.outdated:
            await _go_on(flow)
    except Exception:
        log.exception("event=turn_failed")
        left = []
        flow.unplanned = True
    if left or flow.unplanned or flow.unsettled or flow.asked or flow.store_problem:
        asyncio.get_running_loop().call_later(RETRY_S, flow.wake.set)
    if flow.store_problem:
        flow.unplanned = True


async def _go_on(flow: Flow) -> None:
    """Conclude arrays, look what dependencies have become, start what can start."""
    if flow.unsettled:
        await conclude(flow)
    if flow.asked:
        await look(flow)
    if flow.unplanned:
        await place(flow)


async def _pump(flow: Flow, seen: list[Fact]) -> None:
    async for fact in flow.engine.facts():
        seen.append(fact)
        flow.wake.set()
