"""Tokens: how they look, under what name they are kept, and whom they stand for.

Only the hash of a token is kept. 256 random bits need no slow hash: nobody can try them all. A
browser's session is kept the same way; it also ends when nobody uses it.
"""

from __future__ import annotations

import hmac
import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal, Protocol

from msgspec import structs

from stoker.domain.errors import AppError, NotAllowed
from stoker.domain.person import SCOPES, Credential, Person
from stoker.lab.book import Book

from .caller import Caller, the_one
from .uses import Uses

PREFIX = "stk_"
FRESH = timedelta(minutes=15)
"""So long after the password was given, an admin is believed to sit there still."""
IDLE = timedelta(hours=8)
"""A session that nobody uses for so long is over. Uses are written down now and then only, so it
may be a little less."""
ID_DIGITS = 12

Mode = Literal["one_person", "lab"]


class Clock(Protocol):
    def now(self) -> datetime: ...


def new_secret() -> str:
    """For a token, a session or a code."""
    return PREFIX + secrets.token_urlsafe(32)


def kept_as(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def public_id(hashed: str) -> str:
    """What people call a token by: enough to tell it from others, too little to use it."""
    return hashed[:ID_DIGITS]


def csrf_of(session: str) -> str:
    """What a page must send along with its session, to show that it has read our answers."""
    return hmac.new(session.encode("utf-8", "surrogatepass"), b"stoker csrf", sha256).hexdigest()


class Identify(Protocol):
    """Whom a token or a session stands for. `origin` is the address that it came from."""

    @property
    def mode(self) -> Mode: ...

    def token(self, given: str, origin: str) -> Caller:
        """Raises NotAllowed."""
        ...

    def session(self, given: str, origin: str) -> Caller:
        """Raises NotAllowed."""
        ...

    def is_good(self, who: Caller) -> bool:
        """Whether what was said of this caller still holds."""
        ...

    def close(self) -> None: ...


def one_person(token: str, name: str, book: Book | None = None) -> Identify:
    """There is one token and one person."""
    if len(token) < 16:
        raise ValueError("a token of fewer than 16 characters protects nothing")
    return _OnePerson(token, name, book)


def with_own(token: str, name: str, book: Book, others: Identify) -> Identify:
    """`others`, and the token in the server's own folder: who can read it could as well write
    the records, so he is an admin. `name`: root, or the account that serves."""
    return _WithOwn(token, name, book, others)


def of_book(book: Book, clock: Clock) -> Identify:
    """Tokens and sessions of everybody in the book."""
    return _OfBook(book, clock)


class _OnePerson:
    mode: Mode = "one_person"

    def __init__(self, token: str, name: str, book: Book | None) -> None:
        self._expected, self._book = token.encode(), book
        self._caller = the_one(name)
        self._known: Person | None = None

    def token(self, given: str, origin: str) -> Caller:
        if not hmac.compare_digest(given.encode(), self._expected):
            raise NotAllowed("bad_token")
        known = None if self._book is None else self._book.people.get(self._caller.name)
        if known is not self._known:
            self._known, self._caller = known, the_one(self._caller.name, known)
        return self._caller

    def session(self, given: str, origin: str) -> Caller:
        raise NotAllowed("no_token")

    def is_good(self, who: Caller) -> bool:
        return True

    def close(self) -> None:
        """There is nothing to end."""


class _OfBook:
    mode: Mode = "lab"

    def __init__(self, book: Book, clock: Clock) -> None:
        self._book, self._clock = book, clock
        self._uses = Uses(book)

    def token(self, given: str, origin: str) -> Caller:
        return self._caller("token", given, origin)

    def session(self, given: str, origin: str) -> Caller:
        return self._caller("session", given, origin)

    def is_good(self, who: Caller) -> bool:
        credential = self._book.credentials.get(who.credential)
        if credential is None:
            return False
        try:
            now = caller_of(self._book, self._clock, who.credential, credential, who.origin)
        except NotAllowed:
            return False
        return now.is_admin == who.is_admin

    def close(self) -> None:
        self._uses.close()

    def _caller(self, kind: str, given: str, origin: str) -> Caller:
        hashed = kept_as(given)
        credential = self._book.credentials.get(hashed)
        if credential is None or credential.kind != kind:
            raise NotAllowed("bad_token" if kind == "token" else "session_expired")
        caller = caller_of(self._book, self._clock, hashed, credential, origin)
        self._uses.saw(hashed, credential, self._clock.now())
        return caller


class _WithOwn:
    def __init__(self, token: str, name: str, book: Book, others: Identify) -> None:
        self._expected, self._name, self._book, self._others = token.encode(), name, book, others
        self.mode = others.mode
        self.session, self.close = others.session, others.close

    def token(self, given: str, origin: str) -> Caller:
        if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._expected):
            return self._others.token(given, origin)
        known = self._book.people.get(self._name, Person(name=self._name))
        person = structs.replace(known, role="admin", must_change=False)
        return Caller(person, frozenset(SCOPES), origin=origin)

    def is_good(self, who: Caller) -> bool:
        return not who.credential or self._others.is_good(who)


def caller_of(book: Book, clock: Clock, hashed: str, credential: Credential, origin: str) -> Caller:
    """The person behind a credential, if both are still good. Raises NotAllowed."""
    now = clock.now()
    if has_expired(credential, now):
        raise NotAllowed("session_expired" if credential.kind == "session" else "token_expired")
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


def has_expired(credential: Credential, now: datetime) -> bool:
    if credential.expires_at is not None and credential.expires_at <= now:
        return True
    used_at = credential.used_at or credential.created_at
    return credential.kind == "session" and used_at + IDLE <= now


def refusal_of(person: Person, now: datetime) -> AppError | None:
    """Why this person may not come in at all."""
    if person.locked:
        return NotAllowed("account_locked")
    if person.expires is not None and now.astimezone().date() > person.expires:
        return NotAllowed("account_expired", day=person.expires.isoformat())
    return None


def everything_of(book: Book, person: str, *, but: str = "") -> list[str]:
    """The hashes of all tokens, sessions and codes of this person, but for one."""
    found = book.credentials.items()
    return [hashed for hashed, kept in found if kept.person == person and hashed != but]
