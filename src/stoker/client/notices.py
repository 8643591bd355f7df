"""How you are told: channels, wishes, what was sent lately; for admins the lab's mail server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec

from .connection import Connection

if TYPE_CHECKING:
    from stoker import wire_notices

T = TypeVar("T")


class Notices(Connection):
    """The part of the client that is about notices."""

    # ---- notices

    def channels(self) -> list[wire_notices.ChannelView]:
        """Ways over which you can be told."""
        from stoker.wire_notices import ChannelView  # noqa: PLC0415 - rarely needed

        return self._get("/me/channels", list[ChannelView])

    def set_channel(self, channel: str, url: str) -> wire_notices.ChannelView:
        """Set one up, or give it another URL; `mail` with your address. It is never shown again."""
        from stoker.wire_notices import ChannelView, ChannelWish  # noqa: PLC0415

        return self._put_plainly(_path(channel), ChannelWish(url=url), ChannelView)

    def remove_channel(self, channel: str) -> list[wire_notices.ChannelView]:
        """You are told over it no longer; those that are left."""
        from stoker.wire_notices import ChannelView  # noqa: PLC0415

        return self._delete(_path(channel), list[ChannelView], {})

    def test_channel(self, channel: str) -> wire_notices.NoticeView:
        """Send a test over it now; `state` is `sent` or `failed`, with `why`."""
        from stoker.wire_notices import NoticeView  # noqa: PLC0415

        return self._post(f"{_path(channel)}/test", None, NoticeView)

    def notices(self) -> list[wire_notices.NoticeView]:
        """What you were told lately, the newest first."""
        from stoker.wire_notices import NoticeView  # noqa: PLC0415

        return self._get("/me/notices", list[NoticeView])

    def wishes(self) -> tuple[str, ...]:
        """What you are told of tasks that do not say it themselves."""
        from stoker.wire_notices import WishesView  # noqa: PLC0415

        return self._get("/me/notify", WishesView).notify

    def set_wishes(self, notify: Sequence[str]) -> tuple[str, ...]:
        """Change that: `["failed", "limit:feishu"]`."""
        from stoker.wire_notices import Wishes, WishesView  # noqa: PLC0415

        return self._put_plainly("/me/notify", Wishes(notify=tuple(notify)), WishesView).notify

    def mail_server(self) -> wire_notices.MailView | None:
        """Who delivers the lab's mail. For admins."""
        from stoker.wire_notices import MailState  # noqa: PLC0415

        return self._get("/mail", MailState).server

    def set_mail_server(self, server: wire_notices.MailWish) -> wire_notices.MailView | None:
        """Let this one deliver it. For admins."""
        from stoker.wire_notices import MailState  # noqa: PLC0415

        return self._put_plainly("/mail", server, MailState).server

    def remove_mail_server(self) -> None:
        """Nobody is told by mail any more. For admins."""
        from stoker.wire_notices import MailState  # noqa: PLC0415

        self._delete("/mail", MailState, {})

    def _put_plainly(self, path: str, body: object, kind: type[T]) -> T:
        """A PUT that no version is asked for."""
        return self._decoded(self._call("PUT", path, {}, msgspec.json.encode(body))[0], kind)


def _path(channel: str) -> str:
    return f"/me/channels/{quote(channel, safe='')}"
