"""An attempt is over: another one, or the end. This file alone decides between them.

Cards are free when the end is committed, never before. What a person has stopped never comes back,
nor does an element of an array that a person has stopped.
"""

from __future__ import annotations

from datetime import datetime

from stoker.domain.event import Ended, Event, Requeued, Started, Waived
from stoker.domain.lifecycle import State, Task
from stoker.domain.outcome import End, lost
from stoker.domain.sweep import is_array
from stoker.engines.base import AttemptEnded, AttemptLost, AttemptNeverRan
from stoker.runner import killpoint

from . import depend, environments, nodes
from .arrays import CANCELLED
from .collect import collect, collect_again
from .commit import commit, moved
from .context import Flow
from .follow import follow
from .retry import after_failure, after_never_ran
from .tell import tell

Over = AttemptEnded | AttemptLost | AttemptNeverRan

RETRIED = ("failed", "timed_out")
"""Outcomes that another try may mend."""
LAUNCH_FAILED = "start_failed"
"""The reason of an end that is the node's fault, not the task's."""


async def finish(flow: Flow, fact: Over) -> None:
    """Record the end of an attempt, free its cards, collect its log."""
    live = flow.live.get(fact.attempt)
    if live is None:
        if fact.attempt not in flow.collecting:
            await collect_again(flow, fact.attempt)
        return
    task = live.task
    events = await _events(flow, task, fact)
    killpoint.reach(killpoint.COLLECT)
    change = moved(task, *events)
    await commit(flow, [change])
    killpoint.reach(killpoint.COLLECTED)
    del flow.live[fact.attempt]
    flow.view.free(fact.attempt)
    follow(flow, change.task, task)
    flow.replan()
    _judge_node(flow, live.attempt.allocation.node, task, fact)
    if isinstance(fact, AttemptEnded) and fact.end.outcome == "failed":
        environments.doubt(flow, task.owner, task.spec.environment)
    small = fact.log if isinstance(fact, AttemptEnded) else None
    flow.later(collect(flow, live.attempt, task.spec, small))
    if isinstance(events[0], Started):
        tell(flow, "started", moved(task, events[0]).task)
    if change.task.end is not None:
        tell(flow, "ended", change.task)


async def _events(flow: Flow, task: Task, fact: Over) -> tuple[Event, ...]:
    now = flow.clock.now()
    begun: tuple[Event, ...] = ()
    started_at = fact.started_at if isinstance(fact, AttemptEnded) else None
    if started_at is not None and task.state is State.STARTING:
        begun = (Started(at=started_at, attempt=fact.attempt),)
    end = _end(task, fact)
    again = None if _is_stopped(flow, task) else _again(task, fact, end, now)
    if again is None:
        return *begun, Ended(at=now, attempt=fact.attempt, end=end or CANCELLED)
    if task.spec.after and not task.anyway and not await depend.met(flow, task):
        # It came true once, or it would not have started; what became of it since is no matter.
        return *begun, again, Waived(at=now, by=task.owner)
    return *begun, again


def _end(task: Task, fact: Over) -> End | None:
    """How this attempt ended; None: it provably never ran."""
    match fact:
        case AttemptNeverRan():
            return None
        case AttemptLost():
            return lost(fact.evidence, stopping=task.state is State.STOPPING)
        case AttemptEnded():
            return fact.end


def _is_stopped(flow: Flow, task: Task) -> bool:
    """A person has cancelled it, or the array it belongs to."""
    if task.state is State.STOPPING and task.stop_cause != "requeue":
        return True
    array = flow.arrays.get(task.id) if is_array(task.spec) else None
    return array is not None and array.state is State.STOPPING


def _again(task: Task, fact: Over, end: End | None, now: datetime) -> Requeued | None:
    """Its way back into line; None: this is the end."""
    asked = task.stop_cause == "requeue"
    if end is None:
        pause = None if asked else after_never_ran(now, task.never_ran + 1)
        return Requeued(at=now, attempt=fact.attempt, not_before=pause)
    if isinstance(fact, AttemptLost):
        wanted = asked or task.spec.requeue_on_loss
    else:
        wanted = asked and isinstance(fact, AttemptEnded) and fact.requeue
    if wanted:
        return Requeued(at=now, attempt=fact.attempt, end=end)
    if end.outcome in RETRIED and task.retried < task.spec.retries:
        pause = after_failure(now, task.retried + 1)
        return Requeued(at=now, attempt=fact.attempt, end=end, not_before=pause, retry=True)
    return None


def _judge_node(flow: Flow, node: str, task: Task, fact: Over) -> None:
    """A node on which nothing can be launched is not given more."""
    match fact:
        case AttemptNeverRan():
            if task.state is not State.STOPPING:
                nodes.launch_failed(flow, node)
        case AttemptEnded() if fact.end.reason == LAUNCH_FAILED:
            nodes.launch_failed(flow, node)
        case AttemptEnded() if fact.started_at is not None:
            nodes.launched(flow, node)
        case _:
            pass
