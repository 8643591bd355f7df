"""What travels over HTTP about people. Requests are closed, answers are open; no secret is in an
answer but a one-time password or code, which is shown once and never again.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from typing_extensions import override

from stoker.domain.person import Login, Person, Role

MOST_PEOPLE = 500
"""In one batch: each password takes the server a moment to hash."""
MOST_WEIGHT = 1_000_000

Line = Annotated[str, Meta(max_length=200)]
Account = Annotated[str, Meta(max_length=64)]
Accounts = Annotated[dict[str, Account], Meta(max_length=1000)]
Weight = Annotated[int, Meta(ge=-MOST_WEIGHT, le=MOST_WEIGHT)]
Cards = Annotated[int, Meta(ge=0, le=1_000_000)]
Password = Annotated[str, Meta(max_length=1000)]
State = Literal["active", "locked", "expired"]


class Secretive(Struct, frozen=True, kw_only=True):
    """Printed by its name only."""

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class PersonView(Person, frozen=True, kw_only=True):
    """A person as admins see them. No password, no token."""

    state: State
    version: int
    """What a change is made for (If-Match)."""


class PersonSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of PUT /people/{person}: all that an admin may change, every field of it."""

    role: Role
    full_name: Line
    student_id: Line
    supervisor: Line
    email: Line
    expires: date | None
    login: Login
    account: Account
    accounts: Accounts
    team: Line
    weight: Weight
    most_cards: Cards | None


class NewPerson(Secretive, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /people. Without a password a one-time password is made."""

    name: Line
    password: Password | None = None
    role: Role = "user"
    full_name: Line = ""
    student_id: Line = ""
    supervisor: Line = ""
    email: Line = ""
    expires: date | None = None
    login: Login = "own"
    account: Account = ""
    accounts: Accounts = field(default_factory=dict)
    team: Line = ""
    weight: Weight = 1
    most_cards: Cards | None = None


class NewPeople(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /people/batch: all of them are added, or none."""

    people: Annotated[tuple[NewPerson, ...], Meta(min_length=1, max_length=MOST_PEOPLE)]


class AddedPerson(Secretive, frozen=True, kw_only=True):
    """Somebody with a password that was just made."""

    person: PersonView
    one_time_password: str | None
    """To be handed over; it has to be changed at the first log-in. None: one was given, or that of
    the system counts."""


class NewCode(Secretive, frozen=True, kw_only=True):
    """With it the person can log in once."""

    person: str
    code: str
    expires_at: datetime | None


class RemovedPerson(Struct, frozen=True, kw_only=True):
    removed: str
    cancelled: int
    """Tasks that were cancelled for it; an array counts once."""
