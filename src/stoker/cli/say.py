"""How a command talks: in the terminal's language, plainly, one line for what went wrong.

What comes from a task, a node or a person (names, commands, reasons) may hold anything; it passes
`screen.clean` before it reaches a terminal. Errors are one line on stderr.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from stoker.text import hint, locale_language, message, phrase

from .screen import clean


class Refusal(Exception):
    """A command cannot be carried out: one line, exit code 2."""

    def __init__(self, line: str, field: str = "") -> None:
        self.line, self.field = line, field
        super().__init__(line, field)


def language() -> str:
    """By the environment, each time: nothing is read at import."""
    return locale_language(os.environ)


def words(key: str, **values: object) -> str:
    """A sentence of the command line; values are made harmless."""
    safe = {k: clean(v) if isinstance(v, str) else v for k, v in values.items()}
    return phrase(key, language(), **safe)


def tell(key: str, **values: object) -> None:
    """Say it on standard output."""
    print(words(key, **values))


def warn(key: str, **values: object) -> None:
    """Say it on standard error."""
    print(words(key, **values), file=sys.stderr)


def refuse(key: str, field: str = "", **values: object) -> NoReturn:
    """End the command with one line that names the field."""
    raise Refusal(words(key, **values), field)


def refuse_code(code: str, field: str = "", **values: object) -> NoReturn:
    """The same with a code that the server uses too."""
    said = message(code, values, language())
    advice = hint(code, values, language())
    raise Refusal(clean(f"{said} {advice}" if advice else said), field)
