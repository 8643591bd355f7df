"""`runner.lock`: one runner per spool. Who holds it is inside.

The lock is a flock on an open file, so a dead holder never keeps it; the text inside only says
whom to signal. A plain start leaves a holder alone; a replacement ends it first.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from typing import Optional

from .identity import Process, boot_id, send, start_time
from .lines import pack, unpack

_NAME = "runner.lock"
_ROOM = 256
_TERM_S = 3.0
_GIVE_UP_S = 10.0
_PAUSE_S = 0.02


def take(dir_fd: int, *, replace: bool) -> Optional[int]:
    """The held lock, or None when a live runner has it (after 10 s of trying, with `replace`).

    The text is padded and written over, never truncated: it fits on a full disk.
    """
    fd = os.open(_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
    if not _try(fd) and not (replace and _take_over(fd)):
        os.close(fd)
        return None
    me = os.getpid()
    text = pack({"boot": boot_id(), "pid": me, "start": start_time(me)})
    os.pwrite(fd, text.ljust(_ROOM, b"\0"), 0)
    return fd


def holder(fd: int) -> Optional[Process]:
    """Who says that it holds it; may be somebody who has just died."""
    facts = unpack(os.pread(fd, _ROOM, 0))
    if not facts or facts[0]["boot"] != boot_id():
        return None
    return Process(int(facts[0]["pid"]), int(facts[0]["start"]))


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_over(fd: int) -> bool:
    begun = time.monotonic()
    told = None
    while time.monotonic() - begun < _GIVE_UP_S:
        who = holder(fd)
        if who is not None and who != told:
            # Also another one that came meanwhile: of several replacements the last one stays.
            send(who, signal.SIGTERM)
            told = who
        elif who is not None and time.monotonic() - begun > _TERM_S:
            send(who, signal.SIGKILL)
        if _try(fd):
            return True
        time.sleep(_PAUSE_S)
    return False
