"""What is kept over a restart besides tasks: reservations, past use, drained nodes.

Reservations and use are written beside the loop, at most once a second, and nothing waits for
them: what a crash takes of them is found again by the next plans.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, TypeVar

import msgspec

from stoker.domain.errors import StoreDown
from stoker.domain.key import parse_key
from stoker.scheduler.reserve import Reservation

from .context import Flow

log = logging.getLogger("stoker.flow")

PAUSE_S = 1.0
RESERVATIONS, USE, DRAINED, NODES = "reservations", "use", "drained", "nodes"
DOUBTED, RESTORED = "doubted", "restored"

T = TypeVar("T")


def keep(flow: Flow) -> None:
    """See to it that what the last plan decided is known after a restart."""
    if flow.keep_due or not any(value != flow.kept.get(name) for name, value in _values(flow)):
        return
    flow.keep_due = True
    asyncio.get_running_loop().call_later(PAUSE_S, lambda: flow.later(_write(flow)))


async def keep_drained(flow: Flow) -> None:
    """Durable when it returns; StoreDown goes to the caller."""
    await flow.store.remember(DRAINED, _text(flow.drained))


async def keep_doubted(flow: Flow) -> None:
    """Durable when it returns; StoreDown goes to the caller."""
    await flow.store.remember(DOUBTED, _text(sorted(map(str, flow.doubted))))


def keep_node(flow: Flow, name: str) -> None:
    """A backup must say which nodes could have run something, also before anything did."""
    spool = flow.nodes[name].incarnation.spool_id
    if flow.spools.get(name) != spool:
        flow.spools[name] = spool
        flow.later(_write_nodes(flow))


async def _write_nodes(flow: Flow) -> None:
    try:
        await flow.store.remember(NODES, _text(flow.spools))
    except StoreDown as error:  # the next start tries again
        log.warning("event=not_kept what=%s reason=%s", NODES, error)


async def recall(flow: Flow) -> None:
    """Know again what was kept."""
    reservations = await _recalled(flow, RESERVATIONS, dict[str, Reservation])
    flow.view.reserve(reservations)
    flow.view.use = await _recalled(flow, USE, dict[str, int])
    flow.kept = {RESERVATIONS: reservations, USE: dict(flow.view.use)}
    flow.drained = await _recalled(flow, DRAINED, dict[str, str])
    flow.spools = await _recalled(flow, NODES, dict[str, str])
    doubted = await _recalled(flow, DOUBTED, list[str], "[]")
    flow.doubted = {key for text in doubted if (key := parse_key(text)) is not None}


async def _write(flow: Flow) -> None:
    flow.keep_due = False
    for name in (RESERVATIONS, USE):
        value = dict(_values(flow))[name]  # as it is now: another write may be ahead of this one
        if value == flow.kept.get(name):
            continue
        flow.kept[name] = copy = dict(value)
        try:
            await flow.store.remember(name, _text(copy))
        except StoreDown as error:
            flow.kept[name] = None  # the next plan tries again
            log.warning("event=not_kept what=%s reason=%s", name, error)


def _values(flow: Flow) -> tuple[tuple[str, dict[str, Any]], ...]:
    return (RESERVATIONS, flow.view.reservations), (USE, flow.view.use)


async def _recalled(flow: Flow, name: str, kind: type[T], nothing: str = "{}") -> T:
    """What cannot be read is as good as nothing: none of this is a promise to anybody."""
    text = await flow.store.recall(name)
    try:
        return msgspec.json.decode(text or nothing, type=kind)
    except msgspec.MsgspecError:
        log.warning("event=not_recalled what=%s", name)
        return kind()


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
