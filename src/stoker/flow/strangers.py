"""Attempts on a node that these records do not know: of another history, after a restore.

Nobody guesses what they are: they are left alone, and the cards they were given are as good as used
by somebody else, for as long as they run. Known anew from every listing of their node.
"""

from __future__ import annotations

import logging

from msgspec import structs

from stoker.engines.base import AttemptUnknown, CardUse
from stoker.scheduler.room import CardLoad

from .context import Flow

log = logging.getLogger("stoker.flow")


def meet(flow: Flow, fact: AttemptUnknown) -> None:
    """A node has this one, and no record of ours knows it."""
    known = fact.attempt in flow.strangers
    if not known:
        log.warning(
            "event=attempt_in_doubt attempt=%s node=%s ended=%s",
            fact.attempt,
            fact.node,
            fact.ended,
        )
    cards = () if fact.ended else fact.gpus
    if flow.strangers.get(fact.attempt) != (fact.node, cards):
        flow.strangers[fact.attempt] = (fact.node, cards)
        measured(flow, fact.node)


def measured(flow: Flow, node: str) -> None:
    """What is on the cards of this node, by its last sample and by strangers."""
    state, room = flow.nodes.get(node), flow.view.rooms.get(node)
    if state is None or room is None:
        return
    loads = {gpu.uuid: CardLoad(gpu.uuid) for gpu in room.node.gpus}
    if state.sample is not None:
        loads |= {card.uuid: _load(card) for card in state.sample.cards}
    for attempt, (where, cards) in flow.strangers.items():
        for uuid in cards if where == node else ():
            if uuid in loads:
                who = f"?:?:attempt {attempt[:8]}"
                load = loads[uuid]
                loads[uuid] = structs.replace(load, foreign=(*load.foreign, who))
    if flow.view.sample(node, list(loads.values())):
        flow.replan()


def _load(card: CardUse) -> CardLoad:
    return CardLoad(
        uuid=card.uuid,
        used_mib=card.memory_used_mib,
        utilisation=card.utilisation,
        foreign=card.foreign,
        foreign_mib=card.foreign_mib,
        attempts=card.attempts,
    )
