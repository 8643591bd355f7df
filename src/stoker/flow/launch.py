"""Recorded intents go to the engine, which may send them any number of times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stoker.engines.base import LaunchOrder
from stoker.runner import killpoint

from .context import Flow, Live

if TYPE_CHECKING:
    from .place import Intent


def launch(flow: Flow, intents: Sequence[Intent]) -> None:
    """From here on these attempts are alive until `finish` says otherwise."""
    if not intents:
        return
    killpoint.reach(killpoint.PLACED)
    orders = []
    for intent in intents:
        task = intent.change.task
        flow.live[intent.attempt.id] = Live(task, intent.attempt)
        orders.append(LaunchOrder(attempt=intent.attempt, spec=task.spec, owner=task.owner))
    flow.engine.launch(orders)
