"""One line that everybody is shown until it is cleared."""

from __future__ import annotations

from datetime import datetime

from stoker.domain.errors import InvalidSpec
from stoker.domain.rules import Announcement, one_line
from stoker.store.base import Act

from .book import ONLY, Book, Put, Remove

KIND = "announcement"


async def announce(book: Book, text: str, *, at: datetime, who: str, origin: str) -> None:
    """Show this to everybody, in the place of what is shown now."""
    line = one_line(text, field="text")
    if not line:
        raise InvalidSpec("too_short", field="text", least=1)
    act = Act(at=at, who=who, act="announcement.set", origin=origin, values={"text": line})
    await book.amend([Put(KIND, ONLY, Announcement(text=line, by=who, at=at))], [act])


async def clear(book: Book, *, at: datetime, who: str, origin: str) -> None:
    """Show nothing any more. May be repeated."""
    if book.announcement is None:
        return
    values = {"text": book.announcement.text}
    act = Act(at=at, who=who, act="announcement.clear", origin=origin, values=values)
    await book.amend([Remove(KIND, ONLY)], [act])
