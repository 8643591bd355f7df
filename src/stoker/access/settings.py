"""What a person says of himself: language, address, usual fields of tasks, what to be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, structs

from stoker.domain.checks import check, explain_validation
from stoker.domain.errors import InvalidSpec
from stoker.domain.person import Person
from stoker.domain.task import TaskSpec, fields
from stoker.lab.book import Book, Put
from stoker.store.base import Act

from .caller import Caller
from .issue import Decision, settle
from .tokens import Clock

NO_DEFAULT = frozenset({"command"})
MOST_DEFAULTS_BYTES = 64 << 10


async def change_settings(book: Book, clock: Clock, who: Caller, wish: msgspec.Struct) -> None:
    """Change what `wish` says. The act names the settings, not what they are."""
    said = {
        name: value
        for name in wish.__struct_fields__
        if (value := getattr(wish, name)) is not UNSET
    }
    if "defaults" in said:
        check_defaults(said["defaults"])
    if "email" in said:
        check_email(said["email"])

    def decide() -> Decision:
        person: Person = book.people.get(who.name) or who.person
        act = Act(
            at=clock.now(),
            who=who.name,
            act="person.settings",
            on=f"person {who.name}",
            origin=who.origin,
            values={"changed": sorted(said)},
        )
        return [Put("person", who.name, structs.replace(person, **said))], [act]

    if said:
        await settle(book, decide)


def check_defaults(defaults: Mapping[str, Any]) -> None:
    """Refuse what could not be a field of a task, naming it as `defaults.gpus`."""
    known = {field.name for field in fields()} - NO_DEFAULT
    for name in defaults:
        if name not in known:
            raise InvalidSpec("unknown_field", field=f"defaults.{name}", name=name)
    try:
        check(msgspec.convert({"command": ["true"], **defaults}, TaskSpec))
    except msgspec.ValidationError as error:
        raise _within(explain_validation(str(error))) from error
    except InvalidSpec as error:
        raise _within(error) from None
    if len(msgspec.json.encode(defaults)) > MOST_DEFAULTS_BYTES:
        raise InvalidSpec("too_long", field="defaults", most=MOST_DEFAULTS_BYTES)


def check_email(email: str) -> None:
    """Only what surely is none is refused; a mail shows the rest."""
    name, at, host = email.rpartition("@")
    is_plain = email.isprintable() and not any(c.isspace() or c in ',;<>"' for c in email)
    if email and not (at and name and host and is_plain):
        raise InvalidSpec("bad_email", field="email", value=email)


def _within(error: InvalidSpec) -> InvalidSpec:
    error.field = f"defaults.{error.field}"
    return error
