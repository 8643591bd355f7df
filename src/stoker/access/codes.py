"""One-time codes: how somebody comes in who has no password yet.

A code stands for one person, is good once and for a day, and is kept as its hash only.
"""

from __future__ import annotations

from datetime import timedelta

from stoker.domain.person import SCOPES, Credential
from stoker.lab.book import Book, Put
from stoker.store.base import Act

from .tokens import Clock, kept_as, new_secret

GOOD_FOR = timedelta(days=1)


async def new_code(book: Book, clock: Clock, person: str, *, by: str, origin: str = "") -> str:
    """A code with which `person` can log in once."""
    code, now = new_secret(), clock.now()
    credential = Credential(
        kind="code", person=person, scopes=SCOPES, created_at=now, expires_at=now + GOOD_FOR
    )
    act = Act(at=now, who=by, act="code.new", on=f"person {person}", origin=origin)
    await book.amend([Put("credential", kept_as(code), credential)], [act])
    return code
