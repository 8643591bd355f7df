"""After a restore: what ran since the backup is found out before anything is placed.

The records may know a task in an earlier state than its node does. Every node is asked what was
launched on it since; in the order of the launches each attempt is entered into the records as if
they had always known it: it runs on, or has ended as the node says. So nothing runs twice, and
nothing that ran is forgotten. Where somebody cannot tell (a node that is gone, a spool that is
another one, a launch that nobody remembers), every task that waits is held: a person decides.
Killed at any point it is done again; what was entered is known then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from stoker.domain.attempt import Attempt
from stoker.domain.errors import StaleWrite, StoreDown, UnknownTask
from stoker.domain.event import Event, Held, Placed, Released, Requeued, Started
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import WAITING, State, Task
from stoker.domain.node import Allocation, HeldGpu
from stoker.domain.outcome import End, lost
from stoker.engines.base import (
    AttemptEnded,
    AttemptLost,
    AttemptNeverRan,
    AttemptUnknown,
    NodeRecalled,
    PastAttempt,
)
from stoker.scheduler.needs import sign_of
from stoker.store.base import Restored

from .arrays import Found, find, unfolded
from .commit import commit, moved
from .context import Flow, Live, Restoring
from .finish import finish
from .follow import follow
from .keep import RESTORED, keep_doubted
from .launch import order_of
from .place import take
from .strangers import meet

log = logging.getLogger("stoker.flow")

PAUSE_S = 1.0
BATCH = 200


async def begin(flow: Flow) -> None:
    """Called once at the start: nothing is placed until `recalled` has heard every node."""
    text = await flow.store.recall(RESTORED)
    if not text:
        return
    mark = msgspec.json.decode(text, type=Restored)
    asked = flow.engine.recall({name: node.above for name, node in mark.nodes.items()})
    flow.restoring = state = Restoring(mark.nodes, mark.made_at, set(asked))
    state.gaps += [f"node {name} is not there" for name in mark.nodes if name not in asked]
    if not mark.nodes:
        state.gaps.append("no node is known")
    log.warning("event=restored made_at=%s asked=%s", mark.made_at, ",".join(sorted(asked)))


async def recalled(flow: Flow, fact: NodeRecalled) -> None:
    """A node has told what was launched there. Nothing else can go on meanwhile."""
    while flow.restoring is not None and fact.node in flow.restoring.asked:
        try:
            await _enter(flow, flow.restoring, fact)
            flow.restoring.asked.discard(fact.node)
            if not flow.restoring.asked:
                await _conclude(flow, flow.restoring)
        except StoreDown as error:
            flow.restoring.asked.add(fact.node)
            log.warning("event=not_restored_yet reason=%s", error)
            await asyncio.sleep(PAUSE_S)


async def _enter(flow: Flow, state: Restoring, fact: NodeRecalled) -> None:
    known = state.nodes.get(fact.node)
    if known is not None and known.spool != fact.incarnation.spool_id:
        state.gaps.append(f"node {fact.node} has another spool")
    left = set(fact.unexplained)
    for live in list(flow.live.values()):
        attempt = live.attempt
        if attempt.allocation.node == fact.node and attempt.launch_number in left:
            # It was launched, is over, and the node has forgotten how it ended.
            left.discard(attempt.launch_number)
            end = AttemptLost(attempt=attempt.id, at=flow.clock.now(), evidence="spool_gone")
            await finish(flow, end)
    if left:
        state.gaps.append(f"node {fact.node} does not remember {len(left)} launches")
    last = {part.task: part.attempt for part in fact.parts if part.task is not None}
    for part in fact.parts:
        is_last = part.task is None or last[part.task] == part.attempt
        await _enter_one(flow, state, fact.node, part, is_last=is_last)


async def _enter_one(
    flow: Flow, state: Restoring, node: str, part: PastAttempt, *, is_last: bool
) -> None:
    live = flow.live.get(part.attempt)
    if live is None and await flow.store.attempt(part.attempt) is None:
        live = await _adopt(flow, state, node, part)
        if live is not None and part.over is None:
            # It has begun: the node only tells us how it is, and goes on telling.
            flow.engine.launch([order_of(flow, live.task, live.attempt)])
    if live is None or part.over is None:
        return
    if _went_on(part.over, is_last=is_last) and not _is_cancelled(live.task):
        await _requeue(flow, live, part.over)
    else:
        await finish(flow, part.over)


async def _adopt(flow: Flow, state: Restoring, node: str, part: PastAttempt) -> Live | None:
    """Enter an attempt that the records do not know; None: it is not of these records."""
    if part.task is None:
        if not part.revoked:
            state.gaps.append(f"node {node} does not remember whose attempt {part.attempt} is")
        return None
    found = await _task_of(flow, part.task, part)
    if found is None:
        _stranger(flow, node, part)
        return None
    try:
        return await _record(flow, found, part, _allocation(flow, node, found.task, part))
    except StaleWrite:  # its cards are held by another: then at least it does not run again
        if part.over is not None:
            return await _record(flow, found, part, Allocation(node=node))
        await _doubt(flow, [found.task])
        _stranger(flow, node, part)
        return None


async def _task_of(flow: Flow, key: TaskKey, part: PastAttempt) -> Found | None:
    """The task whose attempt this is, waiting; None: the records have none."""
    try:
        found = await find(flow, key)
    except UnknownTask:
        return None
    if found.task.submitted_at != part.submitted_at or found.task.is_array:
        return None  # the same number was given to another task
    for other in [one for one in flow.live.values() if one.task.key == key]:
        if other.attempt.launch_number > part.number or _is_cancelled(other.task):
            return None
        await _requeue(flow, other, None)  # a later attempt says that this one is over
        found = Found(other.task)
    return found if found.task.state in WAITING else None


async def _record(flow: Flow, found: Found, part: PastAttempt, where: Allocation) -> Live:
    """As if it had been placed by us."""
    now, task = flow.clock.now(), found.task
    placed = Placed(
        at=now,
        attempt=part.attempt,
        allocation=where,
        incarnation=part.incarnation,
        launch_number=part.number,
        epoch=part.epoch,
    )
    held = task.state is State.HELD
    events: list[Event] = [Released(at=now, by=task.owner), placed] if held else [placed]
    if found.array is None:
        change = moved(task, *events)
    else:
        change = unfolded(flow, found.array, task.element, *events)
    await commit(flow, [change])
    attempt = Attempt(
        id=part.attempt,
        task_id=task.id,
        task_element=task.element,
        ordinal=change.task.attempts,
        allocation=where,
        incarnation=part.incarnation,
        launch_number=part.number,
        epoch=part.epoch,
        placed_at=now,
    )
    live = flow.live[part.attempt] = Live(change.task, attempt)
    known = flow.nodes[where.node]
    known.launch_number = max(known.launch_number, part.number)
    take(flow, attempt.id, task.key, sign_of(task.key, task.owner, task.spec), [where])
    follow(flow, change.task, None if found.array is not None else task)
    log.warning("event=attempt_recalled task_id=%s attempt=%s", task.key, attempt.id)
    return live


async def _requeue(
    flow: Flow, live: Live, over: AttemptEnded | AttemptLost | AttemptNeverRan | None
) -> None:
    """This attempt is over, and was not the last one of its task."""
    now, task = flow.clock.now(), live.task
    end: End | None = None
    if isinstance(over, AttemptEnded):
        end = over.end
    elif not isinstance(over, AttemptNeverRan):
        end = lost("spool_gone" if over is None else over.evidence, stopping=False)
    begun: list[Event] = []
    started_at = over.started_at if isinstance(over, AttemptEnded) else None
    if started_at is not None and task.state is State.STARTING:
        begun = [Started(at=started_at, attempt=live.attempt.id)]
    change = moved(task, *begun, Requeued(at=now, attempt=live.attempt.id, end=end))
    await commit(flow, [change])
    del flow.live[live.attempt.id]
    flow.view.free(live.attempt.id)
    follow(flow, change.task, task)
    live.task = change.task


def _is_cancelled(task: Task) -> bool:
    return task.state is State.STOPPING and task.stop_cause != "requeue"


def _went_on(over: AttemptEnded | AttemptLost | AttemptNeverRan, *, is_last: bool) -> bool:
    """Whether its task was put back in line after it."""
    return not is_last or (isinstance(over, AttemptEnded) and over.requeue)


def _allocation(flow: Flow, node: str, task: Task, part: PastAttempt) -> Allocation:
    """What it was given, as far as the node still has it."""
    needs = sign_of(task.key, task.owner, task.spec).needs
    cards = flow.view.rooms[node].cards
    gpus = []
    for uuid in part.gpus:
        card = cards.get(uuid)
        if card is None:
            continue
        free = needs.mode == "exclusive" and len(card.slots_taken) < card.gpu.slots
        gpus.append(HeldGpu(card.gpu.index, uuid, card.free_slot if free else 0))
    return Allocation(
        node=node,
        gpus=tuple(gpus),
        cpus=needs.cpus,
        memory_mib=needs.memory_mib,
        gpu_memory_mib=needs.gpu_memory_mib or 0,
    )


def _stranger(flow: Flow, node: str, part: PastAttempt) -> None:
    over = part.over is not None
    meet(flow, AttemptUnknown(attempt=part.attempt, node=node, ended=over, gpus=part.gpus))


async def _conclude(flow: Flow, state: Restoring) -> None:
    """Every node was heard."""
    if state.gaps:
        for gap in state.gaps:
            log.warning("event=history_has_a_gap what=%s", gap)
        rows = await flow.store.waiting()
        for first in range(0, len(rows), BATCH):
            keys = [row.key for row in rows[first : first + BATCH]]
            await _doubt(flow, await flow.store.tasks(keys))
    await flow.store.remember(RESTORED, "")
    flow.restoring = None
    flow.replan()
    log.warning("event=reconciled gaps=%s doubted=%s", len(state.gaps), len(flow.doubted))


async def _doubt(flow: Flow, tasks: Sequence[Task]) -> None:
    """Hold these: they may have run."""
    flow.doubted.update(task.key for task in tasks)
    await keep_doubted(flow)  # first: a task that is held and nobody knows why would be worse
    now = flow.clock.now()
    pairs = [
        (task, moved(task, Held(at=now, by="restore")))
        for task in tasks
        if task.state is State.QUEUED
    ]
    if pairs:
        await commit(flow, [change for _, change in pairs])
        for before, change in pairs:
            follow(flow, change.task, before)


async def settle(flow: Flow, key: TaskKey) -> None:
    """A person has decided about a task that was in doubt."""
    if key in flow.doubted:
        flow.doubted.discard(key)
        await keep_doubted(flow)
