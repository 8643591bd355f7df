"""A writer without a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import sqlalchemy as sa

from stoker.store.database import begin_of
from stoker.store.writer import Work


async def nothing(_name: str) -> None:
    pass


class InlineWriter:
    """Writes where it is called, one call at a time; `ahead` of each, with the name of its work."""

    def __init__(
        self, engine: sa.Engine, ahead: Callable[[str], Awaitable[None]] = nothing
    ) -> None:
        self.failing = ""
        self.done: list[str] = []
        self._ahead = ahead
        self._begin = begin_of(engine)
        self._connection = engine.raw_connection()

    async def do(self, work: Work, argument: Any) -> Any:
        await self._ahead(work.__name__)
        cursor = self._connection.cursor()
        cursor.execute(self._begin)
        try:
            (result,) = work(cursor, [argument])
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
        cursor.execute("COMMIT")
        self.done.append(work.__name__)
        return result

    def close(self) -> None:
        self._connection.close()
