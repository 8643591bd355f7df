"""Ways to people, and the lab's mail server, in the book: what may be shown there, the rest sealed.

A URL or a password is opened only for the moment in which something is sent.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from stoker.domain.errors import Conflict, UnknownChannel
from stoker.domain.notice import MAIL, USUAL, Channel, MailServer
from stoker.domain.person import Person
from stoker.store.base import Act

from .book import ONLY, Book, Put, Remove
from .seal import Seal

KIND, MAIL_SERVER = "channel", "mail"
MOST_CHANNELS = 10
"""Of one person."""


class Channels:
    def __init__(self, book: Book, seal: Seal) -> None:
        self.book, self._seal = book, seal

    def of(self, person: str) -> Mapping[str, Channel]:
        """Those that he has set up, by name."""
        own = f"{person}/"
        return {
            name.removeprefix(own): value
            for name, value in self.book.channels.items()
            if name.startswith(own)
        }

    def names(self, person: Person) -> tuple[str, ...]:
        """Over which he can be told; mail if he has an address."""
        return (*((MAIL,) if person.email else ()), *sorted(self.of(person.name)))

    async def set(self, person: Person, channel: str, value: Channel, url: str, act: Act) -> None:
        """From now on he can be told over this. Whoever has said nothing so far is told of what
        people usually want to know."""
        others = set(self.of(person.name)) - {channel}
        if len(others) >= MOST_CHANNELS:
            raise Conflict("too_many_channels", field="channel", most=MOST_CHANNELS)
        name = f"{person.name}/{channel}"
        sealed = self._seal.seal(url, f"{KIND}/{name}")
        await self.book.amend([Put(KIND, name, value, sealed), *self._wishing(person)], [act])

    async def set_address(self, person: Person, address: str, act: Act) -> None:
        """The same for mail; "" = no address."""
        after = structs.replace(person, email=address)
        wishing = self._wishing(after) if address else []
        await self.book.amend(wishing or [Put("person", person.name, after)], [act])

    async def remove(self, person: str, channel: str, act: Act) -> None:
        if channel not in self.of(person):
            raise UnknownChannel(channel=channel[:50])
        await self.book.amend([Remove(KIND, f"{person}/{channel}")], [act])

    async def url(self, person: str, channel: str) -> str:
        """Where a message goes. UnknownChannel; Conflict when it can no longer be read."""
        if channel not in self.of(person):
            raise UnknownChannel(channel=channel[:50])
        return await self._opened(KIND, f"{person}/{channel}")

    async def problem(self, person: str, channel: str) -> str:
        """Why nothing can be sent over it: a code; "" = nothing stands in the way."""
        return await self._problem(KIND, f"{person}/{channel}")

    async def set_server(self, server: MailServer, password: str | None, act: Act) -> None:
        """Who delivers mail. None: the password stays as it is; "" = there is none."""
        about = f"{MAIL_SERVER}/{ONLY}"
        sealed = password and self._seal.seal(password, about)
        await self.book.amend([Put(MAIL_SERVER, ONLY, server, sealed)], [act])

    async def remove_server(self, act: Act) -> None:
        if self.book.mail is not None:
            await self.book.amend([Remove(MAIL_SERVER, ONLY)], [act])

    async def password(self) -> str:
        """Of the mail server; "" = it wants none."""
        return await self._opened(MAIL_SERVER, ONLY)

    async def server_problem(self) -> str:
        if self.book.mail is None:
            return "no_mail_server"
        return await self._problem(MAIL_SERVER, ONLY)

    async def has_password(self) -> bool:
        return bool(await self.book.store.secret(MAIL_SERVER, ONLY))

    def _wishing(self, person: Person) -> list[Put]:
        if person.notify:
            return []
        return [Put("person", person.name, structs.replace(person, notify=USUAL))]

    async def _opened(self, kind: str, name: str) -> str:
        sealed = await self.book.store.secret(kind, name)
        return self._seal.open(sealed, f"{kind}/{name}") if sealed else ""

    async def _problem(self, kind: str, name: str) -> str:
        sealed = await self.book.store.secret(kind, name)
        return "" if not sealed or self._seal.knows(sealed) else "key_lost"


def forgotten(book: Book, person: str) -> list[Remove]:
    """What goes with a person who goes: nobody of the same name may inherit his channels."""
    return [Remove(KIND, name) for name in book.channels if name.startswith(f"{person}/")]
