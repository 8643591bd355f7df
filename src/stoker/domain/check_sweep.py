"""What is refused of a sweep: part of `checks`.

A value never arrives as something else, and a name that nothing depends on is a spelling mistake:
it would run many equal trainings.
"""

from __future__ import annotations

from collections.abc import Iterator

from .errors import InvalidSpec
from .indices import MOST_ELEMENTS, ArraySpec
from .shelltext import PLACE, hard, is_plain, is_shell_text
from .sweep import NAME, VARIABLE, fill_in, size
from .task import TaskSpec

MOST_NAME = 64
MOST_VALUES = 5000
MOST_BYTES = 65_536
"""Every element's answer carries the whole sweep."""


def check_sweep(spec: TaskSpec) -> TaskSpec:
    """Refuse what cannot be run as asked; the longest that an element may become."""
    for name, values in spec.sweep.items():
        _check_name(name)
        _check_values(name, values)
    texts = [text for each in spec.sweep.values() for text in each]
    if len(texts) > MOST_VALUES:
        raise InvalidSpec("sweep_too_many", field="sweep", most=MOST_VALUES)
    if sum(len(text.encode()) for text in texts) > MOST_BYTES:
        raise InvalidSpec("sweep_too_long", field="sweep", most=MOST_BYTES)
    if size(spec.sweep) > MOST_ELEMENTS:
        raise InvalidSpec(
            "sweep_too_large", field="sweep", size=size(spec.sweep), most=MOST_ELEMENTS
        )
    _check_used(spec)
    _check_shell(spec)
    _check_paths(spec)
    return fill_in(spec, {name: max(each, key=_weight) for name, each in spec.sweep.items()})


def check_picked(spec: TaskSpec, array: ArraySpec) -> None:
    """Refuse an index that no combination has."""
    highest = array.indices.ranges[-1][1]
    if highest >= size(spec.sweep):
        raise InvalidSpec("sweep_no_index", field="array", index=highest, last=size(spec.sweep) - 1)


def _check_name(name: str) -> None:
    if len(name) > MOST_NAME or NAME.fullmatch(name) is None:
        raise InvalidSpec("sweep_bad_name", field="sweep", name=name[:MOST_NAME])


def _check_values(name: str, values: tuple[str, ...]) -> None:
    field = f"sweep.{name}"
    if not values or not all(values):
        raise InvalidSpec("sweep_empty", field=field)
    for text in values:
        if any(ord(character) < 32 or ord(character) == 127 for character in text):
            raise InvalidSpec("sweep_control", field=field)


def _check_used(spec: TaskSpec) -> None:
    used = set(_used(spec))
    for name in spec.sweep:
        if name not in used:
            raise InvalidSpec("sweep_unused", field=f"sweep.{name}", name=name)
    for name in spec.sweep:
        if f"{{{name}}}" in spec.workdir:
            raise InvalidSpec("sweep_not_here", field="workdir", name=name)


def _used(spec: TaskSpec) -> Iterator[str]:
    """Names on which it depends what is run."""
    texts = list(spec.env.values())
    if not isinstance(spec.command, str):
        texts += spec.command
    elif is_shell_text(spec.command):
        texts.append(spec.command)
    for text in texts:
        yield from (found["name"] for found in PLACE.finditer(text))
    words = (spec.command,) if isinstance(spec.command, str) else spec.command
    yield from (name for name in spec.sweep if any(VARIABLE + name in word for word in words))


def _check_shell(spec: TaskSpec) -> None:
    if not isinstance(spec.command, str) or not is_shell_text(spec.command):
        return
    for name in sorted(hard(spec.command) & spec.sweep.keys()):
        for value in spec.sweep[name]:
            if not is_plain(value):
                raise InvalidSpec("sweep_not_plain", field="command", name=name, value=value)


def _check_paths(spec: TaskSpec) -> None:
    """A path stays a path."""
    for field, path in (("stdout", spec.stdout), ("stderr", spec.stderr)):
        found = PLACE.fullmatch(path)
        for value in spec.sweep.get(found["name"], ()) if found is not None else ():
            if value in ("merge", "discard", "+"):
                raise InvalidSpec("bad_path", field=field, value=value)


def _weight(value: str) -> int:
    """How long it is at most, quotes included."""
    return len(value.encode()) + 4 * value.count("'")
