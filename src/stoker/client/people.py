"""People, log-in and tokens: the part of the client that few programs need.

Its structs are imported when they are used: `stoker ls` does not pay for them. After `login` the
client goes on as that person; where its token is kept is the caller's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from .connection import Connection

if TYPE_CHECKING:
    from stoker.domain.person import ScopeName
    from stoker.wire_access import LoggedIn, Me, TokenMade, TokenView
    from stoker.wire_people import (
        AddedPerson,
        NewCode,
        NewPerson,
        PersonSettings,
        PersonView,
        RemovedPerson,
    )


class People(Connection):
    # ---- oneself

    def login(
        self, name: str | None = None, password: str | None = None, *,
        code: str | None = None, label: str = "",
    ) -> LoggedIn:  # fmt: skip
        """Log in with name and password, or with a one-time `code`. The client goes on with the new
        token, which is in the answer; `label` is what lists call it."""
        from stoker.wire_access import LoggedIn

        # no token goes to a server that it may not belong to
        self._server = self._find()._replace(token=None)
        wish = {"code": code} if code is not None else {"name": name, "password": password}
        logged_in = self._post("/login", wish | {"label": label}, LoggedIn)
        self._token = logged_in.token
        self._server = self._find()._replace(token=logged_in.token)
        return logged_in

    def logout(self) -> None:
        """The token of this client is good for nothing from now on."""
        from stoker.wire_access import Revoked

        self._post("/logout", None, Revoked)

    def me(self) -> Me:
        """Who the server takes us for, and our own settings."""
        from stoker.wire_access import Me

        return self._get("/me", Me)

    def change_me(self, **settings: Any) -> Me:
        """Change own settings: language, email, defaults, notify. The others stay as they are."""
        from stoker.wire_access import Me

        return self._put("/me", settings, Me)

    def change_password(self, old: str | None, new: str) -> tuple[str, ...]:
        """Another password for oneself. Every other token and session ends: their ids. `old` is None
        for somebody who came with a one-time code."""
        from stoker.wire_access import Revoked

        return self._put("/me/password", {"old": old, "new": new}, Revoked).revoked

    def confirm(self, password: str) -> Me:
        """Give the password again: admin acts ask for it after 15 minutes."""
        from stoker.wire_access import Me

        return self._post("/me/confirm", {"password": password}, Me)

    def tokens(self, person: str | None = None) -> list[TokenView]:
        """Own tokens and sessions; an admin may ask for those of another `person`."""
        from stoker.wire_access import TokenView

        return self._get("/tokens", list[TokenView], {"person": person})

    def new_token(self, label: str, scopes: Sequence[ScopeName], *, days: int = 90) -> TokenMade:
        """A token for a program. Its text is in this answer and nowhere else."""
        from stoker.wire_access import TokenMade

        wish = {"label": label, "scopes": list(scopes), "days": days}
        return self._post("/tokens", wish, TokenMade)

    def revoke_token(self, id: str) -> None:
        """It is good for nothing from now on."""
        from stoker.wire_access import Revoked

        self._delete(f"/tokens/{quote(id, safe='')}", Revoked, {})

    # ---- others, for admins

    def people(self) -> list[PersonView]:
        """Everybody, by name."""
        from stoker.wire_people import PersonView

        return self._get("/people", list[PersonView])

    def person(self, name: str) -> PersonView:
        """All about one person but secrets."""
        from stoker.wire_people import PersonView

        return self._get(_path(name), PersonView)

    def add_people(
        self, people: Sequence[NewPerson], *, share_account: bool = False
    ) -> list[AddedPerson]:
        """Somebody new, or many: all of them or none. One-time passwords are in this answer and
        nowhere else. `share_account`: even if a unix account is another person's already."""
        from stoker.wire_people import AddedPerson

        query = {"share_account": share_account}
        return self._post("/people/batch", {"people": list(people)}, list[AddedPerson], query)

    def change_person(
        self, name: str, settings: PersonSettings, version: int, *, share_account: bool = False
    ) -> PersonView:
        """These settings from now on. Refused (`stale_person`) when somebody changed them after
        `version`."""
        from stoker.wire_people import PersonView

        query = {"share_account": share_account}
        return self._put(_path(name), settings, PersonView, version, query)

    def lock_person(self, name: str) -> PersonView:
        """Nobody comes in by this name; every token and session of it ends. Tasks go on."""
        from stoker.wire_people import PersonView

        return self._post(f"{_path(name)}/lock", None, PersonView)

    def unlock_person(self, name: str) -> PersonView:
        """The password is good again."""
        from stoker.wire_people import PersonView

        return self._post(f"{_path(name)}/unlock", None, PersonView)

    def reset_password(self, name: str) -> AddedPerson:
        """A one-time password instead of the one that was forgotten."""
        from stoker.wire_people import AddedPerson

        return self._post(f"{_path(name)}/password", None, AddedPerson)

    def new_code(self, name: str) -> NewCode:
        """A code with which the person can log in once, within a day."""
        from stoker.wire_people import NewCode

        return self._post(f"{_path(name)}/code", None, NewCode)

    def remove_person(
        self, name: str, *, tasks: Literal["refuse", "cancel"] = "refuse"
    ) -> RemovedPerson:
        """Gone for good. Refused (`has_tasks`) for somebody with tasks that have not ended, unless
        they shall be cancelled."""
        from stoker.wire_people import RemovedPerson

        return self._delete(_path(name), RemovedPerson, {"tasks": tasks})


def _path(name: str) -> str:
    return f"/people/{quote(name, safe='')}"
