"""A posix terminal for a full-screen view: keys as they are pressed, the other screen, signals.

Whatever happens (an exception, SIGTERM, Ctrl-C, Ctrl-Z), the terminal is left as it was found.
Signals and other threads wake `read` through a pipe. Imports what only posix has when it is used.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from types import FrameType
from typing import Any, Self

from .painter import ENTER, LEAVE

ENDING = ("SIGTERM", "SIGHUP")


class Terminal:
    """Entered: the terminal is ours."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._woken, self._wakes = os.pipe()
        for end in (self._woken, self._wakes):
            os.set_blocking(end, False)
        self._attributes: list[Any] = []
        self._handlers: dict[signal.Signals, Any] = {}
        self._suspend = False
        self.is_stale = True
        """The screen is not what was last drawn: draw everything."""

    def __enter__(self) -> Self:
        import termios

        self._attributes = termios.tcgetattr(self._in)
        self._wakeup = signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        try:
            for name in ENDING:
                self._handle(signal.Signals[name], _end)
            self._handle(signal.SIGTSTP, self._on_suspend)
            self._handle(signal.SIGWINCH, self._on_resize)
            self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        for end in (self._woken, self._wakes):
            os.close(end)

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            found = os.get_terminal_size(self._out)
        except OSError:
            return 80, 24
        return found.columns or 80, found.lines or 24

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self._out, data) :]

    def read(self, timeout_s: float) -> bytes:
        """What was typed; b'' when the time is over or somebody woke us. EOFError: it is gone."""
        ready, _, _ = select.select([self._in, self._woken], [], [], timeout_s)
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)
        if self._suspend:
            self._stop_here()
        if self._in not in ready:
            return b""
        try:
            data = os.read(self._in, 1024)
        except OSError:
            data = b""
        if not data:
            raise EOFError
        return data

    def wake(self) -> None:
        """Let `read` return now; from any thread."""
        with contextlib.suppress(OSError):  # full: it wakes anyway; closed: nobody waits
            os.write(self._wakes, b"\0")

    # ---- taking it and giving it back

    def _take(self) -> None:
        import termios

        wanted = [*self._attributes[:6], list(self._attributes[6])]
        wanted[3] &= ~(termios.ECHO | termios.ICANON)  # ISIG stays: Ctrl-C and Ctrl-Z are signals
        wanted[6][termios.VMIN], wanted[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._in, termios.TCSADRAIN, wanted)
        self.write(ENTER)
        self.is_stale = True

    def _give_back(self) -> None:
        import termios

        with contextlib.suppress(OSError):
            self.write(LEAVE)
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self._in, termios.TCSADRAIN, self._attributes)

    def _stop_here(self) -> None:
        """Ctrl-Z: the shell gets its terminal; after `fg` we go on."""
        self._suspend = False
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._on_suspend)
        self._take()

    def _handle(self, number: signal.Signals, handler: Any) -> None:
        self._handlers[number] = signal.signal(number, handler)

    def _on_suspend(self, _number: int, _frame: FrameType | None) -> None:
        self._suspend = True

    def _on_resize(self, _number: int, _frame: FrameType | None) -> None:
        self.is_stale = True


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
