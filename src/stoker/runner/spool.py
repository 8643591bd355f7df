"""The spool folder: the runner's only state (PROTOCOL 2). Local disk, 0700; where the server is another
account, its group may pass through to the socket, and to nothing else.

`A.R.rec` record, `A.R.log` output, `A.R.ctl` orders, `A.R.lim` another limit, `A.R.script` a script's text, `mark`,
`ended.jsonl`, `epoch`, `spool.id`, `runner.lock`, `runner.sock`, `runner.dgram`. Everything goes
through the folder's descriptor, so that a folder that was renamed or deleted is never confused with another one
of the same name. Invariant: a part's record is unlinked last.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Iterable, List, Optional

from . import command, killpoint
from .ended import Ended
from .filesystem import network_filesystem
from .identity import boot_id
from .layout import (
    CONTROL,
    DRAFT,
    LIMIT,
    LOG,
    NOTICES,
    RECORD,
    SOCKET,
    TEMPORARY,
    socket_path,
    split_key,
)
from .limit import Limit
from .limit import read as read_limit
from .lines import pack, unpack
from .mark import Mark
from .note import note
from .protocol import Incarnation

__all__ = [
    "NOTICES",
    "SOCKET",
    "Spool",
    "SpoolRefused",
    "network_filesystem",
    "open_folder",
    "socket_path",
]


class SpoolRefused(Exception):
    """This folder cannot be a spool; the text says why, in one line."""


def open_folder(path: str, group: Optional[int] = None) -> int:
    """A descriptor of the folder, made if need be. `group` may pass through. Raises SpoolRefused."""
    kind = network_filesystem(path)
    if kind:
        raise SpoolRefused(f"{path} is on a network file system ({kind}); choose a local disk")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SpoolRefused(f"cannot use {path}: {error.strerror}") from error
    if os.fstat(fd).st_uid != os.geteuid():
        raise SpoolRefused(f"{path} belongs to another account")
    if group is not None:
        os.fchown(fd, -1, group)
    os.fchmod(fd, 0o700 if group is None else 0o710)
    return fd


class Spool:
    """The runner's view of its folder; made under runner.lock."""

    def __init__(self, path: str, dir_fd: int) -> None:
        self.path = path
        self.dir_fd = dir_fd
        self.incarnation = Incarnation(boot_id(), _spool_id(dir_fd))
        self.mark = Mark(dir_fd)
        self.ended = Ended(dir_fd)
        self.epoch = _stored_epoch(dir_fd)
        self.highest = self.mark.highest()
        self._is_epoch_stored = True

    def show_id(self, group: int) -> None:
        """Let the server's group read which spool this is: a standby compares."""
        os.chown("spool.id", -1, group, dir_fd=self.dir_fd, follow_symlinks=False)
        os.chmod("spool.id", 0o640, dir_fd=self.dir_fd)

    def raise_epoch(self, epoch: int) -> bool:
        """Note the epoch of an order; False when it is below the highest one seen.

        A rise is durable before anything is done under it. On a full disk it holds in memory
        and is stored at the next chance: a stop must still be possible.
        """
        if epoch > self.epoch:
            self.epoch = epoch
            self._is_epoch_stored = False
            self.store_epoch()
        return epoch == self.epoch

    def store_epoch(self) -> None:
        """Make the epoch durable unless it is."""
        if self._is_epoch_stored:
            return
        try:
            _write_durably(self.dir_fd, "epoch", pack({"epoch": self.epoch}))
        except OSError as error:
            note(f"cannot store epoch {self.epoch}: {error.strerror}")
        else:
            self._is_epoch_stored = True

    def note_number(self, number: int) -> None:
        """A launch number was seen."""
        self.highest = max(self.highest, number)

    def is_gone(self) -> bool:
        """Whether the folder was deleted, emptied or replaced behind our back."""
        try:
            here, named = os.fstat(self.dir_fd), os.stat(self.path)
            os.stat("spool.id", dir_fd=self.dir_fd)
        except OSError:
            return True
        return (here.st_dev, here.st_ino) != (named.st_dev, named.st_ino)

    def has_record(self, key: str) -> bool:
        """Whether a part has a record now."""
        try:
            os.stat(key + RECORD, dir_fd=self.dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def parts(self) -> List[str]:
        """The keys of the parts that have a record. Tidies up: abandoned temporary files, orphaned orders."""
        keys = []
        for name in os.listdir(self.dir_fd):
            stem, suffix = os.path.splitext(name)
            if suffix == RECORD and split_key(stem):
                keys.append(stem)
            elif suffix == TEMPORARY:
                self._drop_abandoned(name)
            elif name.endswith((CONTROL + DRAFT, LIMIT + DRAFT)) or (
                suffix in (CONTROL, LIMIT) and not self.has_record(stem)
            ):
                self._unlink(name)
        return keys

    def write_control(self, key: str, number: int, cause: str, grace_s: float) -> None:
        """Leave the order to stop for a supervisor. Atomic. Raises OSError on a full disk."""
        fact = {"number": number, "cause": cause, "grace_s": grace_s}
        self._leave(key + CONTROL, pack(fact))

    def limit(self, key: str) -> Optional[Limit]:
        """The limit that a part was told since its launch; None when there was none."""
        return read_limit(self.dir_fd, key)

    def write_limit(self, key: str, limit: Limit) -> None:
        """Leave another time limit for a supervisor. Atomic. Raises OSError on a full disk."""
        self._leave(key + LIMIT, limit.line())

    def _leave(self, name: str, raw: bytes) -> None:
        temporary = name + DRAFT
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o600, dir_fd=self.dir_fd)
        try:
            if os.write(fd, raw) != len(raw):
                raise OSError("no room for an order")
        except OSError:
            self._unlink(temporary)
            raise
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=self.dir_fd, dst_dir_fd=self.dir_fd)

    def forget(self, key: str, numbers: Iterable[int], account: str) -> None:
        """Set the bits, then remove the files of a part, its record last."""
        for number in numbers:
            self.mark.set(number)
        killpoint.reach(killpoint.FORGOTTEN)
        self._unlink(key + CONTROL)
        self._unlink(key + LIMIT)
        self._unlink(key + LOG)
        command.discard(self.dir_fd, key, account)
        self._unlink(key + RECORD)

    def drop_record(self, key: str) -> None:
        """Remove a record that never ran and whose bit is set."""
        self._unlink(key + CONTROL)
        self._unlink(key + LIMIT)
        self._unlink(key + RECORD)

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.dir_fd)

    def _drop_abandoned(self, name: str) -> None:
        """A temporary record that nobody locks. Its maker, if only slow, makes another one."""
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.dir_fd)
        except FileNotFoundError:
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            self._unlink(name)
        except BlockingIOError:
            return
        finally:
            os.close(fd)


def _spool_id(dir_fd: int) -> str:
    """The id that was made with the folder."""
    known = _read(dir_fd, "spool.id").strip().decode("ascii", "replace")
    if known:
        return known
    made = os.urandom(16).hex()
    _write_durably(dir_fd, "spool.id", made.encode("ascii") + b"\n")
    return made


def _stored_epoch(dir_fd: int) -> int:
    facts = unpack(_read(dir_fd, "epoch"))
    return int(facts[0]["epoch"]) if facts else 0


def _read(dir_fd: int, name: str) -> bytes:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=dir_fd)
    except FileNotFoundError:
        return b""
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _write_durably(dir_fd: int, name: str, raw: bytes) -> None:
    temporary = name + DRAFT
    fd = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=dir_fd
    )
    try:
        if os.write(fd, raw) != len(raw):
            raise OSError(f"no room for {name}")
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    os.fsync(dir_fd)
