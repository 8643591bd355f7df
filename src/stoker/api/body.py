"""Strict JSON bodies. Litestar converts with strict=False (gpus="2" would pass as 2), so we read.

A body is read up to a limit, must say that it is JSON, must be UTF-8, and is decoded by msgspec
with unknown fields refused. Every refusal names the field, or the byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from litestar.types import Receive, Scope
from msgspec import inspect

from stoker.domain.checks import explain_validation
from stoker.domain.errors import InvalidSpec

from .errors import Refused

MOST_BODY_BYTES = 32 << 20
MOST_OPEN_BODY_BYTES = 64 << 10
"""Where anybody may send one."""

T = TypeVar("T")

_NUMBER = re.compile(r"\[[0-9]*\]")


class ClientGone(Exception):
    """The connection ended in the middle of the body; there is nobody to answer."""


async def read_body(scope: Scope, receive: Receive, most: int = MOST_BODY_BYTES) -> bytes:
    """The whole body, or Refused before more than `most` bytes are kept."""
    _check_headers(scope, most)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        first = message["body"]
        if len(first) > most:
            raise _too_large(most)
        return first
    pieces, size = [], 0
    while True:
        if message["type"] != "http.request":
            raise ClientGone
        size += len(message["body"])
        if size > most:
            raise _too_large(most)
        pieces.append(message["body"])
        if not message.get("more_body", False):
            return b"".join(pieces)
        message = await receive()


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """`body` as what the decoder is for. InvalidSpec otherwise."""
    try:
        return decoder.decode(body)
    except UnicodeDecodeError:
        raise InvalidSpec("not_utf8", offset=_first_bad_byte(body)) from None
    except msgspec.DecodeError as error:
        refusal = explain_validation(str(error))
        if refusal.values.get("choices") == "":
            refusal.values["choices"] = ", ".join(choices_at(decoder.type, refusal.field))
        raise refusal from error


def choices_at(kind: Any, path: str) -> list[str]:
    """The words that a field takes; `path` as refusals name it: `scopes[0]`."""
    found = [inspect.type_info(kind)]
    for step in _NUMBER.sub(".[", path).split("."):
        found = [inner for outer in _plain(found) for inner in _within(outer, step)]
    literals = (one for one in _plain(found) if isinstance(one, inspect.LiteralType))
    return [str(value) or '""' for literal in literals for value in literal.values]


def _plain(kinds: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    for kind in kinds:
        if isinstance(kind, inspect.Metadata):
            yield from _plain([kind.type])
        elif isinstance(kind, inspect.UnionType):
            yield from _plain(kind.types)
        else:
            yield kind


def _within(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.StructType):
        yield from (field.type for field in kind.fields if field.encode_name == step)
    elif isinstance(kind, inspect.VarTupleType) and step == "[":
        yield kind.item_type


def completed(body: bytes, usual: Mapping[str, Any]) -> bytes:
    """A task, or a batch of them, with the fields that it does not say. What is no task at all is
    left as it is: `decode` says what is wrong with it."""
    if not usual:
        return body
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body
    if not isinstance(said, dict):
        return body
    tasks = said.get("tasks")
    if isinstance(tasks, list):
        said["tasks"] = [{**usual, **task} if isinstance(task, dict) else task for task in tasks]
        return msgspec.json.encode(said)
    return msgspec.json.encode({**usual, **said})


def _check_headers(scope: Scope, most: int) -> None:
    kind, encoded, length = b"", b"", b""
    for name, value in scope["headers"]:
        if name == b"content-type":
            kind = value
        elif name == b"content-encoding":
            encoded = value
        elif name == b"content-length":
            length = value
    if kind.partition(b";")[0].strip().lower() != b"application/json" or encoded:
        raise Refused("not_json_type")
    if length.isdigit() and (len(length) > 18 or int(length) > most):
        raise _too_large(most)


def _too_large(most: int) -> Refused:
    return Refused("body_too_large", most=most)


def _first_bad_byte(body: bytes) -> int:
    """Counted over the whole body: msgspec counts within the one string."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0
