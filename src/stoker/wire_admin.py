"""What travels over HTTP about the lab itself: settings, pause, announcement, audit trail, log.

The rules of wire.py hold here too: requests are closed, answers are open.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from stoker.domain.rules import MOST_LINE


class SettingWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A setting's new value; its own type and bounds are said by `SettingView`."""

    value: bool | int | Annotated[str, Meta(max_length=1000)]


class SettingView(Struct, frozen=True, kw_only=True):
    """A setting that changes live."""

    name: str
    value: bool | int | str | None
    """In force now. A secret is shown as `***`."""
    default: bool | int | str | None
    """What it is once nobody has changed it: as config.toml says, or as Stoker comes."""
    source: Literal["default", "file", "changed"]
    """Where the value comes from: as Stoker comes, config.toml (or environment, option), changed live."""
    kind: Literal["choice", "whole", "yes_no", "text"]
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    about: str = ""
    """What it means, in the reader's language."""


class AnnouncementWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(min_length=1, max_length=MOST_LINE)]
    """One line, without control characters."""


class AnnouncementView(Struct, frozen=True, kw_only=True):
    """What everybody is shown; all null when there is nothing."""

    text: str | None = None
    by: str | None = None
    at: datetime | None = None


class PauseWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    why: Annotated[str, Meta(max_length=MOST_LINE)] = ""
    """Shown to everybody whose task waits. One line."""


class PauseView(Struct, frozen=True, kw_only=True):
    """Whether nothing new starts. What runs goes on either way."""

    paused: bool
    by: str | None = None
    at: datetime | None = None
    """Since when."""
    why: str = ""


class ActView(Struct, frozen=True, kw_only=True):
    """Something that somebody did, as the audit trail keeps it."""

    seq: int
    at: datetime
    who: str
    act: str
    on: str
    """What it was done to."""
    origin: str
    """The address it came from."""
    outcome: str
    """`done`, or the code of the refusal."""
    values: dict[str, Any] = field(default_factory=dict)
    hash: str = ""
    """Made of the hash before it and of all that the act says."""


class ActPage(Struct, frozen=True, kw_only=True):
    acts: tuple[ActView, ...]
    """The newest first."""
    next: int | None
    """Give it as `before` for older ones; null at the end."""


class ChainView(Struct, frozen=True, kw_only=True):
    """What a look at the whole audit trail found."""

    count: int
    """Acts that follow one from another."""
    head: str
    """The hash of the last of them: note it elsewhere, and ask about it later."""
    broken: int | None
    """The first act that does not follow from the one before; null when all do."""
    noted: int | None
    """The act that has the hash that was asked about; null when none has."""


class NewsLine(Struct, frozen=True, kw_only=True):
    """A line of the server's log that everybody may read."""

    at: datetime
    code: str
    message: str
    """The same as a sentence."""
    values: dict[str, Any] = field(default_factory=dict)


class NewsPage(Struct, frozen=True, kw_only=True):
    lines: tuple[NewsLine, ...]
    """Oldest first."""
    next: str
    """Give it as `after` to the stream for what follows."""


class JournalLine(Struct, frozen=True, kw_only=True):
    text: str


class JournalPage(Struct, frozen=True, kw_only=True):
    lines: tuple[JournalLine, ...]
    """Oldest first, as the server wrote them; only since it started."""
    next: str
    """Give it as `after` to the stream for what follows."""
