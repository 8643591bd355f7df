"""What travels over HTTP about shares: who stands where, and why."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class ShareRow(Struct, frozen=True, kw_only=True):
    """One person of the table, in the order in which they are next."""

    person: str
    weight: int
    cards: int
    """Held by tasks."""
    foreign: float
    """Cards used outside of Stoker."""
    cost: float
    """What counts now: cards held (of shared ones the part) and used outside."""
    used: float
    """What past use counts besides, in cards; 0 unless the policy is fairshare."""
    waiting: int
    """Tasks that only wait for room; an array counts once."""
    place: int | None
    """1 = next; null: nothing of theirs waits."""


class ShareView(Struct, frozen=True, kw_only=True):
    """Where a person stands."""

    person: str
    policy: Literal["balance", "fifo", "fairshare"]
    weight: int
    place: int
    """Among those who have something in line, 1 = next."""
    of: int
    quota: int | None
    """Cards this person may hold; null = any number."""
    team: str | None
    team_quota: int | None
    team_cards: int
    """Cards that the members hold together."""
    sentences: tuple[str, ...]
    """All of it in words."""
    table: tuple[ShareRow, ...]
    """Everybody, or only this person where people do not see each other's tasks."""
