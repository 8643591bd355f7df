"""The forker: a clean, single-threaded child of the runner that forks supervisors.

Started before the runner's lock, sockets, threads and NVML exist, so that no supervisor can
inherit them. It outlives its runner until its last supervisor is gone. As a child subreaper it
gets the processes of a supervisor that was killed, and ends them: every child that it did not
fork. All signals are blocked here and in everything it forks; they arrive through a signalfd.

From the runner come lines `<verb> <key> <JSON>`; back go lines `died <key>` for supervisors that
did not end in order, and for every call that has ended, in order or not.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import traceback
from typing import Dict, List, Optional, Tuple

from . import account, calls, libc, readlog
from .calldesk import KEY as CALL_KEY
from .cgroup import Cgroups
from .identity import boot_id, stat
from .note import note
from .prepare import Prepared, prepare
from .setting import Setting
from .supervise import supervise

LAUNCH, READ, CALL = b"launch", b"read", b"call"
_FAILED = 70
_STRAY_POLL_MS = 100
_CHUNK = 1 << 16


def start(
    spool: str, dir_fd: int, cgroups: Cgroups, admission: Optional[account.Admission] = None
) -> Tuple[int, socket.socket]:
    """Fork the forker. Its pid and our end of the line to it."""
    ours, theirs = socket.socketpair()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        return pid, ours
    try:
        ours.close()
        os.setsid()
        libc.become_subreaper()
        libc.set_name(b"stoker-forker")
        _restore_dispositions()
        _Forker(theirs, _setting(spool, dir_fd, cgroups, admission)).run()
        os._exit(0)
    except BaseException:
        note("the forker failed: " + traceback.format_exc())
        os._exit(_FAILED)


class _Forker:
    def __init__(self, link: socket.socket, setting: Setting) -> None:
        self._link = link
        self._setting = setting
        self._children: Dict[int, str] = {}
        """Those we forked: pid to the part's key."""
        self._buffer = b""
        self._is_orphan = False
        self._may_have_strays = False
        self._signals = libc.signal_fd([signal.SIGCHLD])
        # What is alive now is shared with all supervisors; collecting would only copy its pages.
        gc.disable()
        gc.freeze()

    def run(self) -> None:
        """Until the runner is gone, and every child too."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        poll.register(self._link, select.POLLIN)
        while not self._is_orphan or self._children or self._may_have_strays:
            ready = dict(poll.poll(_STRAY_POLL_MS if self._may_have_strays else None))
            if self._link.fileno() in ready:
                self._receive()
                if self._is_orphan:
                    poll.unregister(self._link)
            if self._signals in ready:
                os.read(self._signals, 4096)
            self._reap()
        self._setting.cgroups.remove()

    def _receive(self) -> None:
        data = b""
        with contextlib.suppress(ConnectionResetError):
            data = self._link.recv(_CHUNK)
        if not data:
            self._is_orphan = True
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._fork(line)

    def _fork(self, line: bytes) -> None:
        verb, key, raw = line.split(b" ", 2)
        setting = self._setting
        try:
            prepared = None
            if verb == LAUNCH:
                prepared = prepare(
                    raw,
                    setting.mine,
                    setting.boot_id,
                    setting.base,
                    serves_many=setting.admission is not None,
                )
            pid = os.fork()
        except (OSError, ValueError) as error:  # the server sends it again
            note(f"cannot start {key.decode()}: {error}")
            return
        if pid == 0:
            self._become_child(verb, prepared, raw)
        self._children[pid] = key.decode("ascii")

    def _become_child(self, verb: bytes, prepared: Optional[Prepared], raw: bytes) -> None:
        status = 0
        try:
            # The runner must see end of file when we die, whoever else lives on.
            self._link.close()
            os.close(self._signals)
            if prepared is not None:
                supervise(prepared, self._setting)
            elif verb == CALL:
                calls.answer_as_owner(raw, self._setting)
            else:
                readlog.read_as_owner(raw, self._setting)
        except BaseException:
            status = _FAILED
            note(traceback.format_exc())
        finally:
            os._exit(status)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                key = self._children.pop(pid, "")
                # A call runs programs of the account, which may have left something behind.
                if key and (status or key.startswith(CALL_KEY)):
                    self._may_have_strays = True
                    self._tell(key)
        if self._may_have_strays:
            self._may_have_strays = self._end_strays()

    def _tell(self, key: str) -> None:
        with contextlib.suppress(OSError):  # the runner rescans anyway
            self._link.send(b"died " + key.encode("ascii") + b"\n", socket.MSG_DONTWAIT)

    def _end_strays(self) -> bool:
        """KILL what a dead supervisor left to us; True while there is any."""
        strays = [pid for pid in _own_children() if pid not in self._children]
        for pid in strays:
            # Our own child, not yet reaped: the number cannot belong to anybody else.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return bool(strays)


def _restore_dispositions() -> None:
    """A command starts with all signals at their defaults; here they are blocked anyway."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is not None:
            signal.signal(number, signal.SIG_DFL)


def _setting(
    spool: str, dir_fd: int, cgroups: Cgroups, admission: Optional[account.Admission]
) -> Setting:
    return Setting(
        spool=spool,
        dir_fd=dir_fd,
        null_fd=os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC),
        notices=socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
        boot_id=boot_id(),
        mine=account.own(),
        base=dict(os.environ),
        cgroups=cgroups,
        admission=admission,
    )


def _own_children() -> List[int]:
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        every = (stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
        return [one.pid for one in every if one is not None and one.parent == me]
