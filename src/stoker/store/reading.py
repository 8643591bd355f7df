"""Connections for reading, kept open, usable from any thread.

A statement by itself reads one committed state; `snapshot` reads one state with several. Results
are fetched whole, so no read transaction stays open and the log of the writer can be folded back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from stoker.domain.errors import StoreDown

from .codec import Row
from .database import begin_of, is_down
from .statements import Cursor

KEPT_OPEN = 8


class ReadPool:
    def __init__(self, engine: sa.Engine) -> None:
        self.dialect = engine.dialect
        self._engine = engine
        self._begin = begin_of(engine, readonly=True)
        self._idle: deque[_Reader] = deque()
        # While one is open, SQLite does not recover its log when the writer connects again: what
        # a failed commit left there cannot come back.
        self._anchor = _Reader(engine)

    def fetch(self, sql: str, parameters: Any = ()) -> list[Row]:
        """Every row of one statement."""
        reader = self._take()
        try:
            reader.cursor.execute(sql, parameters)
            rows: list[Row] = reader.cursor.fetchall()
        except BaseException as error:
            self._drop(reader, error)
            raise
        self._give_back(reader)
        return rows

    @contextmanager
    def snapshot(self) -> Iterator[Cursor]:
        """A cursor that sees one committed state until the end of the block."""
        reader = self._take()
        try:
            reader.cursor.execute(self._begin)
            yield reader.cursor
            reader.cursor.execute("COMMIT")
        except BaseException as error:
            self._drop(reader, error)
            raise
        self._give_back(reader)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        self._anchor.close()

    def _drop(self, reader: _Reader, error: BaseException) -> None:
        """Close it, since nobody knows its state; StoreDown when the database failed."""
        reader.close()
        if is_down(self.dialect, error):
            raise StoreDown(why=str(error)) from error

    def _take(self) -> _Reader:
        try:
            return self._idle.pop()  # the last one used: its pages are warm
        except IndexError:
            return _Reader(self._engine)

    def _give_back(self, reader: _Reader) -> None:
        if len(self._idle) < KEPT_OPEN:
            self._idle.append(reader)
        else:
            reader.close()


class _Reader:
    __slots__ = ("_connection", "cursor")

    def __init__(self, engine: sa.Engine) -> None:
        self._connection = engine.raw_connection()
        self.cursor: Cursor = self._connection.cursor()

    def close(self) -> None:
        self._connection.invalidate()
