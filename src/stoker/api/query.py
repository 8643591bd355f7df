"""Strict query strings. Each route's parameters are one struct, which is also their documentation.

An unknown parameter, a second value where one is meant, bytes that are not UTF-8, a NUL or a value
out of range is refused and named. `None` and defaults come from the struct.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from stoker.domain.checks import explain_validation
from stoker.domain.errors import InvalidSpec

MOST_INTEGER = 2**63 - 1
"""The largest that the records can hold."""

SHORT = 300
"""A longer one is not remembered: what strangers send must not fill the memory."""

Q = TypeVar("Q", bound=msgspec.Struct)

_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a route. Fields are int, bool, str, Literal, any of these `| None`, or a
    tuple of them."""


class NoQuery(Query, frozen=True, kw_only=True):
    """No parameters."""


def parse_query(raw: bytes, kind: type[Q]) -> Q:
    """`raw` (as it stood after the `?`) as the parameters `kind` declares."""
    if len(raw) > SHORT:
        return _parse(raw, kind)
    parsed: Q = _parse_again(raw, kind)
    return parsed


def _parse(raw: bytes, kind: type[Q]) -> Q:
    shape = _shape(kind)
    given: dict[str, Any] = {}
    for name, value in _pairs(raw):
        known = shape.get(name)
        if known is None:
            raise InvalidSpec("unknown_parameter", field=name, known=", ".join(shape) or "-")
        if known.many:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise InvalidSpec("repeated_parameter", field=name)
        else:
            given[name] = known.read(value)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _with_choices(explain_validation(str(error)), shape) from error


_parse_again = lru_cache(256)(_parse)
"""Pages ask the same again and again, and a struct of parameters never changes."""


def parse_integer(text: str, *, field: str) -> int:
    """A number from 0 on that came by another way than the query (a header)."""
    number = _integer(text)
    if not isinstance(number, int):
        raise InvalidSpec("wrong_type", field=field, expected="int", got="str")
    if number < 0:
        raise InvalidSpec("too_small", field=field, least=0)
    if number > MOST_INTEGER:
        raise InvalidSpec("too_large", field=field, most=MOST_INTEGER)
    return number


class _Parameter(NamedTuple):
    read: Callable[[str], Any]
    """What a text means; one that means nothing stays text, for the type check to refuse."""
    many: bool
    choices: tuple[str, ...]


@cache
def _shape(kind: type[msgspec.Struct]) -> dict[str, _Parameter]:
    return {info.name: _parameter(info.type) for info in msgspec.structs.fields(kind)}


def _parameter(annotation: Any) -> _Parameter:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _parameter(inner[0])
    if origin in (typing.Union, types.UnionType):
        return _parameter(next(part for part in inner if part is not type(None)))
    if origin is tuple:
        return _parameter(inner[0])._replace(many=True)
    read = {int: _integer, bool: _boolean}.get(annotation, str)
    return _Parameter(read, many=False, choices=inner if origin is Literal else ())


def _pairs(raw: bytes) -> typing.Iterator[tuple[str, str]]:
    for pair in raw.split(b"&") if raw else ():
        if not pair:
            continue
        before, _, after = pair.partition(b"=")
        name = _text(before, field="")
        value = _text(after, field=name)
        yield name, value


def _text(encoded: bytes, *, field: str) -> str:
    try:
        text = unquote_to_bytes(encoded.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        raise InvalidSpec("not_utf8", field=field, offset=error.start) from None
    if "\0" in text:
        raise InvalidSpec("nul", field=field or text.replace("\0", "\\0"))
    return text


def _integer(text: str) -> int | str:
    """A number when it is one; else the text."""
    if not _INTEGER.fullmatch(text):
        return text
    if len(text) > 30:  # far outside every range; Python refuses to convert thousands of digits
        return -(10**30) if text.startswith("-") else 10**30
    return int(text)


def _boolean(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text, text)


def _with_choices(error: InvalidSpec, shape: dict[str, _Parameter]) -> InvalidSpec:
    known = shape.get(error.field.partition("[")[0])
    if error.code == "not_a_choice" and known is not None:
        error.values["choices"] = ", ".join(known.choices)
    return error
