"""Where a person stands among the others, with what the lab has decided about quotas and teams."""

from __future__ import annotations

from msgspec import Struct

from stoker.scheduler.share import Share, share

from .context import Flow


class Limits(Struct, frozen=True, kw_only=True):
    """What a person may hold, whatever the share."""

    quota: int | None = None
    team: str = ""
    team_quota: int | None = None
    team_cards: int = 0
    """Held by the members together."""


def stand(flow: Flow, owner: str) -> tuple[Share, Limits]:
    person = flow.book.people.get(owner)
    team = None if person is None else flow.book.teams.get(person.team)
    members = () if team is None else flow.book.people.values()
    held = sum(
        flow.view.cards_of(member.name)
        for member in members
        if team is not None and member.team == team.name
    )
    limits = Limits(
        quota=flow.policy.quotas.get(owner),
        team="" if team is None else team.name,
        team_quota=None if team is None else team.most_cards,
        team_cards=held,
    )
    return share(flow.view, owner), limits
