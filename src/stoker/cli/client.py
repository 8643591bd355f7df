"""The client of the commands: what a person at a terminal has to hear or to give comes by itself.

Whatever a command asks the server, it ends with what the lab tells everybody (heard.py): the
announcement, and that scheduling is paused. It goes to standard error, and nowhere with `--json`:
scripts are not disturbed. When the server wants the password again, whoever sits at the terminal is
asked, and the request is repeated; elsewhere the refusal stands.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from typing_extensions import override

from stoker import client

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message as Headers


class Client(client.Client):
    """A client of a command; its person is told, and can be asked."""

    says_announcement = True
    """Not where the command itself is about it."""
    says_pause = True
    """Not where the command says it: as the reason of a wait, for example."""

    @override
    def __exit__(self, *how: object) -> None:
        super().__exit__(*how)
        announcement = self.announcement if self.says_announcement else ""
        pause = self.pause if self.says_pause else None
        if (announcement or pause) and how[0] is None and not _is_for_programs():
            from .heard import tell_heard

            tell_heard(announcement, pause)

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
        except client.Refused as error:
            if error.code != "password_again" or not sys.stdin.isatty():
                raise
        from .secret import ask

        self.confirm(ask("people.ask_once_more"))
        return super()._call(method, path, query, body, headers)


def _is_for_programs() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.params.get("as_json"))
