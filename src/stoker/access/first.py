"""The first admin of a lab: comes in with a one-time code, and nobody has a password before.

The code is made anew at every start until an admin has come in; an older one is void then. It is in
a private file of the state folder, for whoever starts the server to read, and nowhere else.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from stoker.domain.person import Person
from stoker.lab.book import Book, Put, Remove
from stoker.store.base import Act

from .codes import new_code
from .tokens import Clock

FILE = "first-code"
"""In the state folder, while it is needed: the name and the code."""
ADMIN = "admin"
PEOPLE_FROM_UID = 1000
BY = "up"
"""Who did it, in the audit trail: whoever started the server."""


async def let_first_admin_in(home: Path, book: Book, clock: Clock, name: str) -> None:
    """See to it that the first admin can come in; `name`: who it is, "" = who called sudo."""
    path = home / FILE

    def drop(_kinds: frozenset[str]) -> None:
        if has_come_in(book):
            path.unlink(missing_ok=True)

    path.unlink(missing_ok=True)
    if has_come_in(book):
        return
    name, code = await first_code(book, clock, name or _caller_of_sudo())
    _write(path, f"{name} {code}\n")
    book.listen(drop)


def has_come_in(book: Book) -> bool:
    """Whether some admin has logged in, or has a password of his own choice."""
    admins = {one.name for one in book.people.values() if one.role == "admin"}
    known = {one.person for one in book.credentials.values() if one.kind != "code"}
    return bool(admins & known) or any(not book.people[name].must_change for name in admins)


async def first_code(book: Book, clock: Clock, name: str) -> tuple[str, str]:
    """The name of the first admin, made as `name` unless there is one, and a code for him."""
    admins = sorted(one.name for one in book.people.values() if one.role == "admin")
    if admins:
        name = name if name in admins else admins[0]
    else:
        name = await _first_admin(book, clock, name)
    old = [
        Remove("credential", kept)
        for kept, one in book.credentials.items()
        if one.kind == "code" and one.person == name
    ]
    if old:
        act = Act(at=clock.now(), who=BY, act="code.void", on=f"person {name}")
        await book.amend(old, [act])
    return name, await new_code(book, clock, name, by=BY)


async def _first_admin(book: Book, clock: Clock, name: str) -> str:
    taken = book.people
    free = (one for one in (name, ADMIN, *(f"{ADMIN}{n}" for n in range(2, 1000))))
    name = next(one for one in free if one not in taken)
    now = clock.now()
    person = Person(name=name, role="admin", must_change=True, created_at=now)
    act = Act(at=now, who=BY, act="person.add", on=f"person {name}", values={"role": "admin"})
    await book.amend([Put("person", name, person)], [act])
    return name


def _write(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _caller_of_sudo() -> str:
    """If that is a person's account."""
    name = os.environ.get("SUDO_USER", "")
    try:
        return name if pwd.getpwnam(name).pw_uid >= PEOPLE_FROM_UID else ADMIN
    except KeyError:
        return ADMIN
