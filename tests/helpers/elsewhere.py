"""A fresh interpreter as on Windows or macOS, as far as that can be had on Linux; runs `stoker` in it.

    python elsewhere.py win32|darwin ARGS...     the command, as a person there types it
    python elsewhere.py win32|darwin --import A,B,C    only imports these modules

Modules that the system lacks cannot be imported, names that its `os`, `signal`, `socket` and
`select` lack are gone, and sys.platform and os.name say so. The standard library and click are
imported before: they look after themselves. Paths stay this machine's.
"""

from __future__ import annotations

import importlib
import importlib.abc
import os
import pathlib
import select
import selectors  # noqa: F401 - looks at `select` when it is imported
import signal
import socket
import ssl  # noqa: F401
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
from collections.abc import Sequence
from types import ModuleType

import click  # noqa: F401
from typing_extensions import override

NOT_ON_WINDOWS = frozenset(
    {
        "fcntl", "termios", "pwd", "grp", "resource", "pty", "tty", "syslog", "posix", "crypt",
        "spwd", "nis", "readline", "uvloop", "_posixsubprocess", "_posixshmem", "curses", "_curses",
    }
)  # fmt: skip
NOT_ON_MACOS = frozenset({"spwd", "ossaudiodev"})
GONE_ON_MACOS: dict[ModuleType, str] = {
    os: "pidfd_open memfd_create sched_getaffinity sched_setaffinity O_PATH O_TMPFILE getrandom "
    "splice copy_file_range eventfd posix_fadvise posix_fallocate setresuid getresuid",
    signal: "pidfd_send_signal SIGRTMIN SIGRTMAX SIGPWR SIGSTKFLT sigtimedwait sigwaitinfo",
    select: "epoll",
    socket: "AF_NETLINK SO_PEERCRED AF_VSOCK",
}
GONE_ON_WINDOWS: dict[ModuleType, str] = {
    os: GONE_ON_MACOS[os] + " getuid geteuid getgid getegid getgroups setuid setgid fork forkpty "
    "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC O_DSYNC killpg setsid getpgid setpgid getpgrp "
    "getsid waitid posix_spawn posix_spawnp pread pwrite preadv sysconf uname openpty ctermid mkfifo "
    "chown fchown lchown statvfs fstatvfs nice getpriority setpriority WNOHANG WIFEXITED sched_yield "
    "sync fdatasync getloadavg tcgetpgrp ttyname register_at_fork confstr pathconf chroot fchmod",
    signal: GONE_ON_MACOS[signal] + " SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGCONT SIGSTOP "
    "SIGTSTP SIGQUIT SIGPIPE SIGWINCH alarm pause setitimer pthread_sigmask pthread_kill sigwait "
    "set_wakeup_fd siginterrupt",
    select: GONE_ON_MACOS[select] + " poll",
    socket: GONE_ON_MACOS[socket] + " AF_UNIX socketpair SO_REUSEPORT",
}  # fmt: skip


class Missing(importlib.abc.MetaPathFinder):
    """Says of some modules that they are not there."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"not on {sys.platform}: {fullname}", name=fullname)


def pretend(platform: str) -> None:
    on_windows = platform == "win32"
    missing = NOT_ON_WINDOWS if on_windows else NOT_ON_MACOS
    for name in missing:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Missing(missing))
    for module, names in (GONE_ON_WINDOWS if on_windows else GONE_ON_MACOS).items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    sys.platform = platform
    if on_windows:
        os.name = "nt"
        pathlib.WindowsPath = pathlib.PosixPath  # type: ignore[assignment,misc] # the disk is this one


def main(platform: str, *args: str) -> None:
    pretend(platform)
    if args[:1] == ("--import",):
        for name in args[1].split(","):
            importlib.import_module(name)
        return
    sys.argv = ["stoker", *args]
    importlib.import_module("stoker.__main__").main()


if __name__ == "__main__":
    main(*sys.argv[1:])
