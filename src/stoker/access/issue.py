"""Tokens and sessions are made here, listed, and taken away. Their text is given out once.

Whatever is taken away is good for nothing from the moment of the commit on; streams that were
opened with it are ended by whoever listens to the book.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from msgspec import Struct
from typing_extensions import override

from stoker.domain.errors import Conflict, NotAllowed, RequestError, StaleWrite
from stoker.domain.person import SCOPES, Credential, Person, ScopeName
from stoker.lab.book import Book, Put, Remove
from stoker.store.base import Act

from .caller import Caller
from .tokens import Clock, everything_of, has_expired, kept_as, new_secret, public_id

MOST_EACH = 100
"""Tokens, and log-ins, of one person."""
DAYS = 90
MOST_DAYS = 3650

Decision = tuple[Sequence[Put | Remove], Sequence[Act]]


class Issued(Struct, frozen=True):
    """A credential with its text, which nobody can ask for again."""

    secret: str
    credential: Credential
    person: Person

    @property
    def id(self) -> str:
        return public_id(kept_as(self.secret))

    @override
    def __repr__(self) -> str:
        return f"Issued({self.id} of {self.person.name})"


async def settle(book: Book, decide: Callable[[], Decision]) -> None:
    """Record what `decide` says; ask it again when somebody else was faster."""
    for _ in range(10):
        try:
            await book.amend(*decide())
        except StaleWrite:
            await asyncio.sleep(0)
        else:
            return
    await book.amend(*decide())


def fresh_secret(book: Book) -> str:
    """One that no other is called like."""
    taken = {public_id(hashed) for hashed in book.credentials}
    while public_id(kept_as(secret := new_secret())) in taken:
        pass
    return secret


async def new_token(
    book: Book, clock: Clock, who: Caller, *, label: str, scopes: Sequence[ScopeName], days: int
) -> Issued:
    """A token for a program: good for no more than what it was asked with."""
    _check_scopes(book, who, scopes)
    secret, now = fresh_secret(book), clock.now()
    credential = Credential(
        kind="token",
        person=who.name,
        scopes=tuple(scope for scope in SCOPES if scope in scopes),
        label=label,
        created_at=now,
        expires_at=now + timedelta(days=days),
    )

    def decide() -> Decision:
        if who.credential not in book.credentials:  # taken away while we were asked
            raise NotAllowed("bad_token")
        made = [t for t in _own(book, who.name) if t.kind == "token" and t.password_at is None]
        if len(made) >= MOST_EACH:
            raise Conflict("too_many_tokens", most=MOST_EACH)
        act = Act(
            at=now,
            who=who.name,
            act="token.new",
            on=f"token {public_id(kept_as(secret))}",
            origin=who.origin,
            values={"scopes": list(credential.scopes), "days": days},
        )
        return [Put("credential", kept_as(secret), credential)], [act]

    await settle(book, decide)
    return Issued(secret, credential, who.person)


def tokens_of(book: Book, clock: Clock, person: str) -> list[tuple[str, Credential]]:
    """Public ids and what they stand for: tokens and sessions, the newest first."""
    now = clock.now()
    found = [
        (public_id(hashed), credential)
        for hashed, credential in book.credentials.items()
        if credential.person == person
        and credential.kind != "code"
        and not (credential.kind == "session" and has_expired(credential, now))
    ]
    return sorted(found, key=lambda pair: pair[1].created_at, reverse=True)


async def revoke(book: Book, clock: Clock, who: Caller, id: str) -> None:
    """Take away a token or session: one's own, or as an admin anybody's."""

    def decide() -> Decision:
        hashed, credential = _called(book, id)
        if credential.person != who.name:
            if not who.is_admin:
                raise RequestError("unknown_token", id=id)
            if not who.is_fresh:
                raise NotAllowed("password_again")
        act = Act(
            at=clock.now(),
            who=who.name,
            act="token.revoke",
            on=f"{credential.kind} {id} of {credential.person}",
            origin=who.origin,
        )
        return [Remove("credential", hashed)], [act]

    await settle(book, decide)


async def log_out(book: Book, clock: Clock, who: Caller) -> None:
    """Take away what the caller showed. May be repeated."""

    def decide() -> Decision:
        if who.credential not in book.credentials:
            return [], []
        on = f"{book.credentials[who.credential].kind} {public_id(who.credential)}"
        act = Act(at=clock.now(), who=who.name, act="logout", on=on, origin=who.origin)
        return [Remove("credential", who.credential)], [act]

    await settle(book, decide)


def without_others(book: Book, person: str, *, but: str = "") -> list[Put | Remove]:
    """What takes away every token, session and code of a person, but for one."""
    return [Remove("credential", hashed) for hashed in everything_of(book, person, but=but)]


def least_used(book: Book, person: str) -> list[Put | Remove]:
    """What makes room for one more log-in."""
    logins = [
        (credential.used_at or credential.created_at, hashed)
        for hashed in everything_of(book, person)
        if (credential := book.credentials[hashed]).kind == "session" or credential.password_at
    ]
    surplus = sorted(logins)[: max(0, len(logins) - MOST_EACH + 1)]
    return [Remove("credential", hashed) for _, hashed in surplus]


def _check_scopes(book: Book, who: Caller, scopes: Sequence[ScopeName]) -> None:
    for scope in scopes:
        if scope not in who.scopes:
            raise NotAllowed("scope_beyond", field="scopes", scope=scope)
    if "admin" not in scopes:
        return
    if not who.is_admin:
        raise NotAllowed("admins_only", field="scopes")
    credential = book.credentials.get(who.credential)
    if credential is None or credential.password_at is None or not who.is_fresh:
        raise NotAllowed("password_again", field="scopes")


def _own(book: Book, person: str) -> list[Credential]:
    return [book.credentials[hashed] for hashed in everything_of(book, person)]


def _called(book: Book, id: str) -> tuple[str, Credential]:
    for hashed, credential in book.credentials.items():
        if public_id(hashed) == id and credential.kind != "code":
            return hashed, credential
    raise RequestError("unknown_token", id=id[:100])
