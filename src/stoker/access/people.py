"""Who is in the lab: people are added, changed, locked and removed, each with the act that says so.

What has to be looked at in others before somebody changes (a name or unix account that is taken,
the last admin) is looked at and recorded under one lock, so that two admins at the same moment
cannot do together what neither may do alone. Who is locked, removed or given another password
loses every token, session and code in the same transaction. No password and no hash is kept here.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from msgspec import structs

from stoker.domain.check_person import check_person, shared_account
from stoker.domain.errors import (
    Conflict,
    InvalidSpec,
    RequestError,
    StaleVersion,
    StaleWrite,
    UnknownPerson,
)
from stoker.domain.person import Credential, Person, ScopeName
from stoker.lab import channels, queues
from stoker.lab.book import Book, Put, Remove
from stoker.store.base import Act
from stoker.wire_people import PersonView, State

from .caller import Caller
from .passwords import check_new
from .tokens import Clock, refusal_of

Hash = Callable[[str], Awaitable[str]]
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""None of them is taken for another one: no i, l, o, 0, 1."""
GROUPS, GROUP = 3, 4
TRIES = 10
STATES: dict[str, State] = {"account_locked": "locked", "account_expired": "expired"}
PRIVATE = frozenset({"full_name", "student_id", "supervisor", "email"})
"""Whose change is an act, but not what was written there."""

T = TypeVar("T")


class Newcomer(NamedTuple):
    person: Person
    password: str | None
    """None: a one-time password is made, unless the system's counts."""


def view(book: Book, clock: Clock, person: Person) -> PersonView:
    """What may be shown of somebody."""
    refusal = refusal_of(person, clock.now())
    return PersonView(
        **structs.asdict(person),
        state=STATES[refusal.code] if refusal else "active",
        version=book.version("person", person.name),
    )


def find(book: Book, name: str) -> Person:
    """Raises UnknownPerson."""
    person = book.people.get(name)
    if person is None:
        raise UnknownPerson(name=name[:100])
    return person


def new_password() -> str:
    """To be read from a slip of paper, typed once and changed: 59 bits."""
    groups = ("".join(secrets.choice(LETTERS) for _ in range(GROUP)) for _ in range(GROUPS))
    return "-".join(groups)


async def add(
    book: Book,
    clock: Clock,
    hashed: Hash,
    newcomers: Sequence[Newcomer],
    who: Caller,
    *,
    may_share: bool = False,
    batch: bool = False,
) -> list[str | None]:
    """All of them or none; the one-time passwords that were made. `may_share`: also somebody whose
    unix account is another's already."""
    _check_new(book, newcomers, may_share=may_share, batch=batch)
    made = [_made(one) for one in newcomers]
    kept = [
        await hashed(password) if (password := one.password or new) else None
        for one, new in zip(newcomers, made, strict=True)
    ]
    async with book.deciding:
        _check_new(book, newcomers, may_share=may_share, batch=batch)
        changes, acts, now = [], [], clock.now()
        for one, secret in zip(newcomers, kept, strict=True):
            person = structs.replace(one.person, must_change=secret is not None, created_at=now)
            changes.append(Put("person", person.name, person, secret))
            acts.append(_act(clock, who, "person.add", person.name, role=person.role))
        await book.amend(changes, acts)
    return made


async def change(
    book: Book,
    clock: Clock,
    name: str,
    settings: Mapping[str, Any],
    who: Caller,
    *,
    version: int,
    may_share: bool = False,
) -> Person:
    """These settings from now on. StaleVersion when it is no longer at `version`."""

    async def step() -> Person:
        before = find(book, name)
        if book.version("person", name) != version:
            raise StaleVersion("stale_person", name=name)
        after = structs.replace(before, **settings)
        if after.login == "system":  # whoever gave it to them, it is theirs
            after = structs.replace(after, must_change=False)
        fields = [key for key in settings if getattr(before, key) != getattr(after, key)]
        if not fields:
            return before
        check_person(after)
        _check_team(book, after, before)
        if not may_share and {"account", "accounts"} & set(fields):
            _check_account(after, book.people.values())
        _check_admins(book, clock, after)
        said = {key: getattr(after, key) for key in fields if key not in PRIVATE}
        act = _act(clock, who, "person.edit", name, fields=fields, **said)
        weaker = _demoted(book, name) if (before.role, after.role) == ("admin", "user") else []
        # another's password counts from now on: ours must not come back later
        secret = "" if after.login == "system" else None
        await book.amend([Put("person", name, after, secret), *weaker], [act])
        return after

    return await _deciding(book, step)


async def lock(book: Book, clock: Clock, name: str, who: Caller) -> Person:
    """Nobody comes in by this name any more. May be repeated."""
    return await _set_locked(book, clock, name, who, locked=True)


async def unlock(book: Book, clock: Clock, name: str, who: Caller) -> Person:
    return await _set_locked(book, clock, name, who, locked=False)


