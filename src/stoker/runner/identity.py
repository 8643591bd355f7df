"""Which process is meant: boot id, pid and start time, never a bare number.

A pid read from disk may belong to somebody else by now. `send` compares the start time before and
after taking a handle (pidfd) and signals only through the handle; without pidfd the window
between the comparison and the signal is as short as it can be.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Process:
    """A process of this boot. Two with equal fields are the same one."""

    pid: int
    start: int
    """Field 22 of /proc/PID/stat: clock ticks since boot."""


@dataclass(frozen=True)
class Stat:
    """What /proc/PID/stat says."""

    pid: int
    name: str
    state: str
    parent: int
    session: int
    start: int

    @property
    def is_zombie(self) -> bool:
        """It has ended and holds nothing but its number."""
        return self.state in "ZX"


def boot_id() -> str:
    """Random, made by the kernel at each boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def stat(pid: int) -> Optional[Stat]:
    """None when there is no such process."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            raw = os.read(fd, 4096)
        finally:
            os.close(fd)
    except OSError:
        return None
    # The name is in parentheses and may itself contain spaces and parentheses.
    before, _, after = raw.rpartition(b")")
    words = after.split()
    if len(words) < 20:
        return None
    name = before.partition(b"(")[2].decode("utf-8", "replace")
    return Stat(pid, name, words[0].decode(), int(words[1]), int(words[3]), int(words[19]))


def start_time(pid: int) -> int:
    """The start time of a process that is known to exist. Raises OSError."""
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        raw = os.read(fd, 4096)
        return int(raw[raw.rindex(b")") + 2 :].split(b" ", 20)[19])
    finally:
        os.close(fd)


def is_there(who: Process) -> bool:
    """Whether that very process exists and has not ended."""
    found = stat(who.pid)
    return found is not None and found.start == who.start and not found.is_zombie


def send(who: Process, number: int) -> bool:
    """Signal that very process. False when it is gone or not ours to signal."""
    if who.pid <= 1 or not is_there(who):
        return False
    try:
        if not hasattr(os, "pidfd_open"):
            os.kill(who.pid, number)
            return True
        try:
            handle = os.pidfd_open(who.pid)
        except OSError as error:
            return _send_bare(who, number, error)
        try:
            # The number may have passed on between the comparison above and the handle.
            if not is_there(who):
                return False
            signal.pidfd_send_signal(handle, number)
            return True
        finally:
            os.close(handle)
    except (ProcessLookupError, PermissionError):
        return False


def _send_bare(who: Process, number: int, error: OSError) -> bool:
    """No handle to be had: an old kernel, a filter, or no descriptor left."""
    if isinstance(error, ProcessLookupError) or not is_there(who):
        return False
    os.kill(who.pid, number)
    return True
