"""Queues: where tasks wait, and what those that wait there may use."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Queue(Struct, frozen=True, kw_only=True):
    """One queue. What is not said is not limited."""

    name: str
    about: str = ""
    priority: int = 0
    """Higher first."""
    engine: str = ""
    """What runs its tasks; "" = the fleet."""
    nodes: frozenset[str] | None = None
    """Only these; None = all."""
    labels: tuple[str, ...] = ()
    """Only nodes that have one of these."""
    models: tuple[str, ...] = ()
    """Only cards of these models; () = all."""
    most_cards: int | None = None
    most_cards_each: int | None = None
    """Per person."""
    most_waiting: int | None = None
    """Tasks of one person that may wait; an array counts as its elements."""
    default_limit_s: int | None = None
    """The time limit of a task that says none."""
    longest_s: int | None = None
    """The longest time limit; a task without one is refused then."""
    people: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    """Who may use it: these people and the members of these teams; both () = everybody."""
    rank: Literal["pack", "spread"] = "pack"


class Team(Struct, frozen=True, kw_only=True):
    """People who share a quota."""

    name: str
    about: str = ""
    most_cards: int | None = None
    """Cards its members may hold together."""
