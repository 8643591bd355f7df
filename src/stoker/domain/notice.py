"""What somebody wants to be told of his tasks, and over what.

A wish is a kind (`failed`), or a kind and the one channel that it goes to (`failed:feishu`). A
person's wishes count for all of his tasks; a task that says its own is told of by these alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from msgspec import Struct

from .errors import InvalidSpec

NoticeKind = Literal["started", "finished", "failed", "waiting", "limit"]
NOTICE_KINDS: tuple[NoticeKind, ...] = ("started", "finished", "failed", "waiting", "limit")
"""It began; it ended, however; it ended badly; it waits for long; its time limit is near."""
ALL, NONE = "all", "none"
USUAL: tuple[str, ...] = ("finished", "waiting", "limit")
"""Wishes of whoever sets up a first channel and has said nothing."""
MAIL = "mail"
"""The channel that everybody has who has an e-mail address."""
MOST_WISHES = 32

_CHANNEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?"
)


class Channel(Struct, frozen=True, kw_only=True):
    """A way to one person, kept as `person/channel`. Its URL is a secret and kept apart."""

    service: str
    """Of apprise: feishu, dingtalk, wecombot, jsons, ..."""
    host: str
    set_at: datetime


class MailServer(Struct, frozen=True, kw_only=True):
    """Who delivers the lab's mail. The password is kept apart."""

    host: str
    port: int
    tls: Literal["starttls", "tls", "none"]
    user: str
    sender: str


class Wish(NamedTuple):
    kind: str
    channel: str
    """ "" = all."""


def parse_wish(text: str) -> Wish | None:
    """None: it is none."""
    kind, colon, channel = text.partition(":")
    if kind not in NOTICE_KINDS and kind not in (ALL, NONE):
        return None
    if colon and (kind == NONE or not is_channel(channel)):
        return None
    return Wish(kind, channel)


def check_wishes(wishes: Sequence[str], field: str = "notify") -> None:
    """Refuse what is no wish. InvalidSpec names the one that is meant."""
    if len(wishes) > MOST_WISHES:
        raise InvalidSpec("too_many", field=field, most=MOST_WISHES)
    for number, text in enumerate(wishes):
        if parse_wish(text) is None:
            raise InvalidSpec("bad_wish", field=f"{field}[{number}]", value=text[:100])
    if NONE in wishes and len(wishes) > 1:
        raise InvalidSpec("none_and_more", field=field)


def told_over(
    wishes: Iterable[str], kinds: Collection[str], channels: Collection[str]
) -> tuple[str, ...]:
    """The channels over which something of these kinds is told, each once. One that is named and
    not there is among them: that it is missing is to be seen."""
    found: dict[str, None] = {}
    for text in wishes:
        wish = parse_wish(text)
        if wish is None or (wish.kind not in kinds and wish.kind != ALL):
            continue
        found.update(dict.fromkeys((wish.channel,) if wish.channel else channels))
    return tuple(found)


def is_channel(name: str) -> bool:
    """Whether a channel may be called so."""
    return _CHANNEL.fullmatch(name) is not None


def is_address(text: str) -> bool:
    """Whether it is one plain e-mail address: no name, no list, nothing that ends a header."""
    return _ADDRESS.fullmatch(text) is not None and ".." not in text.partition("@")[2]
