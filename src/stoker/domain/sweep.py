"""Sweeps: an array whose elements are all combinations of some values.

Element k has the values that k says in mixed radix, the last name varying fastest. What is stored
is the spec as it was handed over; `render` makes of it what one element runs. Only `{name}` of a
swept name is replaced, in the command, the output paths, the values of variables and the name; all
other braces stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import prod

from msgspec import structs

from .indices import ArraySpec, read_array
from .shelltext import fill, fill_exact, is_shell_text
from .task import TaskSpec

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
VARIABLE = "STOKER_SWEEP_"
"""Followed by the name as it was written: the variable in which an element finds its value."""

Sweep = Mapping[str, tuple[str, ...]]


def is_array(spec: TaskSpec) -> bool:
    """Whether such a task has elements, whatever it is called by."""
    return bool(spec.array or spec.sweep)


def array_of(spec: TaskSpec) -> ArraySpec | None:
    """The elements of such a task; None when it has none. Not bounded: `checks` does that.

    With a sweep `array` only picks some of the combinations, or says how many at a time.
    """
    if spec.sweep:
        return _picked(size(spec.sweep), spec.array)
    return read_array(spec.array) if spec.array else None


def size(sweep: Sweep) -> int:
    """How many combinations there are."""
    return prod(map(len, sweep.values()))


def values(sweep: Sweep, index: int) -> dict[str, str]:
    """The combination of this number, in the order of the names."""
    found: dict[str, str] = {}
    for name in reversed(list(sweep)):
        index, digit = divmod(index, len(sweep[name]))
        found[name] = sweep[name][digit]
    return {name: found[name] for name in sweep}


def render(spec: TaskSpec, index: int) -> TaskSpec:
    """What this element runs. A task that is no sweep is what it is."""
    if not spec.sweep:
        return spec
    chosen = values(spec.sweep, index)
    filled = fill_in(spec, chosen)
    variables = {VARIABLE + name: value for name, value in chosen.items()}
    return structs.replace(filled, env=filled.env | variables, sweep={})


def fill_in(spec: TaskSpec, chosen: Mapping[str, str]) -> TaskSpec:
    """`spec` with these values in the place of their names."""
    return structs.replace(
        spec,
        command=command_with(spec, chosen),
        name=fill_exact(spec.name, chosen.get),
        stdout=fill_exact(spec.stdout, chosen.get),
        stderr=fill_exact(spec.stderr, chosen.get),
        env={name: fill_exact(value, chosen.get) for name, value in spec.env.items()},
    )


def command_with(spec: TaskSpec, chosen: Mapping[str, str]) -> str | tuple[str, ...]:
    """Its command with these values. A script for another interpreter reads the variables."""
    if not isinstance(spec.command, str):
        return tuple(fill_exact(word, chosen.get) for word in spec.command)
    return fill(spec.command, chosen) if is_shell_text(spec.command) else spec.command


def said(chosen: Mapping[str, str]) -> str:
    """As a person writes it: `lr=1e-3 seed=0`."""
    return " ".join(f"{name}={value}" for name, value in chosen.items())


def shape(sweep: Sweep) -> str:
    """Of what it is made: `lr x 2, seed x 5`."""
    return ", ".join(f"{name} x {len(each)}" for name, each in sweep.items())


@lru_cache(1024)
def _picked(all_of_them: int, array: str) -> ArraySpec | None:
    every = not array or array.startswith("%")
    return read_array(f"0-{all_of_them - 1}{array}" if every else array)
