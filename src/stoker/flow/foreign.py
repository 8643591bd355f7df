"""GPU use outside of any task counts in the share of the person whose account it is.

A card on which a foreign process of somebody runs costs that person 1, as if a task held it; where
processes of several accounts run on it, each its part. Not where a task of the same person holds
the card: that is paid already. An account that is of nobody, or of several people, costs nobody
anything. Known anew from every sample; a node out of reach tells nothing, and counts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from stoker.engines.base import CardUse

from .context import Flow


def charge(flow: Flow, node: str) -> None:
    """What runs on this node beside tasks, by its last sample."""
    state, room = flow.nodes.get(node), flow.view.rooms.get(node)
    costs: dict[str, Fraction] = {}
    if state is not None and state.sample is not None and room is not None and room.up:
        people = _people(flow, node) if any(card.foreign for card in state.sample.cards) else {}
        for card in state.sample.cards:
            held = room.cards.get(card.uuid)
            holders = () if held is None else held.holders.values()
            owners = {holding.owner for holding in holders}
            for owner, cost in _of_card(card, people).items():
                if owner not in owners:
                    costs[owner] = costs.get(owner, Fraction(0)) + cost
    before = flow.foreign.get(node, {})
    if costs == before:
        return
    flow.foreign[node] = costs
    news = [_sum_up(flow, owner) for owner in before.keys() | costs.keys()]
    if any(news):
        flow.replan()


def _sum_up(flow: Flow, owner: str) -> bool:
    total = sum((costs.get(owner, Fraction(0)) for costs in flow.foreign.values()), Fraction(0))
    return flow.view.set_foreign(owner, total)


def _people(flow: Flow, node: str) -> Mapping[str, str]:
    """Accounts of this node that are of exactly one person."""
    found: dict[str, list[str]] = {}
    for person in flow.book.people.values():
        found.setdefault(person.account_on(node), []).append(person.name)
    return {account: names[0] for account, names in found.items() if len(names) == 1}


def _of_card(card: CardUse, people: Mapping[str, str]) -> dict[str, Fraction]:
    accounts = {text.partition(":")[0] for text in card.foreign}
    known = {account: people[account] for account in accounts if account in people}
    return {person: Fraction(1, len(accounts)) for person in known.values()}
