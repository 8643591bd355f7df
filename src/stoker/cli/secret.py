"""Asking for passwords: hidden on a terminal, else the next line of standard input; never argv.

`Asking` is the client of commands for admins: when the server wants the password again, whoever
sits at the terminal is asked, and the request is repeated.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from email.message import Message as Headers

from typing_extensions import override

from stoker.client import Client, Refused

from .say import refuse, words


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


def ask_new() -> str:
    """A new password, typed twice on a terminal; "" when there is nothing more to read."""
    new = ask("people.ask_new")
    if sys.stdin.isatty() and new and ask("people.ask_again") != new:
        refuse("people.not_the_same", "password")
    return new


class Asking(Client):
    """A client whose person can be asked for the password."""

    @override
    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[bytes, Headers]:
        try:
            return super()._call(method, path, query, body, headers)
        except Refused as error:
            if error.code != "password_again" or not sys.stdin.isatty():
                raise
        self.confirm(ask("people.ask_once_more"))
        return super()._call(method, path, query, body, headers)
