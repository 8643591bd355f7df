"""Acts on one cgroup folder, v1 or v2: limits, members, kill, removal.

Which kind a folder is shows in the files that the kernel put there. Files are written without
O_CREAT: a name that the kernel does not offer is an error, never a new file. What is gone already
counts as done. Nothing here waits for a process to end.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Dict, Iterator, List, Optional, Set

from .hierarchy import read

_PERIOD_US = 100_000
_ROUNDS = 20
"""How often a kill looks again for children that were forked meanwhile."""


def write(folder: str, name: str, text: str) -> None:
    """One write to a file that must exist."""
    fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode("ascii"))
    finally:
        os.close(fd)


def try_write(folder: str, name: str, text: str) -> bool:
    """As `write`; False when it was refused."""
    try:
        write(folder, name, text)
    except OSError:
        return False
    return True


def limit(folder: str, controller: str, amount: int) -> None:
    """Set `amount` processors (cpu) or MiB (memory). Raises OSError when it does not hold."""
    if controller == "cpu":
        _limit_cpus(folder, amount)
    else:
        _limit_memory(folder, amount)


def can_limit(folder: str, controller: str) -> bool:
    """Whether a limit can be set there, tried with one."""
    try:
        limit(folder, controller, 1 if controller == "cpu" else 1024)
    except OSError:
        return False
    return True


def members(folder: str) -> Set[int]:
    """The processes in it and below it; no zombies."""
    found: Set[int] = set()
    for path in deepest_first(folder):
        found.update(int(word) for word in (read(path + "/cgroup.procs") or "").split())
    # 0 stands for a process of another pid namespace: not ours to signal.
    found.discard(0)
    return found


def kill(folder: str) -> None:
    """SIGKILL for every process in it and below it, those forked meanwhile included."""
    if not os.path.isdir(folder) or try_write(folder, "cgroup.kill", "1"):
        return
    # No new children: by count where the pids controller is, else by freezing.
    try_write(folder, "pids.max", "0")
    frozen = [
        thaw
        for freeze, thaw in (
            (("cgroup.freeze", "1"), ("cgroup.freeze", "0")),
            (("freezer.state", "FROZEN"), ("freezer.state", "THAWED")),
        )
        if try_write(folder, *freeze)
    ]
    try:
        signalled: Set[int] = set()
        for _ in range(_ROUNDS):
            new = members(folder) - signalled
            if not new:
                break
            _signal(folder, new)
            signalled |= new
    finally:
        for thaw in frozen:  # v1 delivers even SIGKILL only then
            try_write(folder, *thaw)


def oom_kills(folder: str) -> int:
    """How many of its processes the kernel has killed for want of memory."""
    for name in ("memory.events", "memory.oom_control"):
        for line in (read(os.path.join(folder, name)) or "").splitlines():
            words = line.split()
            if len(words) == 2 and words[0] == "oom_kill" and words[1].isdigit():
                return int(words[1])
    return 0


def deepest_first(folder: str) -> Iterator[str]:
    """The folder after everything below it (a task may make groups of its own)."""
    for path in subfolders(folder):
        yield from deepest_first(path)
    yield folder


def subfolders(folder: str) -> List[str]:
    """The folders directly in it; none when it is gone."""
    try:
        # A cgroup folder has 2 + its subfolders links: most are leaves and need no listing.
        if os.stat(folder).st_nlink == 2:
            return []
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def make(path: str) -> None:
    """Make a folder unless it is there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o755)


def remove(path: str) -> None:
    """Remove a folder; one that is gone, or still in use, is left as it is."""
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _limit_cpus(folder: str, cpus: int) -> None:
    quota = cpus * _PERIOD_US
    if os.path.exists(os.path.join(folder, "cpu.max")):
        write(folder, "cpu.max", f"{quota} {_PERIOD_US}")
        return
    write(folder, "cpu.cfs_period_us", str(_PERIOD_US))
    write(folder, "cpu.cfs_quota_us", str(quota))


def _limit_memory(folder: str, mib: int) -> None:
    size = str(mib << 20)
    if os.path.exists(os.path.join(folder, "memory.max")):
        write(folder, "memory.max", size)
        try_write(folder, "memory.swap.max", "0")  # not there on a kernel without swap
        return
    write(folder, "memory.limit_in_bytes", size)
    # memsw counts memory plus swap and may not be below the limit: it comes second. Kernels with
    # swapaccount=0 have none; then the part is at least not swapped out by choice.
    if not try_write(folder, "memory.memsw.limit_in_bytes", size):
        try_write(folder, "memory.swappiness", "0")


def _signal(folder: str, pids: Set[int]) -> None:
    """KILL by pidfd, after a second look: a number may have passed to a stranger meanwhile."""
    handles: Dict[int, int] = {}
    try:
        for pid in pids:
            handle = _pidfd(pid)
            if handle is not None:
                handles[pid] = handle
        for pid in pids & members(folder):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if pid in handles:
                    signal.pidfd_send_signal(handles[pid], signal.SIGKILL)
                else:
                    os.kill(pid, signal.SIGKILL)
    finally:
        for handle in handles.values():
            os.close(handle)


def _pidfd(pid: int) -> Optional[int]:
    """None before Python 3.9 or Linux 5.3, without a descriptor left, or for a dead process."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
