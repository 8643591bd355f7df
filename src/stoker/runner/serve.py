"""`serve`: a runner, from its start to its loop. The order of the first steps matters.

The forker comes first, while this process has nothing that a supervisor must not inherit (lock,
sockets, threads, NVML), and before the imports that only the runner needs, so that forking stays
cheap. Starting detaches nothing: whoever starts us gives us a session and a log file.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import zlib
from typing import Optional

from . import account, forker, killpoint, libc, lock, priority
from .cgroup import Cgroups
from .note import note
from .spool import Spool, SpoolRefused, open_folder

OK, FAILED, REFUSED = 0, 1, 2


def serve(
    path: str,
    *,
    replace: bool,
    simulate_gpus: int,
    node: str,
    admission: Optional[account.Admission] = None,
) -> int:
    """Run until ended by a signal; an exit code otherwise. `admission`: many accounts are served."""
    if admission is not None and os.geteuid() != 0:
        note("only root can serve many accounts")
        return REFUSED
    killpoint.arm(os.environ.get("STOKER_KILL_POINTS", ""))
    _prepare_process()
    path = os.path.abspath(path)
    try:
        dir_fd = open_folder(path, None if admission is None else admission.server_gid)
    except SpoolRefused as refusal:
        note(str(refusal))
        return REFUSED
    os.chdir("/")
    if admission is not None:
        libc.forbid_dumps()  # passwords pass through
    cgroups = Cgroups.find(group_name(path, node))
    forker_pid, link = forker.start(path, dir_fd, cgroups, admission)
    if lock.take(dir_fd, replace=replace) is None:
        note(f"a runner serves {path} already")
        return FAILED if replace else OK
    try:
        spool = Spool(path, dir_fd)
    except OSError as error:
        note(f"cannot use {path}: {error}")
        return FAILED
    if admission is not None:
        spool.show_id(admission.server_gid)
    try:
        spool.ended.prune()
    except OSError as error:  # a full disk: another time
        note(f"cannot shorten ended.jsonl: {error}")
    server_uid = None if admission is None else admission.server_uid
    return _serve_spool(
        spool, cgroups, forker_pid, link, simulate_gpus=simulate_gpus, server_uid=server_uid
    )


def group_name(path: str, node: str) -> str:
    """The same for every runner of this folder, another one for another folder."""
    plain = "".join(c if c.isalnum() and c.isascii() else "-" for c in node)[:40] or "node"
    return f"{plain}-{zlib.crc32(os.fsencode(path)):08x}"


def _serve_spool(
    spool: Spool,
    cgroups: Cgroups,
    forker_pid: int,
    link: socket.socket,
    *,
    simulate_gpus: int,
    server_uid: Optional[int],
) -> int:
    # Not above: the forker has been forked without these, and stays small.
    from .build import build_id  # noqa: PLC0415
    from .loop import ForkerGone, Loop, SpoolGone  # noqa: PLC0415
    from .protocol import Hello  # noqa: PLC0415

    hello = Hello(
        incarnation=spool.incarnation,
        build=build_id(),
        pid=os.getpid(),
        epoch=0,
        highest=0,
        hostname=socket.gethostname(),
        cpus=0,
        memory_mib=0,
        limits=cgroups.limits,
        account=account.own().name,
        root=os.geteuid() == 0,
    )
    try:
        Loop(
            spool=spool,
            cgroups=cgroups,
            forker_pid=forker_pid,
            link=link,
            simulate_gpus=simulate_gpus,
            hello=hello,
            server_uid=server_uid,
        ).run()
    except SpoolGone:
        note(f"{spool.path} was deleted: nothing can be recorded any more")
    except ForkerGone:
        note("the forker died")
    return FAILED


def _prepare_process() -> None:
    """Survive a closed terminal; leak nothing; be endable."""
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= 2:  # it has filled a closed 0, 1 or 2
        fd = os.open(os.devnull, os.O_RDWR)
    os.close(fd)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the listing's own descriptor
                os.set_inheritable(int(name), False)
    priority.be_normal()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o077)
