"""Passwords of our own: what a new one must be, how it is hashed and tried.

argon2id, in few threads of its own: a hash takes tens of milliseconds and MEMORY_KIB of memory, so
neither the event loop nor the memory of the machine depends on how many people try at once. Who is
unknown costs the same as who is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from stoker.domain.errors import InvalidSpec, RequestError

MEMORY_KIB = 32 * 1024
ROUNDS = 2
THREADS = 2
MOST_WAITING = 64
"""Who comes when so many wait is sent away: the line would be longer than anybody's patience."""
LEAST_CHARACTERS = 8
MOST_BYTES = 1024

T = TypeVar("T")


def check_new(password: str, name: str, *, field: str = "password") -> None:
    """Refuse what protects nothing, and what not every program can pass on."""
    if "\0" in password:
        raise InvalidSpec("nul", field=field)
    if len(password.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise InvalidSpec("password_too_long", field=field, most=MOST_BYTES)
    if len(password) < LEAST_CHARACTERS:
        raise InvalidSpec("password_too_short", field=field, least=LEAST_CHARACTERS)
    if password.casefold() == name.casefold():
        raise InvalidSpec("password_is_name", field=field)


class Passwords:
    """Hashes and tries passwords. `close` when the server ends."""

    def __init__(
        self, *, memory_kib: int = MEMORY_KIB, rounds: int = ROUNDS, threads: int = THREADS
    ) -> None:
        self._hasher = PasswordHasher(time_cost=rounds, memory_cost=memory_kib, parallelism=1)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="password")
        self._waiting = 0
        self._nobodys = ""
        """What is tried for somebody who has no password here."""

    async def hashed(self, password: str) -> str:
        """What may be kept of it."""
        return await self._run(lambda: self._hasher.hash(password))

    async def is_right(self, kept: str | None, password: str) -> bool:
        """Whether it is the one that `kept` was made of. Without one: no, at the same price."""
        return await self._run(lambda: self._is_right(kept, password))

    def is_outdated(self, kept: str) -> bool:
        """Made when less was asked of a hash."""
        return self._hasher.check_needs_rehash(kept)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _is_right(self, kept: str | None, password: str) -> bool:
        if kept is None:
            self._nobodys = self._nobodys or self._hasher.hash("nobody's")
        try:
            self._hasher.verify(kept or self._nobodys, password)
        except (VerificationError, InvalidHashError):
            return False
        return kept is not None

    async def _run(self, work: Callable[[], T]) -> T:
        if self._waiting >= MOST_WAITING:
            raise RequestError("logins_busy")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._waiting -= 1
