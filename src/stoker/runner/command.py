"""What is executed: exact arguments, a line for the owner's shell, or a script.

A script (a text that begins with `#!`, or one too long for an argument) is put in a private file:
in the spool for the runner's own account, else in a root-owned folder that its owner can reach
but not write, so that removing it later by name is safe. The `#!` line is honoured by us, as
the kernel would, because the spool may be mounted noexec.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import List, Optional, Tuple

from .account import Account
from .layout import SCRIPT
from .protocol import Launch

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash", "mksh")
_LINE_MAX = 100_000
"""The kernel takes at most 128 KiB in one argument."""
_REACHABLE = "/run/stoker-scripts"


def arguments(launch: Launch, account: Account) -> Tuple[List[bytes], Optional[bytes]]:
    """The argument vector, and the text of a script whose path is to follow. Raises OSError."""
    if launch.argv:
        return [encoded(word) for word in launch.argv], None
    if not launch.shell.strip():
        raise OSError(errno.EINVAL, "there is no command")
    text = encoded(launch.shell)
    shell = _shell(account)
    if text.startswith(b"#!"):
        line = text[2:].split(b"\n", 1)[0].strip(b" \t")
        words = re.split(rb"[ \t]+", line, maxsplit=1)
        if not line:
            raise OSError(errno.ENOEXEC, "the #! line names no interpreter")
    elif len(text) > _LINE_MAX:
        words = [shell]
    else:
        return [shell, b"-c", text], None
    return words, text


def place(text: bytes, spool: str, key: str, owner: Account) -> bytes:
    """Write a script's file and say where it is. Raises OSError."""
    folder = spool
    if owner.uid != os.geteuid():
        folder = _REACHABLE
        _ensure_reachable()
    path = os.path.join(folder, key + SCRIPT)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o500)
    try:
        if os.write(fd, text) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if owner.uid != os.geteuid():
            os.fchown(fd, owner.uid, owner.gid)
    finally:
        os.close(fd)
    return os.fsencode(path)


def file_of(wish: str) -> str:
    """The path in a wish for stdout or stderr that names a file; a leading + means append."""
    return wish[1:] if wish.startswith("+") else wish


def encoded(text: str) -> bytes:
    """The exact bytes, whatever the locale is. A lone surrogate stands for one raw byte."""
    raw = text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise OSError(errno.EINVAL, "a NUL byte cannot be part of a command or its environment")
    return raw


def discard(dir_fd: int, key: str, account: str) -> None:
    """Remove the script's file, if there is one."""
    with contextlib.suppress(OSError):
        os.unlink(key + SCRIPT, dir_fd=dir_fd)
    if account:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(_REACHABLE, key + SCRIPT))


def _shell(account: Account) -> bytes:
    """The account's own shell if it takes `-c` as a POSIX shell does."""
    is_known = os.path.basename(account.shell) in _SHELLS
    return encoded(account.shell) if is_known else b"/bin/sh"


def _ensure_reachable() -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(_REACHABLE, 0o711)
    made = os.lstat(_REACHABLE)
    if made.st_uid != 0 or made.st_mode & 0o7777 != 0o711:
        raise PermissionError(errno.EPERM, "not a folder of root, mode 0711", _REACHABLE)
