"""Tokens: how they look, under what name they are kept, and whom they stand for.

Only the hash of a token is kept. 256 random bits need no slow hash: nobody can try them all.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Protocol

from stoker.domain.errors import AppError, NotAllowed
from stoker.domain.person import SCOPES, Credential, Person
from stoker.lab.book import Book

from .caller import Caller, the_one

PREFIX = "stk_"
FRESH = timedelta(minutes=15)
"""So long after the password was given, an admin is believed to sit there still."""


class Clock(Protocol):
    def now(self) -> datetime: ...


def new_secret() -> str:
    """For a token, a session or a code."""
    return PREFIX + secrets.token_urlsafe(32)


def kept_as(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


Identify = Callable[[str, str], Caller]
"""Whom a bearer token stands for, and the address it came from. Raises NotAllowed."""


def one_person(token: str, name: str) -> Identify:
    """There is one token and one person."""
    if len(token) < 16:
        raise ValueError("a token of fewer than 16 characters protects nothing")
    caller, expected = the_one(name), token.encode()

    def identify(given: str, _origin: str) -> Caller:
        if not hmac.compare_digest(given.encode(), expected):
            raise NotAllowed("bad_token")
        return caller

    return identify


def of_book(book: Book, clock: Clock) -> Identify:
    """Tokens of everybody in the book."""

    def identify(given: str, origin: str) -> Caller:
        hashed = kept_as(given)
        credential = book.credentials.get(hashed)
        if credential is None or credential.kind != "token":
            raise NotAllowed("bad_token")
        return caller_of(book, clock, hashed, credential, origin)

    return identify


def caller_of(book: Book, clock: Clock, hashed: str, credential: Credential, origin: str) -> Caller:
    """The person behind a credential, if both are still good. Raises NotAllowed."""
    now = clock.now()
    if credential.expires_at is not None and credential.expires_at <= now:
        raise NotAllowed("token_expired")
    person = book.people.get(credential.person)
    if person is None:
        raise NotAllowed("bad_token")
    refusal = refusal_of(person, now)
    if refusal is not None:
        raise refusal
    given = credential.password_at
    return Caller(
        person=person,
        scopes=frozenset(scope for scope in SCOPES if scope in credential.scopes),
        credential=hashed,
        origin=origin,
        is_fresh=given is None or now - given < FRESH,
    )


def refusal_of(person: Person, now: datetime) -> AppError | None:
    """Why this person may not come in at all."""
    if person.locked:
        return NotAllowed("account_locked")
    if person.expires is not None and now.astimezone().date() > person.expires:
        return NotAllowed("account_expired", day=person.expires.isoformat())
    return None
