"""What flow may ask of whoever delivers notices: a message, where it goes, and why it did not arrive.

Nothing here knows a service. Addresses hold secrets: they have no repr, and no error carries them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct, field
from typing_extensions import override

from stoker.domain.errors import AppError
from stoker.domain.notice import MailServer

CUT = "…"


class Message(Struct, frozen=True, kw_only=True):
    """What somebody is told, as plain text. Nothing in it has control characters or line ends."""

    subject: str
    lines: tuple[str, ...]
    heading: str = ""
    """Above `tail`."""
    tail: tuple[str, ...] = ()
    """The end of the output: the first to go where there is little room."""
    closing: str = ""
    mood: Literal["info", "success", "warning", "failure"] = "info"
    values: dict[str, str] = field(default_factory=dict)
    """The same for programs: a plain webhook gets these beside the text."""

    def body(self, most_bytes: int = 1 << 20) -> str:
        """All but the subject, in at most so many bytes."""
        tail = list(self.tail)
        while True:
            middle = (self.heading, *tail) if tail else ()
            parts = ("\n".join(self.lines), "\n".join(middle), self.closing)
            text = "\n\n".join(part for part in parts if part)
            if len(text.encode()) <= most_bytes:
                return text
            if not tail:
                return text.encode()[: most_bytes - len(CUT.encode())].decode(errors="ignore") + CUT
            tail.pop(0)


class Mail(Struct, frozen=True, kw_only=True):
    """To an e-mail address, by the lab's server."""

    server: MailServer
    password: str
    to: str

    @override
    def __repr__(self) -> str:
        return "Mail(…)"


class Web(Struct, frozen=True, kw_only=True):
    """To a service of apprise."""

    url: str
    local: tuple[str, ...]
    """Hosts that may be reached although they are this machine, or next to it."""

    @override
    def __repr__(self) -> str:
        return "Web(…)"


class Examined(NamedTuple):
    """A URL that can be used."""

    url: str
    """As apprise takes it."""
    service: str
    host: str
    """The only part of it that may be shown."""


class Undelivered(AppError):
    """It did not arrive. `code` and `values` say why, without any secret."""

    def __init__(self, code: str, *, passing: bool = True, **values: object) -> None:
        super().__init__(code)
        self.values = values
        self.is_passing = passing
        """Another try may mend it."""


class Sender(Protocol):
    def examine(self, url: str, services: Collection[str], local: Collection[str]) -> Examined:
        """What a person has pasted. May block; InvalidSpec when it cannot be used."""
        ...

    async def send(self, to: Mail | Web, message: Message) -> None:
        """Deliver it, in bounded time. Raises Undelivered."""
        ...

    def close(self) -> None:
        """Give up what is under way."""
        ...
