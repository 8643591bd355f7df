"""Asking for passwords: hidden on a terminal, else the next line of standard input; never argv."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from stoker.client import Refused

from .say import Refusal, refuse, warn, words

T = TypeVar("T")

TRIES = 3
"""Somebody who mistypes a new password is asked so often."""


def ask(key: str, **values: object) -> str:
    """What was typed, or came in; "" when there is nothing more to read."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    from getpass import getpass

    try:
        return getpass(words(key, **values), stream=sys.stderr)
    except EOFError:
        print(file=sys.stderr)
        return ""


def choose(change: Callable[[str], T]) -> T | None:
    """`change` to a new password; None when there is nothing more to read.

    On a terminal it is typed twice, and asked for again when it will not do.
    """
    for left in reversed(range(TRIES if sys.stdin.isatty() else 1)):
        new = ask("people.ask_new")
        if not new:
            break
        try:
            return change(_typed_twice(new))
        except Refusal as error:
            if not left:
                raise
            print(error.line, file=sys.stderr)
        except Refused as error:
            if not left or error.field != "new":
                raise
            warn("people.not_that", why=error.message)
    return None


def _typed_twice(new: str) -> str:
    if sys.stdin.isatty() and ask("people.ask_again") != new:
        refuse("people.not_the_same", "password")
    return new
