"""What engines have seen becomes events. Facts may be late, doubled or out of order.

Facts about one attempt are handled in the order they came; different attempts go side by side, so
that their commits share a group. A fact about an attempt that has moved on changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence

from msgspec import structs

from stoker.domain.errors import StaleWrite, StoreDown
from stoker.domain.event import Started
from stoker.domain.lifecycle import State
from stoker.engines.base import (
    AttemptEnded,
    AttemptLost,
    AttemptNeverRan,
    AttemptStarted,
    AttemptStuck,
    AttemptUnknown,
    AttemptUnnumbered,
    EngineOutdated,
    Fact,
    NodeDown,
    NodeRecalled,
    NodeSampled,
    NodeUp,
)

from .commit import commit, moved
from .context import Flow, NodeState
from .finish import finish
from .follow import follow
from .foreign import charge
from .keep import keep_node
from .launch import order_of
from .nodes import launched
from .recover import unknown
from .remind import mind
from .restored import recalled
from .strangers import measured
from .tell import tell

log = logging.getLogger("stoker.flow")

MOST_TRIES = 5


async def watch(flow: Flow, facts: Sequence[Fact]) -> list[Fact]:
    """Take in `facts`. Returns those that could not be recorded and must be tried again."""
    about: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        attempt = getattr(fact, "attempt", None)
        if attempt is None:
            await _node_fact(flow, fact)
        else:
            about[attempt].append(fact)
    left = await asyncio.gather(*(_attempt_facts(flow, group) for group in about.values()))
    return [fact for group in left for fact in group]


async def _node_fact(flow: Flow, fact: Fact) -> None:
    match fact:
        case NodeUp():
            await _node_up(flow, fact)
        case NodeDown():
            state = flow.nodes.get(fact.node)
            if state is not None:
                state.since, state.why = fact.at, fact.why
            flow.view.node_down(fact.node)
            flow.diary.write(fact.at, "node_down", node=fact.node)
            charge(flow, fact.node)
            log.warning("event=node_down node=%s why=%s", fact.node, fact.why)
        case NodeSampled():
            state = flow.nodes.get(fact.node)
            if state is not None:
                state.sample = fact
            measured(flow, fact.node)
            charge(flow, fact.node)
        case NodeRecalled():
            await recalled(flow, fact)
        case EngineOutdated():
            log.critical("event=outdated node=%s epoch=%s", fact.node, fact.epoch)
            flow.outdated = True
        case _:
            log.error("event=unexpected_fact fact=%r", fact)


async def _node_up(flow: Flow, fact: NodeUp) -> None:
    name = fact.node.name
    known = flow.nodes.get(name)
    # An intent that was recorded and never sent has a number the node has not seen.
    number = max(
        fact.highest,
        known.launch_number if known else 0,
        await flow.store.highest_launch_number(name),
    )
    sample = known.sample if known else None
    flow.nodes[name] = NodeState(fact.incarnation, number, since=flow.clock.now(), sample=sample)
    keep_node(flow, name)
    flow.view.node_up(fact.node)
    flow.possible.clear()
    if name in flow.drained:
        flow.view.drain(name, flow.drained[name])
    flow.replan()
    flow.diary.write(flow.clock.now(), "node_up", node=name, gpus=len(fact.node.gpus))
    log.info("event=node_up node=%s gpus=%s", name, len(fact.node.gpus))


async def _attempt_facts(flow: Flow, facts: list[Fact]) -> list[Fact]:
    for number, fact in enumerate(facts):
        try:
            await _until_fresh(flow, fact)
        except StoreDown:
            return facts[number:]
        except Exception:  # a bug of ours must not take the other facts with it
            log.exception("event=fact_failed fact=%r", fact)
    return []


async def _until_fresh(flow: Flow, fact: Fact) -> None:
    """A person may move the task while we record: look again, and judge the fact anew."""
    for _ in range(MOST_TRIES):
        try:
            return await _attempt_fact(flow, fact)
        except StaleWrite:
            live = flow.live.get(str(getattr(fact, "attempt", "")))
            task = None if live is None else await flow.store.task(live.task.key)
            if live is None or task is None:
                return None
            live.task = task
    log.error("event=stale_fact fact=%r", fact)
    return None


async def _attempt_fact(flow: Flow, fact: Fact) -> None:
    match fact:
        case AttemptStarted():
            await _started(flow, fact)
        case AttemptEnded() | AttemptLost() | AttemptNeverRan():
            await finish(flow, fact)
        case AttemptUnnumbered():
            await _renumber(flow, fact)
        case AttemptStuck():
            live = flow.live.get(fact.attempt)
            if live is not None:
                live.stuck = fact.why
                flow.view.drain(live.attempt.allocation.node, fact.why)
        case AttemptUnknown():
            await unknown(flow, fact)
        case _:
            log.error("event=unexpected_fact fact=%r", fact)


async def _started(flow: Flow, fact: AttemptStarted) -> None:
    live = flow.live.get(fact.attempt)
    if live is None or live.task.state is not State.STARTING:
        return
    before = live.task
    change = moved(before, Started(at=fact.at, attempt=fact.attempt))
    await commit(flow, [change])
    live.task = change.task
    follow(flow, change.task, before)
    flow.view.started(fact.attempt, flow.clock.now())
    launched(flow, live.attempt.allocation.node)
    mind(flow, live, flow.clock.now())
    tell(flow, "started", change.task)


async def _renumber(flow: Flow, fact: AttemptUnnumbered) -> None:
    """Commit another launch number first, then send the same attempt again."""
    live = flow.live.get(fact.attempt)
    if live is None or live.task.state is not State.STARTING:
        return
    before = live.attempt
    node = flow.nodes[before.allocation.node]
    node.launch_number += 1
    number = node.launch_number
    await flow.store.renumber(before.id, before.launch_number, number, fact.incarnation)
    live.attempt = structs.replace(before, launch_number=number, incarnation=fact.incarnation)
    flow.engine.launch([order_of(flow, live.task, live.attempt)])
