"""What the lab tells everybody, once per command: the announcement, and that scheduling is paused.

Every answer carries it, so nobody asks for it. It goes to standard error, and nowhere with `--json`:
scripts are not disturbed.
"""

from __future__ import annotations

import contextlib
import sys
from datetime import datetime
from typing import Any

import click
from typing_extensions import override

from stoker import client

from .say import words
from .screen import colour


class Client(client.Client):
    """A client of the command line: when it is done with, it says what it has heard."""

    says_pause = True
    """Not where the pause is told as the reason of a wait anyway."""

    @override
    def __exit__(self, *how: object) -> None:
        super().__exit__(*how)
        if how[0] is None and not _is_for_programs():
            tint = "yellow" if sys.stderr.isatty() else ""
            for line in heard(self, pause=self.says_pause):
                print(colour(line, tint), file=sys.stderr)


def heard(asked: client.Client, *, pause: bool = True) -> list[str]:
    """In words, if there is anything."""
    lines = []
    if asked.announcement:
        lines.append(words("heard.announcement", text=asked.announcement))
    if pause and asked.pause is not None:
        lines.append(_paused(asked.pause))
    return lines


def _paused(pause: dict[str, str]) -> str:
    from .shown import clock

    values: dict[str, Any] = {"by": pause.get("by", "?"), "since": pause.get("at", "?")}
    with contextlib.suppress(ValueError):
        values["since"] = clock(datetime.fromisoformat(values["since"]))
    if pause.get("why"):
        return words("heard.paused_why", why=pause["why"], **values)
    return words("heard.paused", **values)


def _is_for_programs() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.params.get("as_json"))
