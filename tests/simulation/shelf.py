"""The server's copies of outputs, in memory: they outlive a killed server as files do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from .spool import output_of


class Shelf:
    """Meets `LogShelf`. Every copy that is kept must be the whole of what was printed."""

    def __init__(self, broken: Callable[[str, str], None]) -> None:
        self.kept: dict[tuple[str, str], bytes] = {}
        self._broken = broken

    def copy(self, attempt: str, rank: int, stream: str) -> Copy:
        return Copy(self, attempt, stream)

    def has(self, attempt: str, rank: int, stream: str) -> bool:
        return (attempt, stream) in self.kept

    def read(
        self, attempt: str, rank: int, stream: str, offset: int, limit: int
    ) -> tuple[int, bytes, int] | None:
        whole = self.kept.get((attempt, stream))
        return None if whole is None else (offset, whole[offset : offset + limit], len(whole))

    def batches(self, before: datetime) -> Iterator[list[str]]:
        """Every one, as if all were old enough: whoever is not recorded must not be missed."""
        yield sorted({attempt for attempt, _ in self.kept})

    def remove(self, attempt: str) -> None:
        for name in [name for name in self.kept if name[0] == attempt]:
            del self.kept[name]

    def keep(self, attempt: str, stream: str, whole: bytes) -> None:
        if whole != output_of(attempt, len(whole)):
            self._broken("log", f"the copy of {attempt[:8]} is not what it printed")
        self.kept[attempt, stream] = whole


class Copy:
    def __init__(self, shelf: Shelf, attempt: str, stream: str) -> None:
        self._shelf, self._attempt, self._stream = shelf, attempt, stream
        self._data = bytearray()

    def write(self, offset: int, data: bytes) -> None:
        self._data[offset : offset + len(data)] = data

    def keep(self, size: int) -> None:
        self._shelf.keep(self._attempt, self._stream, bytes(self._data[:size]))

    def drop(self) -> None:
        """Nothing was kept."""
