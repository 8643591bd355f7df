"""Sweeps on the command line: how values are typed, and how an array's elements are shown.

`a,b,c` are three values. `0..4` and `0..10..5` are whole numbers, the last one included. A
backslash before a comma, a dot or a backslash takes its meaning away: `a\\,b` is one value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stoker.domain.indices import ArraySpec
from stoker.domain.sweep import array_of, fill_in, render, said, shape, size
from stoker.domain.task import TaskSpec

from .say import words
from .screen import clean, table
from .shown import command_text

MOST_IN_RANGE = 5000
FIRST = 3
"""Elements that a preview shows, and the last one."""

_ITEM = re.compile(r"(?:\\[\\.,]|[^,])*", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\.,])")
_WHOLE = r"(?:0|-?[1-9][0-9]{0,17})"
_IS_WHOLE = re.compile(_WHOLE, re.ASCII)
_RANGE = re.compile(rf"({_WHOLE})\.\.({_WHOLE})(?:\.\.({_WHOLE}))?", re.ASCII)
_LIKE_RANGE = re.compile(r"[-+]?\.?[0-9][-+.0-9eE_]*\.\.[-+.0-9eE_]*", re.ASCII)


class Unreadable(Exception):
    """What was typed is no list of values; the key of a sentence, and its values."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key, self.values = key, values


def read_values(text: str) -> tuple[str, ...]:
    """The values that were typed. Which of them are allowed is said by the server."""
    found: list[str] = []
    at = 0
    while at <= len(text):
        item = _ITEM.match(text, at)
        assert item is not None, "it matches nothing at all too"
        found += _range(item[0]) or [_ESCAPED.sub(r"\1", item[0])]
        at = item.end() + 1
    return tuple(found)


def write_values(values: tuple[str, ...]) -> str:
    """The same as one could type it; numbers that follow each other as a range."""
    texts: list[str] = []
    at = 0
    while at < len(values):
        run = _run(values, at)
        texts.append(f"{values[at]}..{values[at + run - 1]}" if run > 2 else _escaped(values[at]))
        at += run if run > 2 else 1
    return ",".join(texts)


def element_title(spec: TaskSpec, chosen: Mapping[str, str]) -> str:
    """The name of an element; without a name what is special about it comes first."""
    filled = fill_in(spec, chosen)
    if not spec.name:
        return f"{said(chosen)}: {command_text(filled)}"
    more = {name: value for name, value in chosen.items() if f"{{{name}}}" not in spec.name}
    return f"{filled.name} {said(more)}".rstrip()


def made_of(spec: TaskSpec, count: int) -> str:
    """How many elements, and of what."""
    if not spec.sweep:
        return words("made.array", size=count)
    every = size(spec.sweep)
    key = "made.sweep" if count == every else "made.picked"
    return words(key, size=count, all=every, shape=shape(spec.sweep))


def describe_elements(spec: TaskSpec) -> Iterator[str]:
    """The first elements of an array and the last one, as they would run; nothing for a task."""
    array = array_of(spec)
    if array is None:
        return
    count = len(array.indices)
    made = made_of(spec, count)
    if array.cap is not None:
        made = words("made.capped", made=made, cap=array.cap)
    yield words("preview.array", made=made)
    first = [_row(spec, array, number) for number in range(min(FIRST, count))]
    last = [_row(spec, array, count - 1)] if count > FIRST else []
    lines = table([*first, *last], indent="  ")
    yield from lines[: len(first)]
    if count > FIRST + 1:
        yield "  " + words("preview.left", count=count - FIRST - 1)
    yield from lines[len(first) :]


def _row(spec: TaskSpec, array: ArraySpec, number: int) -> list[str]:
    index = array.indices.nth(number)
    command = clean(command_text(render(spec, index)))
    variable = "" if spec.sweep else f"STOKER_ARRAY_INDEX={index} "
    return [f"_{index}", variable + command]


def _range(text: str) -> list[str] | None:
    """The numbers of a range; None when it is none."""
    found = _RANGE.fullmatch(text)
    if found is None:
        if _LIKE_RANGE.fullmatch(text):
            raise Unreadable("sweep.not_whole", value=text)
        return None
    first, last, step = int(found[1]), int(found[2]), int(found[3] or 1)
    if step == 0 or (last - first) * step < 0:
        raise Unreadable("sweep.no_range", value=text)
    numbers = range(first, last + (1 if step > 0 else -1), step)
    if len(numbers) > MOST_IN_RANGE:
        raise Unreadable("sweep.too_many", value=text, most=MOST_IN_RANGE)
    return [str(number) for number in numbers]


def _run(values: tuple[str, ...], at: int) -> int:
    """How many values from here on are whole numbers that follow each other, within a range."""
    if _IS_WHOLE.fullmatch(values[at]) is None:
        return 1
    first, length = int(values[at]), 1
    most = min(len(values) - at, MOST_IN_RANGE)
    while length < most and values[at + length] == str(first + length):
        length += 1
    return length


def _escaped(value: str) -> str:
    plain = value.replace("\\", "\\\\").replace(",", "\\,")
    return plain.replace("..", "\\..") if _LIKE_RANGE.fullmatch(value) else plain
