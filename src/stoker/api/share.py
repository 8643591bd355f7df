"""Where a person stands among the others, and why, in words and as a table. Reads only."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from msgspec import Meta

from stoker import text
from stoker.domain.errors import InvalidSpec, NotAllowed
from stoker.flow.share import Limits, stand
from stoker.scheduler.policy import Policy
from stoker.scheduler.share import Share, Standing
from stoker.wire_share import ShareRow, ShareView

from .query import Query
from .route import Call, route

MOST_NAMED = 3
"""Of those ahead."""


class ShareQuery(Query, frozen=True, kw_only=True):
    person: Annotated[str, Meta(description="Somebody else; only admins", max_length=64)] = ""


@route("GET", "/share", access="person", scope="tasks:read", query=ShareQuery, answer=ShareView)
async def get_share(call: Call[ShareQuery, None]) -> ShareView:
    """Where you stand among the others, and why. Admins may ask about anybody."""
    flow, who = call.parts.flow, call.who
    person = call.query.person or who.name
    if person != who.name and not who.is_admin:
        raise NotAllowed("admins_only")
    if person != who.name and person not in flow.book.people and person not in flow.view.owners():
        raise InvalidSpec("no_such_person", field="person", person=person)
    found, limits = stand(flow, person)
    sees_all = not call.sight.is_alone
    words = _Words(call.language, is_you=person == who.name, sees_all=sees_all)
    rows = found.everybody if sees_all else (found.mine,)
    places = {one.owner: number for number, one in enumerate(found.everybody, 1) if one.ready}
    return ShareView(
        person=person,
        policy=found.policy,
        weight=found.mine.weight,
        place=found.place,
        of=found.of,
        quota=limits.quota,
        team=limits.team or None,
        team_quota=limits.team_quota,
        team_cards=limits.team_cards,
        sentences=tuple(words.all(found, limits, flow.policy)),
        table=tuple(_row(one, places.get(one.owner)) for one in rows),
    )


ROUTES = (get_share,)


def _row(one: Standing, place: int | None) -> ShareRow:
    return ShareRow(
        person=one.owner,
        weight=one.weight,
        cards=one.cards,
        foreign=_decimal(one.foreign),
        cost=_decimal(one.cost),
        used=_decimal(one.used),
        waiting=one.ready,
        place=place,
    )


class _Words:
    """A share in sentences, to whoever asks."""

    def __init__(self, language: str, *, is_you: bool, sees_all: bool) -> None:
        self._language, self._sees_all = language, sees_all
        self._whom = "you" if is_you else "other"

    def all(self, found: Share, limits: Limits, policy: Policy) -> list[str]:
        mine = found.mine
        said = [self._say(f"share.policy.{found.policy}", half_life=policy.half_life_s)]
        said.append(self._about(f"share.holds.{self._whom}", mine, cost=_shown(mine.cost)))
        if mine.foreign:
            said.append(
                self._about(f"share.foreign.{self._whom}", mine, foreign=_shown(mine.foreign))
            )
        if found.policy == "fairshare" and mine.used:
            said.append(self._about(f"share.used.{self._whom}", mine, used=_shown(mine.used)))
        if found.policy != "fifo" and mine.weight <= 0:
            said.append(self._say("share.negative" if mine.weight < 0 else "share.zero"))
        said += self._place(found)
        if limits.quota is not None:
            said.append(
                self._about(f"share.quota.{self._whom}", mine, most=limits.quota, cards=mine.cards)
            )
        if limits.team_quota is not None:
            said.append(
                self._say(
                    "share.team",
                    team=limits.team,
                    most=limits.team_quota,
                    cards=limits.team_cards,
                )
            )
        return said

    def _place(self, found: Share) -> list[str]:
        mine, said = found.mine, []
        if found.place == 1:
            key = f"share.next.{self._whom}"
            if not mine.ready:
                key = f"share.would_be_next.{self._whom}"
            said.append(self._about(key, mine))
        else:
            key = f"share.place.{self._whom}"
            if not mine.ready:
                key = f"share.would_be.{self._whom}"
            said.append(self._about(key, mine, place=found.place, of=found.of))
        if found.ahead and self._sees_all:
            said.append(self._first(found.ahead[0], found))
            others = ", ".join(one.owner for one in found.ahead[1 : 1 + MOST_NAMED])
            if others:
                more = len(found.ahead) - 1 - MOST_NAMED
                key = "share.then_more" if more > 0 else "share.then"
                said.append(self._say(key, others=others, more=more))
        return said

    def _first(self, first: Standing, found: Share) -> str:
        key = "share.first"
        if found.policy == "fifo":
            key = "share.first_fifo"
        elif first.weight <= 0:
            key = "share.first_weight"
        elif found.policy == "fairshare":
            key = "share.first_used"
        return self._say(
            key,
            owner=first.owner,
            cost=_shown(first.cost),
            weight=first.weight,
            used=_shown(first.used),
        )

    def _about(self, key: str, one: Standing, **values: object) -> str:
        return self._say(key, owner=one.owner, weight=one.weight, **values)

    def _say(self, key: str, **values: object) -> str:
        return text.phrase(key, self._language, **values)


def _shown(number: int | Fraction) -> str:
    return f"{_decimal(number):g}"


def _decimal(number: int | Fraction) -> float:
    """Exact where it decides, short where it is shown."""
    return round(float(number), 2)
