"""The server's own copies of finished attempts' output, one file per attempt, rank and stream.

A copy appears whole or not at all (written beside, then renamed). Holes stay holes, so offsets are
the same as on the node. Names come from ids that we made: nothing a person typed is in a path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

CHUNK = 1 << 20


class FileCopy:
    """A copy in the making, beside its final name."""

    def __init__(self, path: Path) -> None:
        self.path, self.beside = path, path.with_suffix(path.suffix + ".part")
        self.fd = os.open(self.beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def write(self, offset: int, data: bytes) -> None:
        while data:
            written = os.pwrite(self.fd, data, offset)
            offset, data = offset + written, data[written:]

    def keep(self, size: int) -> None:
        """Durable when it returns."""
        try:
            os.ftruncate(self.fd, size)
            os.fdatasync(self.fd)
        finally:
            os.close(self.fd)
        self.beside.rename(self.path)

    def drop(self) -> None:
        os.close(self.fd)
        self.beside.unlink(missing_ok=True)


class LogFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def copy(self, attempt: str, rank: int, stream: str) -> FileCopy:
        path = self._path(attempt, rank, stream)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return FileCopy(path)

    def has(self, attempt: str, rank: int, stream: str) -> bool:
        return self._path(attempt, rank, stream).exists()

    def read(
        self, attempt: str, rank: int, stream: str, offset: int, limit: int
    ) -> tuple[int, bytes, int] | None:
        """(offset after a hole, bytes, size), or None when there is no copy."""
        try:
            fd = os.open(self._path(attempt, rank, stream), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            size = os.fstat(fd).st_size
            start = size if offset >= size else _data_from(fd, offset, size)
            return start, os.pread(fd, min(limit, CHUNK), start), size
        finally:
            os.close(fd)

    def batches(self, before: datetime) -> Iterator[list[str]]:
        """Attempts that have a copy, none of it made since `before`; a folder at a time."""
        with os.scandir(self.folder) as found:
            folders = sorted(one.path for one in found if one.is_dir(follow_symlinks=False))
        for folder in folders:
            newest: dict[str, float] = {}
            with os.scandir(folder) as files:
                for file in files:
                    with suppress(FileNotFoundError):  # somebody has removed it
                        made = file.stat(follow_symlinks=False).st_mtime
                        attempt = file.name.partition(".")[0]
                        newest[attempt] = max(made, newest.get(attempt, made))
            yield [attempt for attempt, made in newest.items() if made < before.timestamp()]

    def remove(self, attempt: str) -> None:
        """Every copy of this attempt's output; there may be none."""
        for path in (self.folder / attempt[:2]).glob(f"{attempt}.*"):
            path.unlink(missing_ok=True)

    def _path(self, attempt: str, rank: int, stream: str) -> Path:
        return self.folder / attempt[:2] / f"{attempt}.{rank}.{stream}"


def _data_from(fd: int, offset: int, size: int) -> int:
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError:  # nothing but a hole up to the end
        return size
