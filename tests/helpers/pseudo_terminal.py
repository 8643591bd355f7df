"""A program in a pseudo-terminal of its own, and the screen that a person would see."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyte

PATIENCE_S = 20.0


class PseudoTerminal:
    """Starts `argv`. Whoever waits for a screen also reads it."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.sent = b""
        """Everything that the program has written."""
        # Held open here, the terminal can be looked at when the program has gone.
        self._master, self.slave = pty.openpty()
        self._set_size(columns, rows)
        self.settings = termios.tcgetattr(self.slave)
        self.pid = os.fork()
        if self.pid == 0:
            os.login_tty(self.slave)
            os.chdir(cwd)
            os.execve(argv[0], list(argv), {"TERM": "xterm-256color", **env})
        self._code: int | None = None

    # ---- what a person does

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self._set_size(columns, rows)  # the kernel tells the program (SIGWINCH)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    # ---- what a person sees

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def shows_cursor(self) -> bool:
        return not self._screen.cursor.hidden

    @property
    def is_as_it_was(self) -> bool:
        """The line discipline is what it was before."""
        return termios.tcgetattr(self.slave) == self.settings

    def read(self, seconds: float) -> bytes:
        """What comes within this time; also on the screen."""
        begin, deadline = len(self.sent), time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._read_once(left)
        return self.sent[begin:]

    def until(self, condition: Callable[[str], Any] | str, seconds: float = PATIENCE_S) -> None:
        """Wait until the screen shows it."""
        deadline = time.monotonic() + seconds
        while not (condition in self.text if isinstance(condition, str) else condition(self.text)):
            assert time.monotonic() < deadline, f"waited for {condition!r}:\n{self.text}"
            self._read_once(0.05)

    def until_gone(self, seconds: float = PATIENCE_S) -> int:
        """Wait for the program's end; its exit code, negative for a signal."""
        deadline = time.monotonic() + seconds
        while self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
                break
            assert time.monotonic() < deadline, f"it did not end:\n{self.text}"
            self._read_once(0.05)
        while self._read_once(0):
            pass
        return self._code

    def close(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._master)
        os.close(self.slave)

    def _read_once(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        data = os.read(self._master, 65536)
        self.sent += data
        self._stream.feed(data)
        return True

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
