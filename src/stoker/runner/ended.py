"""`ended.jsonl`: the ends that were forgotten in the last 30 days.

It answers what became of an attempt whose record is gone, and after a server was restored from a
backup: what was launched since? Best effort: a failed append loses only this second copy.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from typing import Any, Dict, Iterator, Optional

from .lines import pack, unpack_one

_NAME = "ended.jsonl"
_KEEP_S = 30 * 86400


class Ended:
    """The file, open for the runner's life."""

    def __init__(self, dir_fd: int) -> None:
        self._dir_fd = dir_fd
        self._fd = self._open()

    def append(self, fact: Dict[str, Any]) -> None:
        """Add one end; it has `key` and `at`. Raises OSError; a torn line is taken back."""
        raw = pack(fact)
        size = os.fstat(self._fd).st_size
        try:
            if os.write(self._fd, raw) == len(raw):
                return
        except OSError:
            os.ftruncate(self._fd, size)
            raise
        os.ftruncate(self._fd, size)
        raise OSError("no room for a line of ended.jsonl")

    def find(self, key: str) -> Optional[Dict[str, Any]]:
        """The latest end of a part; None when there is no trace of it."""
        if not os.fstat(self._fd).st_size:
            return None
        wanted = b'"key":"%s"' % key.encode("ascii")
        with mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ) as text:
            end = len(text)
            while True:
                hit = text.rfind(wanted, 0, end)
                if hit < 0:
                    return None
                start = text.rfind(b"\n", 0, hit) + 1
                stop = text.find(b"\n", hit)
                fact = unpack_one(text[start : stop if stop >= 0 else len(text)])
                if fact is not None and fact.get("key") == key:
                    return fact
                end = hit

    def above(self, number: int) -> Iterator[Dict[str, Any]]:
        """Every end with a launch number above this one, the oldest first."""
        with os.fdopen(os.dup(self._fd), "rb") as file:
            file.seek(0)
            for line in file:
                fact = unpack_one(line.rstrip(b"\n"))
                if fact is not None and int(fact.get("number", 0)) > number:
                    yield fact

    def prune(self) -> None:
        """Drop what is older than 30 days; writes nothing when there is nothing to drop."""
        oldest = time.time() - _KEEP_S
        with os.fdopen(os.dup(self._fd), "rb") as file:
            file.seek(0)
            first = unpack_one(file.readline().rstrip(b"\n"))
            if first is None or first.get("at", 0) >= oldest:
                return
            file.seek(0)
            temporary = _NAME + ".new"
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            out = os.open(temporary, flags, 0o600, dir_fd=self._dir_fd)
            with os.fdopen(out, "wb") as kept:
                for line in file:
                    fact = unpack_one(line.rstrip(b"\n"))
                    if fact is not None and fact.get("at", 0) >= oldest:
                        kept.write(line)
        os.rename(temporary, _NAME, src_dir_fd=self._dir_fd, dst_dir_fd=self._dir_fd)
        with contextlib.suppress(OSError):
            os.close(self._fd)
        self._fd = self._open()

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(_NAME, flags, 0o600, dir_fd=self._dir_fd)
