"""`A.R.rec`: what is known of one part, written by its supervisor alone (PROTOCOL 3, 4).

Lines: `claim` (who supervises), `child` (the command's process), `stuck` (something survives
KILL), `exit`. The supervisor holds a flock on the file from before its name exists until it dies.
The file is preallocated, so that a full disk cannot stop the exit line.
Reading never infers death from something absent: only a free lock says that the supervisor is
dead, and the lines are read again after it was obtained.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from . import killpoint
from .identity import Process, start_time
from .layout import RECORD, TEMPORARY
from .lines import pack, sealed, unpack
from .protocol import Exit, build

_BLOCK = 4096
_ROOM = 3072
"""For the lines after the claim; the exit line is shortened to fit."""
_TRIES = 10
_MOST = 65536


@dataclass(frozen=True)
class Record:
    """One part as its record says."""

    key: str
    is_held: bool
    """Whether the supervisor lives. Not looked at when there is an exit line."""
    claim: Dict[str, Any] = field(default_factory=dict)
    """Empty for a file that a crash of the machine tore."""
    child: Optional[Dict[str, Any]] = None
    exit: Optional[Exit] = None
    stuck: str = ""

    @property
    def number(self) -> int:
        """The launch number; 0 in a torn file."""
        return int(self.claim.get("number", 0))

    @property
    def supervisor(self) -> Optional[Process]:
        """Who claimed it."""
        return Process(self.claim["pid"], self.claim["start"]) if self.claim else None

    @property
    def main(self) -> Optional[Process]:
        """The command's own process, once there is one."""
        return Process(self.child["pid"], self.child["start"]) if self.child else None


class Journal:
    """The supervisor's side: a claimed record that grows by lines."""

    def __init__(self, fd: int, end: int, size: int) -> None:
        self.fd = fd
        self._end = end
        self._size = size

    def begin(self, child: Process, at: float) -> None:
        """Add the child line: from here on the command may have run."""
        self._append(
            sealed(b'{"line":"child","pid":%d,"start":%d,"at":%.3f}' % (child.pid, child.start, at))
        )

    def note_stuck(self, why: str) -> None:
        """Add a line about something that survives KILL."""
        self._append(pack({"line": "stuck", "why": why[:300]}))

    def finish(self, end: Exit, dir_fd: int) -> None:
        """Add the exit line and make it durable. Its detail is shortened if it does not fit."""
        fields = {"line": "exit", **end.__dict__}
        raw = pack(fields)
        while self._end + len(raw) >= self._size and fields["detail"]:
            fields["detail"] = fields["detail"][: len(fields["detail"]) // 2]
            raw = pack(fields)
        self._append(raw)
        os.fdatasync(self.fd)
        os.fsync(dir_fd)

    def _append(self, raw: bytes) -> None:
        """A part of a line never counts. Raises OSError."""
        if self._end + len(raw) >= self._size:
            raise OSError("no room in the record")
        os.pwrite(self.fd, raw, self._end)
        self._end += len(raw)


def claim(dir_fd: int, key: str, body: bytes) -> Optional[Journal]:
    """Claim a part in one atomic step, with the lock already held. None = somebody has it.

    `body` is the claim's JSON without its end: our pid and start time are added.
    Raises OSError (a full disk, a deleted folder): then there is no record, and nothing began.
    """
    me = os.getpid()
    raw = sealed(b'%s,"pid":%d,"start":%d}' % (body, me, start_time(me)))
    size = -(-(len(raw) + _ROOM) // _BLOCK) * _BLOCK
    for _ in range(_TRIES):
        # Never a name that was used before: a dead supervisor's may be a link to the record.
        temporary = f"{key}.{os.urandom(8).hex()}{TEMPORARY}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o600, dir_fd=dir_fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.posix_fallocate(fd, 0, size)
            os.pwrite(fd, raw, 0)
            killpoint.reach(killpoint.CLAIM)
            os.link(temporary, key + RECORD, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
            killpoint.reach(killpoint.CLAIMED)
            os.unlink(temporary, dir_fd=dir_fd)
            return Journal(fd, len(raw), size)
        except FileNotFoundError:
            # A rescan found it before we had locked it. In a deleted folder, open() raises next.
            os.close(fd)
        except OSError as error:
            os.unlink(temporary, dir_fd=dir_fd)
            if not isinstance(error, FileExistsError):
                raise
            os.close(fd)
            return None
    raise OSError(f"temporary record of {key} vanished {_TRIES} times")


def abandon(dir_fd: int, key: str, journal: Journal) -> None:
    """Take back a claim whose number was forgotten or revoked meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        named = os.stat(key + RECORD, dir_fd=dir_fd, follow_symlinks=False)
        if named.st_ino == os.fstat(journal.fd).st_ino:
            os.unlink(key + RECORD, dir_fd=dir_fd)


def look(dir_fd: int, key: str) -> Optional[Record]:
    """Read a record; None when there is none. Never blocks."""
    try:
        fd = os.open(key + RECORD, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=dir_fd)
    except FileNotFoundError:
        return None
    try:
        record = _read(fd, key, is_held=True)
        if record.exit is not None:
            return record
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return record
        # Nobody writes any more: what it says now is final.
        return _read(fd, key, is_held=False)
    finally:
        os.close(fd)


def _read(fd: int, key: str, *, is_held: bool) -> Record:
    facts = {fact.get("line"): fact for fact in unpack(os.pread(fd, _MOST, 0))}
    end = facts.get("exit")
    return Record(
        key=key,
        is_held=is_held,
        claim=facts.get("claim", {}),
        child=facts.get("child"),
        exit=build(Exit, end) if end else None,
        stuck=str(facts["stuck"]["why"]) if "stuck" in facts else "",
    )
