"""The same as terminal.py on Windows: keys by msvcrt, looked for a few times a second."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Self

from .painter import ENTER, LEAVE

POLL_S = 0.05
_KEYS = {
    "H": b"\x1b[A",
    "P": b"\x1b[B",
    "I": b"\x1b[5~",
    "Q": b"\x1b[6~",
    "G": b"\x1b[H",
    "O": b"\x1b[F",
}
"""What follows a NUL or 0xE0 for keys without a character, as a posix terminal would send it."""


class Terminal:
    def __init__(self) -> None:
        self._woken = threading.Event()
        self.is_stale = True
        self._size = (0, 0)

    def __enter__(self) -> Self:
        os.system("")  # noqa: S605, S607 - makes an old console understand escape sequences
        self.write(ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        self.write(LEAVE)

    def size(self) -> tuple[int, int]:
        found = os.get_terminal_size()
        self.is_stale = self.is_stale or self._size != tuple(found)
        self._size = (found.columns, found.lines)
        return self._size

    def write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def read(self, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and not self._woken.is_set():
            data = _pressed()
            if data:
                return data
            time.sleep(POLL_S)
        self._woken.clear()
        return b""

    def wake(self) -> None:
        self._woken.set()


def _pressed() -> bytes:
    if sys.platform == "win32":
        import msvcrt

        if msvcrt.kbhit():
            character = msvcrt.getwch()
            if character in "\x00\xe0":
                return _KEYS.get(msvcrt.getwch(), b"")
            return character.encode()
    return b""
