"""What a type cannot say about a person: names, accounts, addresses; and who would share an account.

Raises InvalidSpec with a code, the field and the values its sentence needs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from .errors import InvalidSpec
from .person import Person

NAME = re.compile(r"[a-z_][a-z0-9_.-]{0,31}", re.ASCII)
"""As on a unix system, so that most people need no mapping."""
ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.@+-]{0,63}", re.ASCII)
"""Wider: accounts of a directory service have capitals and domains."""
_EMAIL = re.compile(r"[^@\s<>,;]+@[^@\s<>,;]+")
_TEXTS = ("full_name", "student_id", "supervisor", "email", "team")


def check_person(person: Person) -> None:
    """Refuse what cannot be a person's settings."""
    if not NAME.fullmatch(person.name):
        raise InvalidSpec("bad_person_name", field="name", value=person.name[:50])
    for name in _TEXTS:
        if any(
            unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") for one in getattr(person, name)
        ):
            raise InvalidSpec("control_characters", field=name)
    if person.email and not _EMAIL.fullmatch(person.email):
        raise InvalidSpec("bad_email", field="email", value=person.email)
    if person.account:
        _check_account(person.account, "account")
    for node, account in person.accounts.items():
        if not node or not node.isprintable():
            raise InvalidSpec("bad_node_name", field="accounts", value=node[:50])
        _check_account(account, f"accounts.{node}")


class Shared(NamedTuple):
    """Two people who would be one to a node's system."""

    person: str
    account: str
    node: str
    """Where; "" = wherever nothing else is said."""


def shared_account(person: Person, others: Iterable[Person]) -> Shared | None:
    """Whose unix account this person would use too, if anybody's."""
    for other in others:
        if other.name == person.name:
            continue
        for node in ("", *person.accounts, *other.accounts):
            account = person.account_on(node)
            if account == other.account_on(node):
                return Shared(other.name, account, node)
    return None


def _check_account(account: str, field: str) -> None:
    if not ACCOUNT.fullmatch(account):
        raise InvalidSpec("bad_account", field=field, value=account[:50])
