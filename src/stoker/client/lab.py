"""What a client asks about the lab itself: settings, pause, announcement, audit trail, log.

The types of answers are imported when one is asked for: most commands never do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from .connection import Connection

if TYPE_CHECKING:
    from stoker import wire_admin

AUDIT_PAGE = 200


class Lab(Connection):
    """Most of this is for admins."""

    def settings(self) -> list[wire_admin.SettingView]:
        """The settings that change live, each with its value and where that comes from."""
        from stoker import wire_admin  # noqa: PLC0415 - few ask

        return self._get("/settings", list[wire_admin.SettingView])

    def set_setting(self, name: str, value: bool | int | str) -> wire_admin.SettingView:
        """It takes effect at once, and is kept over restarts."""
        from stoker import wire_admin  # noqa: PLC0415

        wish = wire_admin.SettingWish(value=value)
        return self._put(_setting(name), wish, wire_admin.SettingView)

    def unset_setting(self, name: str) -> wire_admin.SettingView:
        """Back to what config.toml says, or to what Stoker comes with."""
        from stoker import wire_admin  # noqa: PLC0415

        return self._delete(_setting(name), wire_admin.SettingView)

    def pause_scheduling(self, why: str = "") -> wire_admin.PauseView:
        """Nothing new starts; what runs goes on."""
        from stoker import wire_admin  # noqa: PLC0415

        return self._put("/pause", wire_admin.PauseWish(why=why), wire_admin.PauseView)

    def resume_scheduling(self) -> wire_admin.PauseView:
        """Tasks start again."""
        from stoker import wire_admin  # noqa: PLC0415

        return self._delete("/pause", wire_admin.PauseView)

    def announce(self, text: str) -> wire_admin.AnnouncementView:
        """Show this line to everybody."""
        from stoker import wire_admin  # noqa: PLC0415

        wish = wire_admin.AnnouncementWish(text=text)
        return self._put("/announcement", wish, wire_admin.AnnouncementView)

    def clear_announcement(self) -> wire_admin.AnnouncementView:
        """Show nothing any more."""
        from stoker import wire_admin  # noqa: PLC0415

        return self._delete("/announcement", wire_admin.AnnouncementView)

    def announced(self) -> wire_admin.AnnouncementView:
        """What everybody is shown; its text is None when there is nothing."""
        from stoker import wire_admin  # noqa: PLC0415

        return self._get("/announcement", wire_admin.AnnouncementView)

    def audit(
        self, *, who: str | None = None, act: str | None = None, page: int = AUDIT_PAGE
    ) -> Iterator[wire_admin.ActView]:
        """Who did what, the newest first, asked for page by page as you go on.

        act: one act, such as `settings.set`, or a family, such as `settings`.
        """
        from stoker import wire_admin  # noqa: PLC0415

        query: dict[str, object] = {"who": who, "act": act, "limit": page}
        while True:
            found = self._get("/audit", wire_admin.ActPage, query)
            yield from found.acts
            if found.next is None:
                return
            query["before"] = found.next

    def verify_audit(self, head: str | None = None) -> wire_admin.ChainView:
        """Whether the audit trail is as it was written, and whether a hash that was noted is
        still in it."""
        from stoker import wire_admin  # noqa: PLC0415

        return self._get("/audit/verify", wire_admin.ChainView, {"head": head})

    def export_audit(self) -> Iterator[bytes]:
        """The whole audit trail as JSON lines, piece by piece; cut short it raises
        ServerUnreachable (`cut`)."""
        return self._download("/audit/export", {})

    def server_log(self, limit: int | None = None) -> wire_admin.NewsPage:
        """What happened lately, oldest first."""
        from stoker import wire_admin  # noqa: PLC0415

        return self._get("/server-log", wire_admin.NewsPage, {"limit": limit})

    def follow_server_log(self, after: str | None = None) -> Iterator[wire_admin.NewsLine]:
        """What happens, for ever; from behind `next` of a page, or from now on."""
        from stoker import wire_admin  # noqa: PLC0415

        for message in self._listen("/server-log/stream", {"after": after}, None):
            yield self._decoded(message.data.encode(), wire_admin.NewsLine)

    def full_server_log(self, limit: int | None = None) -> wire_admin.JournalPage:
        """The newest lines of the server's own log."""
        from stoker import wire_admin  # noqa: PLC0415

        return self._get("/server-log/full", wire_admin.JournalPage, {"limit": limit})

    def follow_full_server_log(self, after: str | None = None) -> Iterator[wire_admin.JournalLine]:
        """The same as it is written, for ever."""
        from stoker import wire_admin  # noqa: PLC0415

        for message in self._listen("/server-log/full/stream", {"after": after}, None):
            yield self._decoded(message.data.encode(), wire_admin.JournalLine)


def _setting(name: str) -> str:
    return f"/settings/{quote(name, safe='')}"
