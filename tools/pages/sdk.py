"""The Python SDK, from the signatures and docstrings of the client. Sections are those of its source."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any, get_overloads, get_type_hints

import stoker
from stoker import wire, wire_admin, wire_notices, wire_queues
from stoker.client import Client, LogPart, Refused, ServerUnreachable, StreamReset
from stoker.client.connection import Connection

from .markdown import table

Method = Callable[..., Any]


def page() -> str:
    names = ", ".join(f"`stoker.{name}`" for name in stoker.__all__ if not name.startswith("_"))
    parts = [
        "# Python SDK",
        "",
        f"Synchronous and typed (the package has a `py.typed` mark). How to use it: [python.md](../howto/python.md). "
        f"From `stoker` itself: {names}; what the methods answer with is in `stoker.wire` and "
        "its neighbours.",
        "",
        "## stoker.Client",
        "",
        *_signature("Client", Connection.__init__),
        *_about(Client),
    ]
    for section, methods in sections():
        rows = [(f"[`{m.__name__}`](#client{m.__name__.lower()})", _first(m)) for m in methods]
        parts += [f"### {section.capitalize()}", "", *table(("method", "does"), rows), ""]
    parts += ["## Methods", ""]
    for _, methods in sections():
        for method in methods:
            parts += [f"### Client.{method.__name__}", "", *_method(method)]
    parts += ["## Errors", ""]
    for error in (Refused, ServerUnreachable):
        parts += [f"### stoker.{error.__name__}", "", *_signature(error.__name__, error.__init__)]
        parts += _about(error)
    parts += ["## Values", ""]
    for kind in (LogPart, StreamReset):
        parts += [f"### stoker.{kind.__name__}", "", *_about(kind), *_fields(kind)]
    return "\n".join([*parts, *_answers()])


def sections() -> Iterator[tuple[str, list[Method]]]:
    """The client's public methods and properties under the headings of its source."""
    first = [member for name, member in vars(Connection).items() if _is_public(name, member)]
    yield "the connection", [_function(member) for member in first]
    for kind in Client.__mro__:  # itself, and the parts that it is put together from
        if issubclass(kind, Connection) and kind is not Connection:
            yield from _sections_of(kind)


def _sections_of(kind: type) -> Iterator[tuple[str, list[Method]]]:
    heading, found = "", list[Method]()
    for line in inspect.getsource(kind).splitlines():
        if mark := re.fullmatch(r"    # -+ (.*)", line):
            if found:
                yield heading, found
            heading, found = mark[1], []
        elif (named := re.match(r"    def ([a-z]\w*)\(", line)) and (
            (method := vars(kind)[named[1]]) not in found
        ):
            found.append(method)
    yield heading, found
    for part in Client.__mro__[1 : Client.__mro__.index(Connection)]:
        members = [member for name, member in vars(part).items() if _is_public(name, member)]
        yield f"the {part.__name__.lower()}", [_function(member) for member in members]


def _is_public(name: str, member: object) -> bool:
    return not name.startswith("_") and isinstance(member, FunctionType | property)


def _function(member: Any) -> Method:
    found: Method = getattr(member, "fget", member)
    return found


def _method(method: Method) -> list[str]:
    kinds = get_overloads(method) or [method]
    lines = [line for kind in kinds for line in _lines(method.__name__, kind)]
    if isinstance(inspect.getattr_static(Client, method.__name__), property):
        lines = [f"{method.__name__}: {inspect.signature(method).return_annotation}"]
    return ["```python", *lines, "```", "", *_about(method), *_returns(kinds)]


def _signature(name: str, function: Method) -> list[str]:
    return ["```python", *_lines(name, function), "```", ""]


def _lines(name: str, function: Method) -> list[str]:
    """On one line, or one parameter a line when that would be long."""
    found = inspect.signature(function)
    given = [_parameter(p) for p in found.parameters.values() if p.name != "self"]
    if any(p.kind is p.KEYWORD_ONLY for p in found.parameters.values()):
        first = next(n for n, p in enumerate(found.parameters.values()) if p.kind is p.KEYWORD_ONLY)
        given.insert(first - 1, "*")
    answer = found.return_annotation
    ending = "" if answer in ("None", found.empty) and name[0].isupper() else f" -> {answer}"
    line = f"{name}({', '.join(given)}){ending}"
    if len(line) <= 100:
        return [line]
    return [f"{name}(", *(f"    {one}," for one in given), f"){ending}"]


def _parameter(given: inspect.Parameter) -> str:
    default = "" if given.default is given.empty else f" = {given.default!r}"
    return f"{given.name}: {given.annotation}{default}"


def _about(thing: Any) -> list[str]:
    text = inspect.getdoc(thing)
    if not text:
        raise SystemExit(f"{thing.__qualname__} has no docstring")
    # `name: what it is` begins a line of its own in a docstring, and a new one on the page
    return [re.sub(r"(?<!\n)\n(?=[a-z_, ]+: )", "  \n", text), ""]


def _first(method: Method) -> str:
    text = " ".join(_about(method)[0].split("\n\n", maxsplit=1)[0].split())
    return re.split(r"(?<=[.;:]) ", text, maxsplit=1)[0].rstrip(".;:") + "."


def _returns(kinds: Sequence[Method]) -> list[str]:
    named = [
        name
        for kind in kinds
        for name in re.findall(r"(wire\w*\.\w+)", str(inspect.signature(kind).return_annotation))
    ]
    linked = [
        f"[`{name}`](api.md#{name.partition('.')[2].lower()})" for name in dict.fromkeys(named)
    ]
    return [f"Answer: {', '.join(linked)}.", ""] if linked else []


def _fields(kind: Any) -> list[str]:
    hints = get_type_hints(kind)
    shown = [f"`{name}: {hint.__name__}`" for name, hint in hints.items()]
    shown += [
        f"`{name}`: {_about(member.fget)[0]}"
        for name, member in vars(kind).items()
        if isinstance(member, property)
    ]
    return [f"- {line}" for line in shown] + [""]


def _answers() -> list[str]:
    """The structs that methods answer with, and those inside them."""
    return [
        "### stoker.wire",
        "",
        "Frozen structs with the fields of the API's answers; a newer server may send more, which are "
        f"left out: {_listed(wire)}. `TaskView.spec` is a `TaskSpec`: [task.md](task.md). About the lab "
        f"itself, in `stoker.wire_admin`: {_listed(wire_admin)}; about notices, in `stoker.wire_notices`: "
        f"{_listed(wire_notices)}; about queues and teams, in `stoker.wire_queues`: {_listed(wire_queues)}.",
        "",
    ]


def _listed(module: ModuleType) -> str:
    known = {name for name, kind in vars(module).items() if _is_answer(kind, module)}
    return ", ".join(f"[`{name}`](api.md#{name.lower()})" for name in sorted(known))


def _is_answer(kind: object, module: ModuleType) -> bool:
    """Of this module, and not the body of a request."""
    return (
        isinstance(kind, type)
        and kind.__module__ == module.__name__
        and not kind.__struct_config__.forbid_unknown_fields  # type: ignore[attr-defined]
        and kind is not wire.LogPiece  # inside a stream that `follow_log` reads
    )
