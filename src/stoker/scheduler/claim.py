"""Who may use what now: room that is free, that nobody before it has a claim on, that is not kept.

Asked for one task at a time: for a newcomer, for an explanation. The walk along the whole line is
`plan`, which shares `find`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from stoker.domain.node import Allocation
from stoker.domain.queue import Queue

from .fit import Bar, Bars, Terms, allocate
from .limits import is_limited
from .line import Waiting
from .needs import Sign
from .policy import CLASSES, NEGATIVE, Policy
from .reserve import Reservation, bars_of, named
from .state import BaseView


def place_one(view: BaseView, waiting: Waiting, now: datetime) -> tuple[Allocation, ...] | None:
    """Where a newcomer may start at once, when the line behind it was planned already.

    None does not mean that it has to wait: only that a plan has to say.
    """
    lined = view.queues()
    if lined and not _line_is_settled(view, waiting.sign.queue, lined):
        return None
    if waiting.after or waiting.folded is not None:
        return None
    if waiting.not_before is not None and waiting.not_before > now:
        return None
    return fits_now(view, waiting, now)


def unsettles(view: BaseView, sign: Sign, where: Iterable[Allocation]) -> bool:
    """Whether a newcomer that has just been placed there changes what the last plan has decided.

    It may have brought somebody to a limit whom others had to wait for, or have gone before
    somebody whom cards are kept for. Else everything stays: room only shrinks, and it has left
    alone what is kept.
    """
    policy = view.policy
    if any(weight < 0 for weight in policy.weights.values()):
        return True
    used = {allocation.node for allocation in where}
    for held in view.reservations.values():
        entry = view.ready(held.key)
        if entry is None or is_limited(view, entry.sign):
            return True
        if _rank(policy, sign) < _rank(policy, entry.sign) and any(
            kept.node in used for kept in held.kept
        ):
            return True
    return False


def fits_now(view: BaseView, waiting: Waiting, now: datetime) -> tuple[Allocation, ...] | None:
    """Where there is room for it that nobody else has a claim on."""
    sign = waiting.sign
    if is_limited(view, sign) or behind(view, waiting):
        return None
    queue = view.policy.queue(sign.queue)
    terms = Terms.of(sign.needs, sign.owner, queue, view.policy)
    found = find(view, terms, {})  # usually there is none, and this is the quick question
    if found is None or not view.reservations:
        return found
    return find(view, terms, kept_from(view, waiting, now))


def behind(view: BaseView, waiting: Waiting) -> str:
    """The owner of negative weight who waits before it; "" = nobody."""
    policy, sign = view.policy, waiting.sign
    if policy.order == "fifo" or all(weight >= 0 for weight in policy.weights.values()):
        return ""
    first = (*_rank(policy, sign), policy.weight(sign.owner), waiting.order), sign.owner
    for queue in map(policy.queue, view.queues()):
        for urgent, owner, groups in view.lines(queue.name):
            level = policy.level(urgent, owner)
            if level % CLASSES != NEGATIVE:
                continue
            may = [group.tasks[0].order for group in groups if not is_limited(view, group.sign)]
            if may:
                place = (*turn_of(queue), level, policy.weight(owner), min(may))
                first = min(first, (place, owner))
    return "" if first[1] == sign.owner else first[1]


def kept_from(view: BaseView, waiting: Waiting, now: datetime) -> Bars:
    """What is kept for others, as far as it has to respect that."""
    sign, policy = waiting.sign, view.policy
    bars: dict[str, Bar] = {}
    for held in view.reservations.values():
        entry = view.ready(held.key)
        if entry is None or held.key == waiting.key or in_time(sign, held, now):
            continue
        if _rank(policy, sign) < _rank(policy, entry.sign):
            continue
        terms = Terms.of(entry.sign.needs, entry.sign.owner, policy.queue(held.queue), policy)
        looks = named(terms, held, view.rooms, now)
        _merge(bars, bars_of(entry.sign.needs, looks or ()).items())
    return bars


def find(view: BaseView, terms: Terms, bars: Bars) -> tuple[Allocation, ...] | None:
    """The best nodes that have room for it now."""
    count, found = terms.needs.nodes, list[Allocation]()
    for room in view.ranked(terms, bars):
        allocation = allocate(terms, room, bars.get(room.node.name))
        if allocation is not None:
            found.append(allocation)
            if len(found) == count:
                return tuple(found)
    return None


def in_time(sign: Sign, held: Reservation, now: datetime) -> bool:
    """Whether it is gone before those cards are needed."""
    if held.start is None or sign.limit_s is None:
        return False
    return now + timedelta(seconds=sign.limit_s) <= held.start


def turn_of(queue: Queue) -> tuple[int, str]:
    return -queue.priority, queue.name


def _rank(policy: Policy, sign: Sign) -> tuple[int, str, int]:
    """Whoever stands before another by this ignores what is kept for that one."""
    return *turn_of(policy.queue(sign.queue)), policy.level(sign.urgent, sign.owner)


def _line_is_settled(view: BaseView, queue: str, lined: set[str]) -> bool:
    """Whether everybody who waits was given what he may have, so that a newcomer may pass."""
    return view.policy.backfill and (queue not in lined or queue in view.reservations)


def _merge(bars: dict[str, Bar], more: Iterable[tuple[str, Bar]]) -> None:
    for node, bar in more:
        bars[node] = _both(bars[node], bar) if node in bars else bar


def merged(one: Bars, other: Bars) -> dict[str, Bar]:
    merged = dict(one)
    _merge(merged, other.items())
    return merged


def _both(one: Bar, other: Bar) -> Bar:
    return Bar(
        one.uuids | other.uuids, min(one.cpus, other.cpus), min(one.memory_mib, other.memory_mib)
    )
