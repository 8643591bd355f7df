"""When tokens and sessions were last used: written down rarely, and never while somebody waits.

Also takes away what has expired. Both are done beside the requests; what cannot be written now is
written at a later use, or not at all.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from msgspec import structs

from stoker.domain.errors import StoreError
from stoker.domain.person import Credential
from stoker.lab.book import Book, Put, Remove

EVERY = timedelta(minutes=10)
SWEEP_EVERY = timedelta(hours=1)
TOLD_FOR = timedelta(days=30)
"""So long a token that has expired is still known, so that its owner is told what is wrong."""


class Uses:
    def __init__(self, book: Book) -> None:
        self._book = book
        self._seen: dict[str, datetime] = {}
        self._writing: asyncio.Task[None] | None = None
        self._swept: datetime | None = None

    def saw(self, hashed: str, credential: Credential, now: datetime) -> None:
        """It is used at this moment."""
        if not _is_due(credential, now):
            return
        self._seen[hashed] = now
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()

    async def _write(self) -> None:
        while self._seen:
            seen, self._seen = self._seen, {}
            for hashed, at in seen.items():
                credential = self._book.credentials.get(hashed)
                if credential is not None and _is_due(credential, at):
                    used = structs.replace(credential, used_at=at)
                    await self._amend(Put("credential", hashed, used))
            await self._sweep(max(seen.values()))

    async def _sweep(self, now: datetime) -> None:
        if self._swept is not None and now - self._swept < SWEEP_EVERY:
            return
        self._swept = now
        for hashed, credential in list(self._book.credentials.items()):
            kept_for = TOLD_FOR if credential.kind == "token" else timedelta()
            if credential.expires_at is not None and credential.expires_at + kept_for < now:
                await self._amend(Remove("credential", hashed))

    async def _amend(self, change: Put | Remove) -> None:
        try:
            await self._book.amend([change])
        except StoreError:
            await asyncio.sleep(1)  # a disk that refuses is not asked again at every request


def _is_due(credential: Credential, now: datetime) -> bool:
    return credential.used_at is None or now - credential.used_at >= EVERY
