"""System calls that Python 3.8 does not offer, or offers at a price, through the C library.

Loaded once, before the forker forks. Every function raises OSError as the os module does. None
of them blocks, so they keep the interpreter's lock: that, and untyped arguments, touch far fewer
pages, and in a freshly forked process each page touched is a page copied.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from typing import Iterable

_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_SIG_SETMASK = 2
_SFD_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
_SIGSET_BYTES = 128
"""sigset_t in every C library on Linux: 1024 bits, signal n is bit n - 1."""
_EMPTY = bytes(_SIGSET_BYTES)

_CLONE3 = 435
"""The number of the system call, the same on every architecture."""
_CLONE_INTO_CGROUP = 1 << 33

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "loongarch64": 30, "ppc64le": 273}
"""This one's number is not."""
_IOPRIO_WHO_PROCESS = 1

_library = ctypes.PyDLL(None, use_errno=True)
_prctl = _library.prctl
_sigprocmask = _library.sigprocmask
_signalfd = _library.signalfd
_syscall = _library.syscall


def become_subreaper() -> None:
    """Orphaned descendants become our children, not init's. Not inherited by fork."""
    _checked(_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def forbid_dumps() -> None:
    """No core dump and no debugger, here and in what is forked from here; exec ends it."""
    _checked(_prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))


def set_name(name: bytes) -> None:
    """What `ps -o comm` shows (15 bytes)."""
    _checked(_prctl(_PR_SET_NAME, name, 0, 0, 0))


def unblock_signals() -> None:
    """An empty signal mask, for a process with one thread."""
    _checked(_sigprocmask(_SIG_SETMASK, _EMPTY, None))


def signal_fd(signals: Iterable[int]) -> int:
    """A descriptor that is readable while one of `signals` (blocked by the caller) is pending."""
    bits = bytearray(_SIGSET_BYTES)
    for number in signals:
        bits[(number - 1) // 8] |= 1 << (number - 1) % 8
    return _checked(_signalfd(-1, bytes(bits), _SFD_FLAGS))


def no_io_class() -> None:
    """The calling thread's disk priority follows its niceness, as is usual."""
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is not None:
        _checked(_syscall(number, _IOPRIO_WHO_PROCESS, 0, 0))


def fork_into(cgroup_fd: int) -> int:
    """fork(), with the child born in that v2 control group. OSError where the kernel cannot.

    For a process with one thread whose child soon calls exec: Python's own hooks do not run.
    """
    # flags, pidfd, child tid, parent tid, exit signal, stack, its size, tls, tids, their number
    wishes = (_CLONE_INTO_CGROUP, 0, 0, 0, int(signal.SIGCHLD), 0, 0, 0, 0, 0, cgroup_fd)
    arguments = struct.pack("11Q", *wishes)
    return _checked(_syscall(_CLONE3, arguments, len(arguments)))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
