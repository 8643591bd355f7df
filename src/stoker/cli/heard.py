"""What the lab tells everybody, in words: the announcement, and that scheduling is paused.

Every answer of the server carries it, so nobody asks for it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .say import words
from .screen import colour
from .shown import clock


def tell_heard(announcement: str, pause: Mapping[str, str] | None) -> None:
    """On standard error, for whoever has run a command."""
    tint = "yellow" if sys.stderr.isatty() else ""
    for line in heard(announcement, pause):
        print(colour(line, tint), file=sys.stderr)


def heard(announcement: str, pause: Mapping[str, str] | None) -> list[str]:
    """In words, if there is anything."""
    lines = []
    if announcement:
        lines.append(words("heard.announcement", text=announcement))
    if pause is not None:
        lines.append(_paused(pause))
    return lines


def _paused(pause: Mapping[str, str]) -> str:
    values: dict[str, Any] = {"by": pause.get("by", "?"), "since": pause.get("at", "?")}
    with contextlib.suppress(ValueError):
        values["since"] = clock(datetime.fromisoformat(values["since"]))
    if pause.get("why"):
        return words("heard.paused_why", why=pause["why"], **values)
    return words("heard.paused", **values)
