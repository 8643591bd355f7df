"""Queues: where tasks wait, and what those that wait there may use; teams, who share a quota."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

MOST_CARDS = 1_000_000
MOST_NAMES = 1000
MOST_ABOUT = 500
LONGEST_S = 10**9
"""As long as a task may ask for."""

Names = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...], Meta(max_length=MOST_NAMES)
]
Nodes = Annotated[
    frozenset[Annotated[str, Meta(min_length=1, max_length=255)]],
    Meta(min_length=1, max_length=MOST_NAMES),
]
Limit = Annotated[int, Meta(ge=1, le=LONGEST_S)]
Cards = Annotated[int, Meta(ge=0, le=MOST_CARDS)]


class QueueTerms(Struct, frozen=True, kw_only=True):
    """What a queue allows. What is not said is not limited."""

    about: Annotated[str, Meta(max_length=MOST_ABOUT)] = ""
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    """Higher first."""
    engine: Annotated[str, Meta(max_length=64)] = ""
    """What runs its tasks; "" = the fleet."""
    nodes: Nodes | None = None
    """Only these; None = all."""
    labels: Names = ()
    """Only nodes that have one of these."""
    models: Names = ()
    """Only cards of these models; () = all."""
    most_cards: Annotated[int, Meta(ge=1, le=MOST_CARDS)] | None = None
    most_cards_each: Annotated[int, Meta(ge=1, le=MOST_CARDS)] | None = None
    """Per person."""
    most_waiting: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    """Tasks of one person that may wait; an array counts as its elements. 0 closes the queue."""
    default_limit_s: Limit | None = None
    """The time limit of a task that says none."""
    longest_s: Limit | None = None
    """The longest time limit; a task without one is refused then."""
    people: Names = ()
    teams: Names = ()
    """Who may use it: these people and the members of these teams; both () = everybody."""
    rank: Literal["pack", "spread"] = "pack"


class Queue(QueueTerms, frozen=True, kw_only=True):
    """One queue."""

    name: str


class TeamTerms(Struct, frozen=True, kw_only=True):
    about: Annotated[str, Meta(max_length=MOST_ABOUT)] = ""
    most_cards: Cards | None = None
    """Cards its members may hold together."""


class Team(TeamTerms, frozen=True, kw_only=True):
    """People who share a quota."""

    name: str
