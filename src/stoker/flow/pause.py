"""Scheduling is paused: nothing new starts, what runs goes on. Kept over restarts.

From the moment somebody asks for it nothing is placed any more; what was on its way to the records
before that is recorded before the pause is.
"""

from __future__ import annotations

from msgspec import structs

from stoker.domain.rules import Pause, one_line
from stoker.lab.book import ONLY, Put, Remove
from stoker.scheduler.explain import Estimate, Explanation
from stoker.scheduler.fit import Reason
from stoker.store.base import Act

from .context import Flow

KIND = "pause"


async def pause(flow: Flow, why: str, *, who: str, origin: str = "") -> None:
    """Start nothing new until `unpause`. May be repeated, with another reason."""
    line, now, before = one_line(why, field="why"), flow.clock.now(), flow.book.pause
    act = Act(at=now, who=who, act="scheduling.pause", origin=origin, values={"why": line})
    since = now if before is None else before.at
    flow.pausing += 1
    try:
        await flow.book.amend([Put(KIND, ONLY, Pause(by=who, at=since, why=line))], [act])
    finally:
        flow.pausing -= 1
        flow.replan()  # it was not recorded after all, or somebody has already undone it


async def unpause(flow: Flow, *, who: str, origin: str = "") -> None:
    """Tasks start again. May be repeated."""
    if flow.book.pause is None:
        return
    act = Act(at=flow.clock.now(), who=who, act="scheduling.resume", origin=origin)
    await flow.book.amend([Remove(KIND, ONLY)], [act])
    flow.replan()


def is_paused(flow: Flow) -> bool:
    """Nothing may be placed now."""
    return flow.pausing > 0 or flow.book.pause is not None


def while_paused(flow: Flow, told: Explanation) -> Explanation:
    """The same, with the pause as the first reason. No change of the task would help."""
    found = flow.book.pause
    if found is None:
        return told
    values = {"by": found.by, "since": found.at, "because": found.why or None}
    others = [reason for reason in told.reasons if reason.code != "next_moment"]
    return structs.replace(
        told,
        starts=None,
        reasons=(Reason("paused", values), *others),
        estimate=Estimate(None, Reason("estimate_paused", {})),
        suggestions=(),
    )
