"""Nodes that take nothing new: taken out by a person, or by three launches in a row that failed.

Kept over restarts. What runs on such a node goes on; tasks that wait for it say so.
"""

from __future__ import annotations

import logging

from stoker.domain.errors import StoreDown, UnknownNode

from .context import Flow
from .keep import keep_drained

log = logging.getLogger("stoker.flow")

MOST_FAILURES = 3
LAUNCHES_FAILED = "launches_failed"
BY_A_PERSON = "drained"
"""Why, when a person gave no reason."""


async def drain(flow: Flow, name: str, why: str, by: str) -> None:
    """Start nothing new there until `resume`. May be repeated, with another reason."""
    if name not in flow.view.rooms:
        raise UnknownNode(node=name)
    before, flow.drained[name] = flow.drained.get(name), why or BY_A_PERSON
    try:
        await keep_drained(flow)
    except BaseException:
        _put_back(flow, name, before)
        raise
    flow.view.drain(name, flow.drained.get(name, ""))
    flow.replan()
    flow.diary.write(flow.clock.now(), "node_drained", node=name, person=by)
    log.warning("event=drained node=%s by=%s why=%s", name, by, why)


async def resume(flow: Flow, name: str, by: str) -> None:
    """Tasks may start there again. May be repeated."""
    if name not in flow.view.rooms:
        raise UnknownNode(node=name)
    before = flow.drained.pop(name, None)
    if before is not None:
        try:
            await keep_drained(flow)
        except BaseException:
            _put_back(flow, name, before)
            raise
    flow.failures.pop(name, None)
    flow.view.drain(name, flow.drained.get(name, ""))
    flow.replan()
    flow.diary.write(flow.clock.now(), "node_resumed", node=name, person=by)
    log.warning("event=resumed node=%s by=%s", name, by)


def launched(flow: Flow, name: str) -> None:
    """Something began there: it works."""
    flow.failures.pop(name, None)


def launch_failed(flow: Flow, name: str) -> None:
    """Something did not begin there, and nobody had asked for that."""
    flow.failures[name] = failures = flow.failures.get(name, 0) + 1
    if failures < MOST_FAILURES or name in flow.drained:
        return
    flow.drained[name] = LAUNCHES_FAILED
    flow.view.drain(name, LAUNCHES_FAILED)
    flow.diary.write(flow.clock.now(), "node_failing", node=name)
    log.error("event=drained node=%s why=%s", name, LAUNCHES_FAILED)
    flow.later(_keep(flow))


async def _keep(flow: Flow) -> None:
    try:
        await keep_drained(flow)
    except StoreDown as error:  # a restart forgets it, and three more failures find it again
        log.warning("event=not_kept what=drained reason=%s", error)


def _put_back(flow: Flow, name: str, before: str | None) -> None:
    if before is None:
        flow.drained.pop(name, None)
    else:
        flow.drained[name] = before
