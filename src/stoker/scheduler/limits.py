"""What a task's own limits say: quotas, a queue's maxima, an array's cap.

A task stopped by its own limits takes nothing from anybody: it neither reserves nor blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import cast

from stoker.domain.queue import Queue

from .fit import Reason
from .needs import Sign
from .policy import Policy
from .room import Holding
from .state import BaseView


def own_limits(view: BaseView, sign: Sign) -> Iterator[Reason]:
    """Every limit of its own that keeps it from starting now."""
    policy, cards = view.policy, sign.needs.cards
    if sign.cap is not None:
        live = view.live_of(sign.array)
        if live >= sign.cap:
            yield Reason("array_cap", {"cap": sign.cap, "live": live})
    if not cards:
        return
    queue, team = policy.queue(sign.queue), policy.teams.get(sign.owner, "")
    limits: tuple[tuple[str, int | None, int, dict[str, object]], ...] = (
        ("quota_cards", policy.quotas.get(sign.owner), view.cards_of(sign.owner),
         {"owner": sign.owner}),
        ("quota_team", policy.team_quotas.get(team), view.cards_of_team(team), {"team": team}),
        ("queue_cards", queue.most_cards, view.cards_of(queue=sign.queue), {"queue": sign.queue}),
        ("queue_cards_each", queue.most_cards_each, view.cards_of(sign.owner, sign.queue),
         {"queue": sign.queue}),
    )  # fmt: skip
    for code, most, held, who in limits:
        if most is not None and held + cards > most:
            yield Reason(code, who | {"most": most, "held": held, "need": cards})


def free_of(view: BaseView, sign: Sign, limit: Reason) -> datetime | None:
    """When so much of what counts against this limit has ended that it stops the task no longer.
    None: nobody can say."""
    values = cast("dict[str, int]", limit.values)
    if limit.code == "array_cap":
        over = values["live"] + 1 - values["cap"]
    else:
        over = values["held"] + values["need"] - values["most"]
    ends = [
        (held.ends, 1 if limit.code == "array_cap" else sum(len(p.gpus) for p in held.allocations))
        for held in view.taken().values()
        if held.ends is not None and _counts(view.policy, sign, limit.code, held)
    ]
    for end, freed in sorted(ends):
        over -= freed
        if over <= 0:
            return end
    return None


def never_within(policy: Policy, owner: str, queue: Queue, cards: int) -> Reason | None:
    """The limit that a request for so many cards exceeds by itself: it would wait for ever."""
    if not cards:
        return None
    team = policy.teams.get(owner, "")
    limits: tuple[tuple[str, int | None, dict[str, object]], ...] = (
        ("over_quota", policy.quotas.get(owner), {"owner": owner}),
        ("over_quota_team", policy.team_quotas.get(team), {"team": team}),
        ("over_queue_cards", queue.most_cards, {"queue": queue.name}),
        ("over_queue_cards_each", queue.most_cards_each, {"queue": queue.name}),
    )
    for code, most, who in limits:
        if most is not None and cards > most:
            return Reason(code, who | {"most": most, "need": cards})
    return None


def is_limited(view: BaseView, sign: Sign) -> bool:
    if sign.cap is None and not view.policy.has_limits:
        return False
    return next(own_limits(view, sign), None) is not None


def _counts(policy: Policy, sign: Sign, code: str, held: Holding) -> bool:
    """Whether what is held there counts against that limit of the task."""
    match code:
        case "array_cap":
            return held.array == sign.array
        case "quota_cards":
            return held.owner == sign.owner
        case "quota_team":
            return policy.teams.get(held.owner) == policy.teams.get(sign.owner)
        case "queue_cards":
            return held.queue == sign.queue
        case _:
            return (held.owner, held.queue) == (sign.owner, sign.queue)
