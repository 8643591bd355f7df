"""Who is at work on a state folder of this machine: server, runner, supervisors.

Each holds a lock (flock) for as long as it lives, so nobody dead looks alive and a reused pid
fools nobody. Looking takes the lock shared for a moment, as the runner itself does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from stoker.runner import identity, lock
from stoker.runner.layout import RECORD

SERVER_LOCK = "stoker.db.lock"
STANDBY_LOCK = "standby.lock"
RUNNER_LOCK = "runner.lock"
POLL_S = 0.02


def server_pid(home: Path) -> int | None:
    """The process that serves this folder, or None."""
    return _pid_in(home / SERVER_LOCK)


def standby_pid(home: Path) -> int | None:
    """The process that waits to serve this folder, or None."""
    return _pid_in(home / STANDBY_LOCK)


def end_server(home: Path, patience_s: float) -> bool:
    """Ask the server to end and wait for it; False when it is still there."""
    return _end(home / SERVER_LOCK, patience_s)


def end_standby(home: Path, patience_s: float) -> bool:
    """The same with who waits to serve."""
    return _end(home / STANDBY_LOCK, patience_s)


def live_parts(home: Path) -> int:
    """How many attempts have a living supervisor."""
    count = 0
    for path in (home / "spool").glob(f"*{RECORD}"):
        with _opened(path) as fd:
            count += fd is not None and _is_held(fd)
    return count


def has_runner(home: Path) -> bool:
    """Whether a runner holds the spool."""
    with _opened(home / "spool" / RUNNER_LOCK) as fd:
        return fd is not None and _is_held(fd)


def end_runner(home: Path, patience_s: float = 10.0) -> bool:
    """Ask the runner to end and wait for it; supervisors go on. False when it is still there."""
    with _opened(home / "spool" / RUNNER_LOCK) as fd:
        if fd is None:
            return True
        deadline = time.monotonic() + patience_s
        told = None
        while _is_held(fd):
            who = lock.holder(fd)
            if who is not None and who != told:
                identity.send(who, signal.SIGTERM)
                told = who
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True


def _pid_in(path: Path) -> int | None:
    """Who holds the lock; 0 when he has not said yet."""
    with _opened(path) as fd:
        if fd is None or not _is_held(fd):
            return None
        text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else 0


def _end(path: Path, patience_s: float) -> bool:
    pid = _pid_in(path)
    if not pid:
        return pid is None
    if not _is_of(path, pid):
        return False  # the server's account names somebody else's process to root
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if _pid_in(path) == pid:  # still the same after we have hold of it
                signal.pidfd_send_signal(handle, signal.SIGTERM)
                if select.select([handle], [], [], patience_s)[0]:
                    return True  # whoever has the lock now is somebody else
        finally:
            os.close(handle)
    return _pid_in(path) != pid


def _is_of(path: Path, pid: int) -> bool:
    """Whether the process belongs to the account that the file belongs to; true for one that is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            uid = next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
        return uid == path.stat().st_uid
    except (OSError, StopIteration):
        return True


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _is_held(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False
