"""A script file as a task: its text is the command, its `#STOKER` lines are options.

    #!/bin/bash
    #STOKER --gpus 2 --time-limit 2h
    python train.py

The lines are arguments of `submit` itself, put before those typed: what was typed wins, and what
may be repeated adds up. The text is never changed, except that simple arguments after a shell
script become `set -- ...`, right behind its first line.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import NamedTuple

from .say import refuse, refuse_code

MOST_BYTES = 4 << 20
"""More than this is no script; the server's own limit is lower and says so."""

_MARK = re.compile(r"#STOKER(?=[ \t])")
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_SIMPLE = re.compile(r"[A-Za-z0-9_./:=,@%+-]+", re.ASCII)


class Script(NamedTuple):
    name: str
    text: str
    options: list[str]


def find_script(words: tuple[str, ...]) -> Script | None:
    """The script that `words` begin with, or None when they are a command of their own."""
    path = words[0]
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        refuse("script.unreadable", "command", path=path, why=error.strerror or "")
    has_lines = raw.startswith(b"#STOKER") or b"\n#STOKER" in raw
    if raw.startswith(b"\x7fELF") or (_is_executable(path) and not has_lines):
        return None
    text = _decoded(path, raw)
    name = os.path.basename(path)
    if not text.startswith("#!") and name.endswith(".py"):
        refuse("script.python", "command", path=path)
    return Script(name, _with_arguments(text, words[1:]), script_options(text))


def script_options(text: str) -> list[str]:
    """The arguments on the `#STOKER` lines of `text`."""
    found: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        mark = _MARK.match(line)
        if mark is None:
            continue
        try:
            found.extend(shlex.split(line[mark.end() :], comments=True))
        except ValueError:
            refuse("script.bad_quotes", "command", line=number)
    return found


def _is_executable(path: str) -> bool:
    """Windows has no such bit and says yes to everything."""
    return os.name != "nt" and os.access(path, os.X_OK)


def _decoded(path: str, raw: bytes) -> str:
    if len(raw) > MOST_BYTES:
        refuse_code("argument_too_long", "command", most=MOST_BYTES)
    if b"\0" in raw:
        refuse_code("nul", "command")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        refuse("script.not_utf8", "command", path=path, offset=error.start)


def _with_arguments(text: str, arguments: tuple[str, ...]) -> str:
    if not arguments:
        return text
    first, newline, rest = text.partition("\n")
    interpreter = os.path.basename(first[2:].split()[-1]) if first[2:].split() else ""
    is_shell = not first.startswith("#!") or interpreter in _SHELLS
    if not is_shell or not all(_SIMPLE.fullmatch(argument) for argument in arguments):
        refuse("script.arguments", "command")
    line = "set -- " + " ".join(arguments)
    if first.startswith("#!"):
        return f"{first}\n{line}\n{rest}"
    return f"{line}\n{first}{newline}{rest}"
