"""A person, and by what a request shows who it is. Secrets are never in here.

A password's hash and a token's text are kept apart from these values, which may be listed and
logged.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal

from msgspec import Struct, field

Role = Literal["user", "admin"]
ScopeName = Literal["tasks:read", "tasks:write", "account", "admin"]
SCOPES: tuple[ScopeName, ...] = ("tasks:read", "tasks:write", "account", "admin")
"""What a token may be good for. `account`: one's own settings, password and tokens."""


Login = Literal["own", "system"]
Language = Literal["", "en", "zh"]


class Person(Struct, frozen=True, kw_only=True):
    """Somebody who may use this Stoker."""

    name: str
    role: Role = "user"
    full_name: str = ""
    student_id: str = ""
    supervisor: str = ""
    email: str = ""
    expires: date | None = None
    """The last day on which the account may be used."""
    locked: bool = False
    login: Login = "own"
    """Whose password counts: one kept here, or that of the unix account (PAM)."""
    must_change: bool = False
    """The password was made by somebody else: only it can be changed with it."""
    account: str = ""
    """The unix account on the nodes; "" = of the same name."""
    accounts: dict[str, str] = field(default_factory=dict)
    """Nodes where it is another one."""
    team: str = ""
    weight: int = 1
    most_cards: int | None = None
    """Cards this person may hold at the same time; None = any number."""
    language: Language = ""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Fields of a task that count when a submission does not say them."""
    notify: tuple[str, ...] = ()
    """What this person wants to be told: started, finished, failed, waiting, limit."""
    created_at: datetime | None = None

    def account_on(self, node: str) -> str:
        return self.accounts.get(node) or self.account or self.name


class Credential(Struct, frozen=True, kw_only=True):
    """A token, a browser's session or a one-time code. Kept under the hash of its text."""

    kind: Literal["token", "session", "code"]
    person: str
    scopes: tuple[ScopeName, ...]
    label: str = ""
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None = None
    password_at: datetime | None = None
    """When the person last gave the password with it; None for a token that was made for programs,
    which nobody can ask again."""
    by_code: bool = False
    """Made with a one-time code: a password can be chosen without an old one."""


class Failures(Struct, frozen=True):
    """Log-ins in a row that failed."""

    count: int
    last: datetime


class Tries(Struct, frozen=True, kw_only=True):
    """What must be known of log-ins after a restart."""

    failed: dict[str, Failures]
    """By whom and from where."""
    places: dict[str, tuple[str, ...]]
    """Addresses that a person came from, the newest last."""
