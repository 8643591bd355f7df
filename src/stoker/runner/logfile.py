"""Our own log of a part: its cap, its first and last line, and reading it by offset.

The middle of a log that outgrows HEAD + TAIL is given back to the file system as a hole: offsets
stay valid and nothing is moved or copied. Where no hole can be punched the log keeps growing.
A descriptor given here may be shared with the running command, so its position is never moved.
Files that the owner named are read with the same functions and never altered.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import time
from typing import Any, Tuple

from .protocol import Exit, Launch

HEAD = 32 * 1024 * 1024
TAIL = 224 * 1024 * 1024
TAIL_BYTES = 64 * 1024
"""What `tail` returns at most."""

_STEP = 8 * 1024 * 1024
_BLOCK = 1024 * 1024
"""Holes end on multiples of this, which is one of every block size in use."""
_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02
_TRIES = 5


def cap(fd: int, final: bool = False) -> None:
    """Drop what lies between the first HEAD and the last TAIL bytes.

    Called often: punches only when at least 8 MiB more can go; at the end (`final`), 1 MiB.
    """
    size = os.fstat(fd).st_size
    if size <= HEAD + TAIL:
        return
    end = (size - TAIL) // _BLOCK * _BLOCK
    start = _next_data(fd, HEAD, size)
    if end - start >= (_BLOCK if final else _STEP):
        _punch(fd, start, end - start)


def read(fd: int, offset: int, limit: int) -> Tuple[int, bytes]:
    """Where the next kept bytes are, at or after `offset`, and at most `limit` of them.

    A hole is skipped, never read as zeros, even when it is punched while we read.
    """
    for _ in range(_TRIES):
        size = os.fstat(fd).st_size
        start = _next_data(fd, offset, size)
        data = os.pread(fd, max(0, min(limit, _next_hole(fd, start, size) - start)), start)
        end = start + len(data)
        if _next_data(fd, start, size) == start and _next_hole(fd, start, size) >= end:
            return start, data
    return offset, b""


def tail(fd: int) -> bytes:
    """The last 64 KiB."""
    size = os.fstat(fd).st_size
    return os.pread(fd, TAIL_BYTES, max(0, size - TAIL_BYTES))


def header(launch: Launch, at: float) -> bytes:
    """The first line: when, what, where."""
    gpus = ",".join(str(gpu.index) for gpu in launch.gpus)
    return _line(
        _clock(at),
        f"task {launch.task}{_element(launch)}",
        launch.node,
        f"GPU {gpus}" if gpus else "no GPU",
        launch.workdir,
    )


def _element(launch: Launch) -> str:
    index = launch.env.get("STOKER_ARRAY_INDEX", "")
    return f"_{index}" if index else ""


def trailer(exit: Exit, after: bytes = b"") -> bytes:
    """The last line: how it ended, in plain words, and how long it ran.

    `after` is the output it follows (its `tail` will do): a line of its own needs a line end.
    """
    line = _line(_clock(exit.at), _outcome(exit), f"ran {_duration(exit.ran_s)}")
    return line if not after or after.endswith(b"\n") else b"\n" + line


def _next_data(fd: int, offset: int, size: int) -> int:
    """The first offset at or after `offset` that is not in a hole; `offset` beyond the end."""
    return _seek(fd, offset, os.SEEK_DATA, size) if offset < size else offset


def _next_hole(fd: int, offset: int, size: int) -> int:
    return _seek(fd, offset, os.SEEK_HOLE, size) if offset < size else size


def _seek(fd: int, offset: int, whence: int, size: int) -> int:
    status = os.fstat(fd)
    if status.st_blocks * 512 >= status.st_size:
        return offset if whence == os.SEEK_DATA else size
    try:
        # A description of our own: lseek on `fd` would move the command's position as well.
        own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return offset if whence == os.SEEK_DATA else size
    try:
        return os.lseek(own, offset, whence)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but hole up to the end
            return size
        return offset if whence == os.SEEK_DATA else size
    finally:
        os.close(own)


def _load_fallocate() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    for name in ("fallocate64", "fallocate"):  # musl has only the second, with 64 bits
        function = getattr(library, name, None)
        if function is not None:
            function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
            return function
    return None


_fallocate = _load_fallocate()


def _punch(fd: int, offset: int, length: int) -> None:
    """A refusal (no such feature in this file system) leaves the file as it is."""
    if _fallocate is not None:
        _fallocate(fd, _KEEP_SIZE_PUNCH_HOLE, offset, length)


def _line(*fields: str) -> bytes:
    text = "[stoker] " + " · ".join(fields)
    # One line, whatever characters a folder's name has.
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown.encode("utf-8", "backslashreplace") + b"\n"


def _clock(at: float) -> str:
    local = time.localtime(at)
    sign, minutes = (
        ("-", -local.tm_gmtoff // 60) if local.tm_gmtoff < 0 else ("+", local.tm_gmtoff // 60)
    )
    zone = f"UTC{sign}{minutes // 60:02}:{minutes % 60:02}"
    return time.strftime("%Y-%m-%d %H:%M:%S ", local) + zone


def _outcome(exit: Exit) -> str:
    why = exit.reason.replace("_", " ") + (f": {exit.detail}" if exit.detail else "")
    stopped = {
        "limit": "time limit reached",
        "cancel": "stopped on request",
        "requeue": "stopped, goes back to the queue",
        "lease": "stopped: no contact with the server for too long",
        "revoked": "never started: revoked",
        "aborted": "never started: another part was not ready",
        "refused": "could not start",
    }.get(exit.cause)
    if stopped is not None:
        return f"{stopped}: {why}" if exit.cause == "refused" and why else stopped
    if exit.signal is not None:
        ended = f"killed by {_signal_name(exit.signal)}"
    elif exit.code == 0:
        return "finished with code 0"
    else:
        ended = f"failed with code {exit.code}"
    return f"{ended} ({why})" if why and exit.reason != "killed_by_signal" else ended


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(int(seconds), 60)
    hours, rest_min = divmod(minutes, 60)
    days, rest_h = divmod(hours, 24)
    if days:
        return f"{days} d {rest_h} h"
    return f"{hours} h {rest_min} min" if hours else f"{minutes} min {rest_s} s"
