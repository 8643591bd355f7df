"""Bytes of a part's output, by offset: from our own log, or from a file that the owner named.

Our own log is in the spool and read at once. The owner's files are opened by a process that the
forker forks and that becomes the owner: the kernel decides what may be read, and a file server
that hangs holds up nobody. It hands its answer in over the runner's socket, under a ticket.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import select
import signal
import socket
import stat
import time
from dataclasses import dataclass
from typing import List, Optional

from . import account, logfile, protocol
from .command import encoded, file_of
from .layout import LOG, SOCKET, socket_path
from .protocol import Launch, LogData, ReadLog
from .record import Record
from .setting import Setting

MISSING, DENIED, DISCARDED = "missing", "denied", "discarded"
_MOST = 1 << 20
_TAIL_S = 5.0


@dataclass(frozen=True)
class Errand:
    """What a process that becomes the owner is sent to read."""

    ticket: int
    account: str
    path: str
    offset: int
    limit: int

    def line(self) -> bytes:
        """As it travels to the forker."""
        return json.dumps(self.__dict__).encode("ascii")


def destination(record: Record, stream: str) -> str:
    """Where a stream goes: "" = our own log, `discard`, or an absolute path."""
    wish = str(record.claim.get("stdout", ""))
    if stream == "stderr":
        other = str(record.claim.get("stderr", "merge"))
        wish = wish if other == "merge" else other
    if wish in ("", "discard"):
        return wish
    return os.path.join(str(record.claim.get("workdir", "/")), file_of(wish))


def named_files(launch: Launch) -> List[str]:
    """The absolute paths of the owner's files that a launch writes to."""
    wishes = [launch.stdout] + ([] if launch.stderr == "merge" else [launch.stderr])
    return [
        os.path.join(launch.workdir, file_of(wish))
        for wish in dict.fromkeys(wishes)
        if wish not in ("", "discard")
    ]


def tail_as_owner(path: str, name: str, setting: Setting) -> bytes:
    """The last 64 KiB of an owner's file, read by a process that becomes the owner.

    b"" when it may not or cannot read, or does not answer in time: then there is no reason.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            fd = _open_as_owner(path, name, setting)
            _write_all(writer, logfile.tail(fd))
        finally:
            os._exit(0)
    os.close(writer)
    found = b""
    until = time.monotonic() + _TAIL_S
    while select.select([reader], [], [], max(0.0, until - time.monotonic()))[0]:
        data = os.read(reader, 1 << 16)
        if not data:
            break
        found += data
    os.close(reader)
    os.kill(pid, signal.SIGKILL)  # not reaped: it is ours whatever it does
    return found


def read_own(dir_fd: int, key: str, order: ReadLog) -> LogData:
    """From our own log."""
    try:
        fd = os.open(key + LOG, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError as error:
        return LogData(order.id, order.offset, 0, error=_words(error))
    return _answer(fd, order.id, order.offset, order.limit)


def read_as_owner(raw: bytes, setting: Setting) -> None:
    """In a process of its own: become the owner, read, answer, end."""
    errand = Errand(**json.loads(raw))
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(socket_path(setting.dir_fd, SOCKET))  # while we still may
    try:
        fd = _open_as_owner(errand.path, errand.account, setting)
        answer = _answer(fd, errand.ticket, errand.offset, errand.limit)
    except OSError as error:
        answer = LogData(errand.ticket, errand.offset, 0, error=_words(error))
    link.sendall(protocol.line(answer))


def _open_as_owner(path: str, name: str, setting: Setting) -> int:
    account.become(account.wanted(name, setting.mine, setting.admission))
    # O_NONBLOCK: opening a FIFO must not wait for its writer.
    fd = os.open(encoded(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return fd


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _answer(fd: int, name: int, offset: int, limit: int) -> LogData:
    try:
        start, data = logfile.read(fd, max(0, offset), max(0, min(limit, _MOST)))
        size = os.fstat(fd).st_size
        return LogData(name, start, size, base64.b64encode(data).decode("ascii"))
    except OSError as error:
        return LogData(name, offset, 0, error=_words(error))
    finally:
        os.close(fd)


def small_log(dir_fd: int, key: str, most: int) -> Optional[str]:
    """The whole of our own log, base64, when it has at most `most` bytes."""
    try:
        fd = os.open(key + LOG, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError:
        return None
    try:
        data = os.read(fd, most + 1)
    finally:
        os.close(fd)
    return base64.b64encode(data).decode("ascii") if len(data) <= most else None


def _words(error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return MISSING
    if error.errno in (errno.EACCES, errno.EPERM):
        return DENIED
    return error.strerror or str(error)
