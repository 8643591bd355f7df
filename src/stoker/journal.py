"""The server's own log: lines on standard error, the newest of them in memory, none without bound.

A source that floods (the same line of the program, again and again) is cut down to what people can
read, and how many lines were left out is said. When standard error is a file of ours (`up
--detach`), it is renamed and begun anew before it grows too large: two files are all there ever
is. Tokens never get in, whoever writes them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from typing_extensions import override

KEPT = 2000
"""Lines in memory."""
MOST_LINE = 8192
BURST, PER_S = 1000, 100
"""Lines that one source may write at once, and in the long run."""
MOST_SOURCES = 500
"""Sources that are told apart."""
TELL_S = 1.0
MOST_FILE_BYTES = 10 << 20
LOOK_EVERY = 1 << 16
"""Bytes between two looks at the size of the file."""
FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"

_TOKEN = re.compile(r"stk_[A-Za-z0-9_-]{16,}")

Source = tuple[str, str]


class Journal(logging.Handler):
    """Takes every record of this process. May be written to and read from any thread."""

    def __init__(
        self,
        stream: TextIO | None = None,
        file: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        most_bytes: int = MOST_FILE_BYTES,
    ) -> None:
        """`file`: what standard error may be; another file, a pipe or a terminal is left alone."""
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))
        self._stream, self._file, self._clock, self._most_bytes = stream, file, clock, most_bytes
        self._lines: deque[tuple[int, str]] = deque(maxlen=KEPT)
        self._allowed: dict[Source, tuple[float, float]] = {}
        """Lines that a source may still write, and when that was so."""
        self._left_out: dict[Source, int] = {}
        self._told_at = 0.0
        self._unseen = LOOK_EVERY
        self.last = 0
        """The number of the newest line."""

    def after(self, number: int, most: int) -> list[tuple[int, str]]:
        """The newest `most` lines with a higher number, oldest first."""
        with self._locked():
            return [line for line in self._lines if line[0] > number][-most:]

    @override
    def emit(self, record: logging.LogRecord) -> None:
        now = self._clock()
        if now - self._told_at >= TELL_S:
            self._tell_left_out(now)
        source = self._source(record)
        if not self._may(source, now):
            self._left_out[source] = self._left_out.get(source, 0) + 1
            return
        try:
            self._write(self.format(record))
        except Exception:
            self.handleError(record)

    @override
    def close(self) -> None:
        with self._locked():
            self._tell_left_out(self._clock())
        super().close()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def _source(self, record: logging.LogRecord) -> Source:
        source = (record.name, str(record.msg))
        if source in self._allowed or len(self._allowed) < MOST_SOURCES:
            return source
        return record.name, ""

    def _may(self, source: Source, now: float) -> bool:
        left, at = self._allowed.get(source, (float(BURST), now))
        left = min(float(BURST), left + (now - at) * PER_S)
        self._allowed[source] = (max(0.0, left - 1), now)
        return left >= 1

    def _tell_left_out(self, now: float) -> None:
        self._told_at = now
        for (name, _), count in self._left_out.items():
            made = logging.LogRecord(
                "stoker.journal", logging.WARNING, "", 0, "event=left_out source=%s lines=%s",
                (name, count), None,
            )  # fmt: skip
            self._write(self.format(made))
        self._left_out.clear()

    def _write(self, line: str) -> None:
        if len(line) > MOST_LINE:
            line = line[:MOST_LINE] + "…"
        line = _TOKEN.sub("stk_***", line)
        self.last += 1
        self._lines.append((self.last, line))
        stream = self._stream or sys.stderr
        stream.write(line + "\n")
        stream.flush()
        self._unseen += len(line)
        if self._file is not None and self._unseen >= LOOK_EVERY:
            self._unseen = 0
            with contextlib.suppress(OSError):
                self._begin_anew(self._file, stream.fileno())

    def _begin_anew(self, path: Path, ours: int) -> None:
        """If what we write to is that file, and large: it becomes the older one."""
        now = os.fstat(ours)
        if not stat.S_ISREG(now.st_mode) or now.st_size < self._most_bytes:
            return
        if not os.path.samestat(now, path.stat()):
            return
        path.replace(f"{path}.1")
        new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for fd in {1, ours}:
                with contextlib.suppress(OSError):
                    if os.path.samestat(os.fstat(fd), now):
                        os.dup2(new, fd)
        finally:
            os.close(new)
