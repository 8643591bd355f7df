"""Connections for reading, kept open, usable from any thread.

A statement by itself reads one committed state; `snapshot` reads one state with several. Results
are fetched whole, so no read transaction stays open and the log of the writer can be folded back.
A connection to a server (PostgreSQL) may have been lost while nobody used it: then the others are
not trusted either, and what was asked is asked once more on a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from .codec import Row
from .database import as_down, begin_of, is_down
from .statements import Cursor

KEPT_OPEN = 8


class ReadPool:
    def __init__(self, engine: sa.Engine) -> None:
        self.dialect = engine.dialect
        self._engine = engine
        self._begin = begin_of(engine, readonly=True)
        self._idle: deque[_Reader] = deque()
        self._is_remote = engine.dialect.name != "sqlite"
        # While one is open, SQLite does not recover its log when the writer connects again: what
        # a failed commit left there cannot come back.
        self._anchor = None if self._is_remote else _Reader(engine)

    def fetch(self, sql: str, parameters: Any = ()) -> list[Row]:
        """Every row of one statement."""
        reader = self._execute(sql, parameters)
        try:
            rows: list[Row] = reader.cursor.fetchall()
        except BaseException as error:
            self._drop(reader, error)
            raise
        self._give_back(reader)
        return rows

    @contextmanager
    def snapshot(self) -> Iterator[Cursor]:
        """A cursor that sees one committed state until the end of the block."""
        reader = self._execute(self._begin, ())
        try:
            yield reader.cursor
            reader.cursor.execute("COMMIT")
        except BaseException as error:
            self._drop(reader, error)
            raise
        self._give_back(reader)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        if self._anchor is not None:
            self._anchor.close()

    def _execute(self, sql: str, parameters: Any) -> _Reader:
        """A reader that has taken this as its first statement."""
        reader = self._take()
        try:
            reader.cursor.execute(sql, parameters)
        except BaseException as error:
            may_be_stale = self._is_remote and is_down(self.dialect, error)
            if not (may_be_stale and reader.was_used):
                self._drop(reader, error)
                raise
            reader.close()
            while self._idle:
                self._idle.pop().close()
            return self._execute(sql, parameters)
        return reader

    def _drop(self, reader: _Reader, error: BaseException) -> None:
        """Close it, since nobody knows its state; StoreDown when the database failed."""
        reader.close()
        if is_down(self.dialect, error):
            raise as_down(self.dialect, error) from error

    def _take(self) -> _Reader:
        try:
            return self._idle.pop()  # the last one used: its pages are warm
        except IndexError:
            pass
        try:
            return _Reader(self._engine)
        except Exception as error:
            if is_down(self.dialect, error):
                raise as_down(self.dialect, error) from error
            raise

    def _give_back(self, reader: _Reader) -> None:
        reader.was_used = True
        if len(self._idle) < KEPT_OPEN:
            self._idle.append(reader)
        else:
            reader.close()


class _Reader:
    __slots__ = ("_connection", "cursor", "was_used")

    def __init__(self, engine: sa.Engine) -> None:
        self.was_used = False
        self._connection = engine.raw_connection()
        self.cursor: Cursor = self._connection.cursor()

    def close(self) -> None:
        self._connection.invalidate()
