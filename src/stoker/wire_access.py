"""What travels over HTTP about people, how they log in, and their tokens.

Requests are closed, answers are open. What holds a secret never shows it when it is printed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from typing_extensions import override

from stoker.domain.person import Person, ScopeName

MOST_NAME = 64
MOST_PASSWORD = 1024
MOST_LABEL = 100
MOST_DAYS = 3650

Password = Annotated[str, Meta(max_length=MOST_PASSWORD)]


class Secretive(Struct, frozen=True, kw_only=True):
    """Printed by its name only."""

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class LoginWish(Secretive, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A name with its password, or a one-time code."""

    name: Annotated[str, Meta(min_length=1, max_length=MOST_NAME)] | None = None
    password: Password | None = None
    code: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    kind: Literal["token", "session"] = "token"
    """A token to keep, or a session of this browser, which is a cookie."""
    label: Annotated[str, Meta(max_length=MOST_LABEL)] = ""
    """What the token is called in lists: the name of the machine, for example."""


class LoggedIn(Secretive, frozen=True, kw_only=True):
    token: str | None
    """Shown this once; null for a session, which is in the cookie."""
    csrf: str | None
    """What the page of a session sends as X-Stoker-CSRF; null for a token."""
    person: Person
    expires_at: datetime | None
    must_change: bool
    """A password of one's own must be chosen before anything else."""
    warning: str | None = None
    """What to show the person: that others on the network can read this connection."""


class Me(Secretive, frozen=True, kw_only=True):
    """Who the caller is."""

    person: Person
    mode: Literal["one_person", "lab"]
    scopes: tuple[ScopeName, ...]
    """What this token or session is good for."""
    kind: Literal["token", "session"]
    csrf: str | None
    """Of a session: what its page sends as X-Stoker-CSRF."""
    expires_at: datetime | None
    fresh: bool
    """The password was given a short while ago: admin acts do not ask for it."""
    warning: str | None = None
    """What to show the person: that others on the network can read this connection."""


class MyWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One's own settings. What is left out stays as it is."""

    language: Literal["", "en", "zh"] | UnsetType = UNSET
    email: Annotated[str, Meta(max_length=254)] | UnsetType = UNSET
    defaults: dict[str, Any] | UnsetType = UNSET
    """Fields of a task that count when a submission does not say them."""
    notify: (
        Annotated[
            tuple[Literal["started", "finished", "failed", "waiting", "limit"], ...],
            Meta(max_length=10),
        ]
        | UnsetType
    ) = UNSET


class PasswordWish(Secretive, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old: Password | None = None
    """Not needed by who came with a one-time code and has to choose one."""
    new: str
    """At least 8 characters."""


class Confirmation(Secretive, frozen=True, kw_only=True, forbid_unknown_fields=True):
    password: Password


class TokenWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    label: Annotated[str, Meta(min_length=1, max_length=MOST_LABEL)]
    scopes: Annotated[tuple[ScopeName, ...], Meta(min_length=1, max_length=10)]
    days: Annotated[int, Meta(ge=1, le=MOST_DAYS)] = 90


class TokenView(Struct, frozen=True, kw_only=True):
    """A token or session as lists show it."""

    id: str
    kind: Literal["token", "session"]
    person: str
    label: str
    scopes: tuple[ScopeName, ...]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    """Roughly: written down every ten minutes at most."""
    current: bool
    """The one that this call came with."""


class TokenMade(Secretive, frozen=True, kw_only=True):
    token: str
    """Shown this once."""
    view: TokenView


class Revoked(Struct, frozen=True, kw_only=True):
    revoked: tuple[str, ...]
    """Public ids of what is good for nothing any more."""
