"""The one place that imports apprise: services made from URLs, its log kept from everybody.

Heavy: whoever needs it imports it when he does. Apprise writes whole messages and tokens to its
log, and says why something failed only there; so nothing of it goes on to ours, and who listens
looks at the exception that is being handled at that moment, never at the words.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

from typing_extensions import override

from stoker.domain.notice import MailServer

from . import guard


class Caught(logging.Filter):
    """Lets nothing through. Keeps the last exception that apprise has swallowed, by thread."""

    def __init__(self) -> None:
        super().__init__()
        self._here = threading.local()

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        error = sys.exc_info()[1]
        if error is not None:
            self._here.error = error
        return False

    def take(self) -> BaseException | None:
        found: BaseException | None = getattr(self._here, "error", None)
        self._here.error = None
        return found


caught = Caught()
_theirs = logging.getLogger("apprise")
_theirs.addFilter(caught)
_theirs.setLevel(logging.DEBUG)  # what is said about an exception is said on this level
logging.getLogger("urllib3").setLevel(logging.CRITICAL)  # addresses with their tokens

import apprise  # noqa: E402 - it has a lot to say already when it is imported
from apprise.plugins import url_to_dict  # noqa: E402
from apprise.plugins.email import NotifyEmail  # noqa: E402

guard.install()

ASSET = apprise.AppriseAsset(
    app_id="Stoker", app_desc="Stoker", app_url="", async_mode=False, http_redirects=False
)
SMTP_STEP_S = 10.0

_MODES = {"starttls": "starttls", "tls": "ssl", "none": "insecure"}


def parsed(url: str) -> dict[str, Any] | None:
    """The URL as apprise reads it; None: it cannot."""
    found: dict[str, Any] | None = url_to_dict(url)  # type: ignore[no-untyped-call]
    return found


def instantiate(url: str) -> Any:
    """The service of this URL, which tries once; None: it cannot be one."""
    plugin: Any = apprise.Apprise.instantiate(url, asset=ASSET)
    if plugin is not None:
        plugin.service_retry = 0
    return plugin


def mail(server: MailServer, password: str, to: str) -> Any:
    """The lab's mail server as a service."""
    plugin: Any = NotifyEmail(  # type: ignore[no-untyped-call]
        smtp_host=server.host,
        host=server.host,
        port=server.port,
        secure_mode=_MODES[server.tls],
        schema="mailtos",
        user=server.user or None,
        password=password or None,
        from_addr=f"Stoker <{server.sender}>",
        targets=[to],
        asset=ASSET,
    )
    plugin.socket_connect_timeout = SMTP_STEP_S
    return plugin


def notify(plugin: Any, *, title: str, body: str, mood: str) -> bool:
    """Send it, now, in this thread; as HTML, escaped, where the service wants that."""
    return bool(
        plugin.notify(
            title=title,
            body=body,
            notify_type=apprise.NotifyType(mood),
            body_format=apprise.NotifyFormat.TEXT,
        )
    )
