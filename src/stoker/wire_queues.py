"""What travels over HTTP about queues, teams, quotas and labels. Requests are closed, answers open."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from stoker.domain.queue import Cards, Names, QueueTerms, TeamTerms


class QueueWish(QueueTerms, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a queue allows: what is left out is not limited."""

    # a list: the same name twice is no mistake
    nodes: Annotated[Names, Meta(min_length=1)] | None = None  # type: ignore[assignment]


class QueueView(Struct, frozen=True, kw_only=True):
    """A queue, and what is going on in it."""

    name: str
    version: int
    """Give it back as If-Match with a change."""
    terms: QueueTerms
    """Only admins see the people and teams that it names."""
    restricted: bool
    """It is for some only."""
    configured: bool
    """It is as config.toml says; nobody has changed it since."""
    waiting: int
    """Tasks; an array counts as its elements."""
    yours: int
    """Those of them that are the caller's."""
    running: int
    cards: int
    """Cards that its tasks hold."""
    missing_nodes: tuple[str, ...] = ()
    """Nodes it names that were never seen."""
    missing_labels: tuple[str, ...] = ()
    """Labels it names that no node has."""


class QueueRemoved(Struct, frozen=True, kw_only=True):
    name: str
    moved: int
    """Waiting tasks that went to another queue; an array counts once."""


class TeamWish(TeamTerms, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All about a team but who is in it."""


class TeamView(Struct, frozen=True, kw_only=True):
    name: str
    version: int
    about: str
    most_cards: int | None
    members: tuple[str, ...]
    cards: int
    """Cards that its members hold together."""


class MembersWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    add: Names = ()
    """They leave the team they were in."""
    remove: Names = ()


class TeamRemoved(Struct, frozen=True, kw_only=True):
    name: str
    members: tuple[str, ...]
    """Who is in no team now."""


class QuotaWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    most_cards: Annotated[Cards | None, Meta(description="null = any number")]


class QuotaView(Struct, frozen=True, kw_only=True):
    """What a person may hold, and holds."""

    person: str
    team: str
    most_cards: int | None
    cards: int


class Quotas(Struct, frozen=True, kw_only=True):
    people: tuple[QuotaView, ...]
    teams: tuple[TeamView, ...]


class LabelsWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    labels: Names
    """All labels of the node."""
