"""Time limits, and when somebody is told that one is near. Pure."""

from __future__ import annotations

LEADS_S = (24 * 3600, 3600)
"""A day and an hour before."""


def leads_of(limit_s: int | None) -> tuple[int, ...]:
    """How many seconds before this limit somebody is told: only where it is twice as long."""
    return () if limit_s is None else tuple(lead for lead in LEADS_S if limit_s >= 2 * lead)


def is_near(limit_s: int | None, left_s: float) -> bool:
    """Whether that has been told, with so much time left."""
    return any(left_s <= lead for lead in leads_of(limit_s))
