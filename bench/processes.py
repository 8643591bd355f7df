"""Processes of a bench run, found by its private folder: who they are, how busy, how to end them.

Only processes whose command line, STOKER_HOME or working folder names that folder, and their
children, are ever touched. The folder's name is random, so nobody else's can match.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

CONTROL = Path("/sys/fs/cgroup")
TICKS = os.sysconf("SC_CLK_TCK")


def processes_of(folder: Path) -> set[int]:
    """Pids of everything that was started for `folder`, without ourselves."""
    children: dict[int, list[int]] = {}
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        pid = int(name)
        with contextlib.suppress(OSError):
            children.setdefault(_parent(pid), []).append(pid)
            if _names(pid, str(folder)):
                found.append(pid)
    every: set[int] = set()
    while found:
        pid = found.pop()
        if pid not in every:
            every.add(pid)
            found += children.get(pid, [])
    return every


def end_all(folder: Path, patience_s: float = 30.0) -> None:
    """Kill what is left, one by one, until nothing is; then remove their control groups."""
    deadline = time.monotonic() + patience_s
    groups: set[Path] = set()
    while left := processes_of(folder):
        for pid in left:
            groups |= _control_groups(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"these processes do not end: {sorted(left)}")
        time.sleep(0.05)
    for group in [*groups, *{group.parent for group in groups}]:
        with contextlib.suppress(OSError):
            group.rmdir()


def settle(pids: set[int], quiet_s: float = 0.2, patience_s: float = 30.0) -> None:
    """Wait until these processes do next to nothing: work they still owe is not our figure's."""
    deadline = time.monotonic() + patience_s
    before = _cpu_s(pids)
    while time.monotonic() < deadline:
        time.sleep(quiet_s)
        now = _cpu_s(pids)
        if now - before <= 0.1 * quiet_s:
            return
        before = now


def is_gone(pid: int) -> bool:
    """Ended: its files and locks are free, whether or not its parent has noticed."""
    try:
        return _stat(pid)[0] in "ZX"
    except OSError:
        return True


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM, now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _control_groups(pid: int) -> set[Path]:
    """Those that were made for one task: `.../stoker-<name>/<task>`."""
    found: set[Path] = set()
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if Path(path).parent.name.startswith("stoker-"):
                name = controllers.partition("=")[2] or controllers or "unified"
                found |= {CONTROL / path[1:], CONTROL / name / path[1:]}
    return found


def _names(pid: int, folder: str) -> bool:
    if folder.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
        return True
    if f"STOKER_HOME={folder}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes():
        return True
    where = os.readlink(f"/proc/{pid}/cwd")
    return where == folder or where.startswith(folder + "/")


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _cpu_s(pids: set[int]) -> float:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = _stat(pid)
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may hold anything: state first, then the parent."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
