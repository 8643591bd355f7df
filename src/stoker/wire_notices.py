"""What travels over HTTP about notices. Requests are closed, answers are open. No answer has a URL
or a password in it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct


class ChannelWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(max_length=2000)]
    """The robot's webhook address as its service shows it, any http(s) address, or a URL of apprise;
    for `mail` an e-mail address. Never shown again."""


class ChannelView(Struct, frozen=True, kw_only=True):
    name: str
    service: str
    host: str
    """All that is ever shown of its URL; of `mail`: the address."""
    problem: str | None = None
    """Why nothing can be sent over it at the moment."""


class Wishes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    notify: tuple[str, ...]
    """`failed`, or `failed:feishu` over that channel only; () = nothing."""


class WishesView(Struct, frozen=True, kw_only=True):
    notify: tuple[str, ...]


class NoticeView(Struct, frozen=True, kw_only=True):
    """One notice over one channel."""

    at: datetime
    kind: str
    task: str
    """"" for one that is about no single task."""
    channel: str
    subject: str
    state: str
    """waiting, sent or failed."""
    tries: int
    why: str | None
    """Why it failed, or is tried again."""


class MailWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lab's mail server."""

    host: Annotated[str, Meta(min_length=1, max_length=253)]
    sender: Annotated[str, Meta(max_length=320)]
    """The address that mail comes from."""
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    """None: the usual one for `tls`."""
    tls: Literal["starttls", "tls", "none"] = "starttls"
    user: Annotated[str, Meta(max_length=320)] = ""
    password: Annotated[str, Meta(max_length=1000)] | None = None
    """None: as it is. Never shown again."""


class MailView(Struct, frozen=True, kw_only=True):
    host: str
    port: int
    tls: str
    user: str
    sender: str
    has_password: bool
    problem: str | None = None


class MailState(Struct, frozen=True, kw_only=True):
    """There is one mail server, or none."""

    server: MailView | None = None
