"""Settings that change live: each is a field of `Rules`, checked by its own type and bounds.

What was changed wins over config.toml, which wins over what Stoker comes with. A change and the act
that says who made it are one transaction; the value of a secret is in neither act nor answer.
"""

from __future__ import annotations

import typing
from datetime import datetime
from types import UnionType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from stoker.domain.checks import explain_validation
from stoker.domain.errors import InvalidSpec, UnknownSetting
from stoker.store.base import Act

from .book import RULE, RULES, Book, Put, Remove

HIDDEN = "***"
Kind = Literal["choice", "whole", "yes_no", "text"]
Source = Literal["default", "file", "changed"]
"""As Stoker comes; as config.toml says; as somebody has set it live."""


class Setting(Struct, frozen=True, kw_only=True):
    """How a setting is declared."""

    name: str
    kind: Kind
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    about: str = ""
    secret: bool = False


def declared(name: str) -> Setting:
    """UnknownSetting when there is none of that name."""
    if name not in SETTINGS:
        raise UnknownSetting(field=name[:100], known=", ".join(SETTINGS))
    return SETTINGS[name]


def source_of(book: Book, name: str) -> Source:
    if name in book.changed_rules:
        return "changed"
    is_built_in = getattr(book.defaults, name) == getattr(book.built_in, name)
    return "default" if is_built_in else "file"


async def change(book: Book, name: str, value: Any, *, at: datetime, who: str, origin: str) -> None:
    """From now on `value`. Refuses one that is not allowed, naming the setting."""
    setting = declared(name)
    checked = _checked(setting, value)
    if name in book.changed_rules and book.changed_rules[name] == checked:
        return
    values = _said(setting, getattr(book.rules, name), checked)
    act = Act(at=at, who=who, act="settings.set", on=name, origin=origin, values=values)
    await book.amend([Put(RULE, name, checked)], [act])


async def unset(book: Book, name: str, *, at: datetime, who: str, origin: str) -> None:
    """Back to what config.toml says, or what Stoker comes with. May be repeated."""
    setting = declared(name)
    if name not in book.changed_rules:
        return
    values = _said(setting, getattr(book.rules, name), getattr(book.defaults, name))
    act = Act(at=at, who=who, act="settings.unset", on=name, origin=origin, values=values)
    await book.amend([Remove(RULE, name)], [act])


def _checked(setting: Setting, value: Any) -> Any:
    try:
        return msgspec.convert(value, RULES[setting.name])
    except msgspec.ValidationError as error:
        refusal = explain_validation(str(error))
        if setting.choices:
            said, choices = str(value)[:50], ", ".join(setting.choices)
            refusal = InvalidSpec("not_a_choice", value=said, choices=choices)
        refusal.field = setting.name
        raise refusal from None


def _said(setting: Setting, old: Any, new: Any) -> dict[str, Any]:
    return {"old": HIDDEN, "new": HIDDEN} if setting.secret else {"old": old, "new": new}


def _setting(name: str, annotation: Any) -> Setting:
    kind, meta = _parts(annotation)
    extra = meta.extra or {}
    return Setting(
        name=name,
        kind=_kind(kind),
        choices=typing.get_args(kind) if typing.get_origin(kind) is Literal else (),
        least=_whole(meta.ge),
        most=_whole(meta.le),
        about=meta.description or "",
        secret=bool(extra.get("secret")),
    )


def _parts(annotation: Any) -> tuple[Any, Meta]:
    """The bare type, and what is said about it."""
    if typing.get_origin(annotation) is Annotated:
        kind, *notes = typing.get_args(annotation)
        return kind, next(note for note in notes if isinstance(note, Meta))
    return annotation, Meta()


def _kind(kind: Any) -> Kind:
    if typing.get_origin(kind) is Literal:
        return "choice"
    if typing.get_origin(kind) in (typing.Union, UnionType):
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    known: dict[Any, Kind] = {bool: "yes_no", int: "whole"}
    return known.get(kind, "text")


def _whole(bound: float | None) -> int | None:
    return None if bound is None else int(bound)


SETTINGS: dict[str, Setting] = {name: _setting(name, kind) for name, kind in RULES.items()}
"""Every setting that changes live, in the order of their declaration."""