async def reset_password(
    book: Book, clock: Clock, hashed: Hash, name: str, who: Caller
) -> tuple[Person, str]:
    """A one-time password in the place of the one there was, whoever knows that."""
    if find(book, name).login == "system":
        raise Conflict("system_password", name=name)
    password = new_password()
    secret = await hashed(password)

    async def step() -> Person:
        person = structs.replace(find(book, name), must_change=True)
        act = _act(clock, who, "person.password", name)
        await book.amend([Put("person", name, person, secret), *_revoked(book, name)], [act])
        return person

    return await _deciding(book, step), password


async def remove(book: Book, clock: Clock, name: str, who: Caller) -> None:
    """Gone for good, with every token, every way to be told and every mention in a queue; what they
    did stays in the records under the name."""

    async def step() -> None:
        check_removable(book, clock, name)
        left = queues.without_person(book, name)
        said = {"queues": sorted(put.name for put in left)} if left else {}
        act = _act(clock, who, "person.rm", name, **said)
        gone = [Remove("person", name), *_revoked(book, name), *channels.forgotten(book, name)]
        await book.amend([*gone, *left], [act])

    await _deciding(book, step)


def check_removable(book: Book, clock: Clock, name: str) -> None:
    """Raises UnknownPerson, or Conflict for the last admin."""
    find(book, name)
    _check_admins(book, clock, None, gone=name)


async def _set_locked(book: Book, clock: Clock, name: str, who: Caller, *, locked: bool) -> Person:
    """Whether this person may come in; who is locked loses every token and session."""

    async def step() -> Person:
        before = find(book, name)
        if before.locked == locked:
            return before
        after = structs.replace(before, locked=locked)
        _check_admins(book, clock, after)
        act = _act(clock, who, "person.lock" if locked else "person.unlock", name)
        revoked = _revoked(book, name) if locked else []
        await book.amend([Put("person", name, after), *revoked], [act])
        return after

    return await _deciding(book, step)


async def _deciding(book: Book, step: Callable[[], Awaitable[T]]) -> T:
    """`step` looks and records; again when a token was used at the same moment, and its entry
    with it: whoever is busy must be lockable all the same."""
    async with book.deciding:
        for _ in range(TRIES):
            with suppress(StaleWrite):
                return await step()
        return await step()


def _check_new(book: Book, newcomers: Sequence[Newcomer], *, may_share: bool, batch: bool) -> None:
    known = dict(book.people)
    for number, one in enumerate(newcomers):
        try:
            _check_newcomer(book, one, known, may_share=may_share)
        except RequestError as error:
            error.field = f"people[{number}].{error.field}" if batch else error.field
            raise
        known[one.person.name] = one.person


def _check_newcomer(
    book: Book, one: Newcomer, known: Mapping[str, Person], *, may_share: bool
) -> None:
    check_person(one.person)
    if one.person.name in known:
        raise Conflict("person_exists", field="name", name=one.person.name)
    _check_team(book, one.person, None)
    if not may_share:
        _check_account(one.person, known.values())
    if one.password is not None:
        if one.person.login == "system":
            raise InvalidSpec("system_password", field="password", name=one.person.name)
        check_new(one.password, one.person.name)


def _made(one: Newcomer) -> str | None:
    is_needed = one.password is None and one.person.login == "own"
    return new_password() if is_needed else None


def _check_team(book: Book, after: Person, before: Person | None) -> None:
    is_new = before is None or before.team != after.team
    if is_new and after.team and after.team not in book.teams:
        raise InvalidSpec("no_such_team", field="team", team=after.team)


def _check_account(person: Person, others: Iterable[Person]) -> None:
    shared = shared_account(person, others)
    if shared is not None:
        field = f"accounts.{shared.node}" if shared.node in person.accounts else "account"
        raise Conflict("account_taken", field=field, account=shared.account, person=shared.person)


def _check_admins(book: Book, clock: Clock, after: Person | None, gone: str = "") -> None:
    """Somebody must be left who can let others in."""
    now = clock.now()

    def rules(person: Person) -> bool:
        return person.role == "admin" and refusal_of(person, now) is None

    name = gone if after is None else after.name
    if not rules(book.people[name]) or (after is not None and rules(after)):
        return
    if not any(rules(other) for other in book.people.values() if other.name != name):
        raise Conflict("last_admin", name=name)


def _revoked(book: Book, name: str) -> list[Remove]:
    found = book.credentials.items()
    return [Remove("credential", hashed) for hashed, one in found if one.person == name]


def _demoted(book: Book, name: str) -> list[Put]:
    """What was good for an admin's acts: it must not be so again when the role comes back."""
    return [
        Put("credential", hashed, structs.replace(one, scopes=_without_admin(one)))
        for hashed, one in book.credentials.items()
        if one.person == name and "admin" in one.scopes
    ]


def _without_admin(credential: Credential) -> tuple[ScopeName, ...]:
    return tuple(scope for scope in credential.scopes if scope != "admin")


def _act(clock: Clock, who: Caller, act: str, name: str, **values: Any) -> Act:
    return Act(
        at=clock.now(), who=who.name, act=act, on=f"person {name}", origin=who.origin, values=values
    )
