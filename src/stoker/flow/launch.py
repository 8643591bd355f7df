"""Recorded intents go to the engine, which may send them any number of times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stoker.domain.attempt import Attempt
from stoker.domain.lifecycle import Task
from stoker.domain.sweep import render
from stoker.engines.base import LaunchOrder
from stoker.runner import killpoint

from .context import Flow, Live
from .follow import follow

if TYPE_CHECKING:
    from .place import Intent


def launch(flow: Flow, intents: Sequence[Intent]) -> None:
    """From here on these attempts are alive until `finish` says otherwise.

    An element whose array was cancelled in this very moment is stopped by the loop: `follow` sees
    that and says so.
    """
    if not intents:
        return
    killpoint.reach(killpoint.PLACED)
    orders = []
    for intent in intents:
        task = intent.change.task
        flow.live[intent.attempt.id] = Live(task, intent.attempt)
        follow(flow, task, intent.before)
        orders.append(order_of(flow, task, intent.attempt))
    flow.engine.launch(orders)


def order_of(flow: Flow, task: Task, attempt: Attempt) -> LaunchOrder:
    """To run this task, again and again if need be: an element of a sweep with its own values."""
    return LaunchOrder(
        attempt=attempt,
        spec=render(task.spec, task.element),
        owner=task.owner,
        account=flow.account(task.owner, attempt.allocation.node),
        submitted_at=task.submitted_at,
    )
