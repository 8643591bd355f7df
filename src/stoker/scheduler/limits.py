"""What a task's own limits say: quotas, a queue's maxima, an array's cap.

A task stopped by its own limits takes nothing from anybody: it neither reserves nor blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from .fit import Reason
from .needs import Sign
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
    queue = policy.queue(sign.queue)
    for code, most, held, named in (
        ("quota_cards", policy.quotas.get(sign.owner), view.cards_of(sign.owner), True),
        ("queue_cards", queue.most_cards, view.cards_of(queue=sign.queue), False),
        ("queue_cards_each", queue.most_cards_each, view.cards_of(sign.owner, sign.queue), False),
    ):
        if most is not None and held + cards > most:
            who: dict[str, object] = {"owner": sign.owner} if named else {"queue": sign.queue}
            yield Reason(code, who | {"most": most, "held": held, "need": cards})


def is_limited(view: BaseView, sign: Sign) -> bool:
    if sign.cap is None and not view.policy.has_limits:
        return False
    return next(own_limits(view, sign), None) is not None
