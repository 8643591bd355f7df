"""How people are shown, and what commands about them have in common."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import click
from typing_extensions import override

from .say import words
from .screen import clean

if TYPE_CHECKING:
    from stoker.domain.person import Person
    from stoker.wire_people import PersonView

NEVER = ("never", "none", "-")
STATE_COLOURS = {"active": "", "locked": "red", "expired": "yellow"}


class Day(click.ParamType[date | str]):
    """The last day of an account: `2027-06-30`, or `never`."""

    name = "date"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> date | str:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        if value in NEVER:
            return "never"
        try:
            return date.fromisoformat(value)
        except ValueError:
            self.fail(words("people.not_a_day", value=value), param, ctx)


def list_rows(people: Sequence[PersonView]) -> list[list[str]]:
    names = ("name", "role", "state", "weight", "team", "expires", "account", "full_name")
    heading = [words(f"people.col_{name}") for name in names]
    return [heading, *map(_row, people)]


def _row(one: PersonView) -> list[str]:
    return [
        clean(one.name),
        words(f"people.role_{one.role}"),
        words(f"people.state_{one.state}"),
        str(one.weight),
        clean(one.team) or "-",
        "-" if one.expires is None else one.expires.isoformat(),
        accounts(one),
        clean(one.full_name),
    ]


def detail_rows(person: Person) -> list[list[str]]:
    """What is known of one person; what is not said is left out."""
    known: dict[str, str] = {
        "name": person.name,
        "full_name": person.full_name,
        "role": words(f"people.role_{person.role}"),
        "state": words(f"people.state_{state}") if (state := getattr(person, "state", "")) else "",
        "student_id": person.student_id,
        "supervisor": person.supervisor,
        "email": person.email,
        "expires": "" if person.expires is None else person.expires.isoformat(),
        "team": person.team,
        "weight": str(person.weight),
        "most_cards": "" if person.most_cards is None else str(person.most_cards),
        "account": accounts(person),
        "login": words(f"people.login_{person.login}"),
        "password": words("people.password_once") if person.must_change else "",
        "language": person.language,
        "defaults": "  ".join(shown_default(*one) for one in person.defaults.items()),
        "notify": ", ".join(person.notify),
        "created": f"{person.created_at.astimezone():%Y-%m-%d}" if person.created_at else "",
    }
    return [[words(f"people.{name}"), clean(value)] for name, value in known.items() if value]


def accounts(person: Person) -> str:
    """The unix account, and nodes where it is another one."""
    others = [f"{node}={account}" for node, account in sorted(person.accounts.items())]
    return clean(" ".join([person.account or person.name, *others]))


def shown_default(name: str, value: object) -> str:
    """One default as it would be typed."""
    from .options import flag_of

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{flag_of(name)} {shlex.quote(text)}"
