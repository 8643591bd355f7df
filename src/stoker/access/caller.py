"""Who calls, and by what that was shown. Made anew for each request; never kept."""

from __future__ import annotations

from msgspec import Struct, structs

from stoker.domain.person import SCOPES, Person, ScopeName


class Caller(Struct, frozen=True):
    person: Person
    scopes: frozenset[ScopeName]
    credential: str = ""
    """The hash under which it is kept; "" for the one person's own token."""
    origin: str = ""
    """The address it came from."""
    is_fresh: bool = True
    """The password was given a short while ago."""

    @property
    def name(self) -> str:
        return self.person.name

    @property
    def is_admin(self) -> bool:
        """An admin's token without that scope is a user's."""
        return self.person.role == "admin" and "admin" in self.scopes

    def may_read(self, owner: str) -> bool:
        """Commands, output, environments of this owner's tasks; and act on them."""
        return self.is_admin or owner == self.person.name


def the_one(name: str, known: Person | None = None) -> Caller:
    """The one person of a Stoker that serves nobody else, with the settings that are `known`."""
    person = known or Person(name=name)
    always = structs.replace(person, role="admin", locked=False, expires=None, must_change=False)
    return Caller(always, frozenset(SCOPES))


NOBODY = Caller(Person(name=""), frozenset())
"""Who asks what is open to all, and did not say who it is."""
