"""Where this process stands in the control group hierarchies, and what they allow it.

Reads /proc/self/mountinfo, /proc/self/cgroup and the files below the mounts; makes no folder and
decides nothing (that is `cgroup.py`). A hierarchy is one v1 mount with its controllers, or the v2
mount. `proc` is a parameter so that a folder tree can stand for the system.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import FrozenSet, List, Optional

PROC = "/proc/self"
MIB = 1024 * 1024


@dataclass(frozen=True)
class Hierarchy:
    """One mounted hierarchy, and this process's place in it."""

    version: int
    controllers: FrozenSet[str]
    """Of a v1 mount. Empty for v2: there each folder says its own in cgroup.controllers."""
    mount: str
    own: str
    """The folder of this process; the mount itself when its own one is not visible."""

    def upward(self) -> List[str]:
        """The own folder and its ancestors, up to the mount."""
        folders = [self.own]
        while folders[-1] != self.mount:
            folders.append(os.path.dirname(folders[-1]))
        return folders


def hierarchies(proc: str = PROC) -> List[Hierarchy]:
    """Every mounted hierarchy of this process; none on a system without control groups."""
    paths = _own_paths(read(os.path.join(proc, "cgroup")) or "")
    found = []
    for line in (read(os.path.join(proc, "mountinfo")) or "").splitlines():
        before, _, after = line.partition(" - ")
        places, kinds = before.split(), after.split()
        if len(places) < 5 or len(kinds) < 3 or kinds[0] not in ("cgroup", "cgroup2"):
            continue
        version = 2 if kinds[0] == "cgroup2" else 1
        options = frozenset(kinds[2].split(","))
        controllers = frozenset() if version == 2 else _matching(options, paths)
        if version == 1 and not controllers:
            continue
        path = paths.get("" if version == 2 else min(controllers))
        root, mount = _unescape(places[3]), _unescape(places[4])
        found.append(Hierarchy(version, controllers, mount, _visible(mount, root, path)))
    return found


def quota_cpus(proc: str = PROC) -> Optional[float]:
    """The processors that the control groups of this process allow it; None = no quota."""
    quotas = []
    for hierarchy in hierarchies(proc):
        for folder in hierarchy.upward():
            if hierarchy.version == 2:
                words = (read(os.path.join(folder, "cpu.max")) or "").split()
            elif "cpu" in hierarchy.controllers:
                names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                words = "".join(read(os.path.join(folder, n)) or "" for n in names).split()
            else:
                break
            # `max` and -1 mean none.
            if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
                quotas.append(int(words[0]) / int(words[1]))
    return min(quotas) if quotas else None


def room_mib(proc: str = PROC) -> Optional[tuple[int, int]]:
    """(limit, free) of the tightest memory limit on this process; None = no limit."""
    rooms = []
    for hierarchy in hierarchies(proc):
        if hierarchy.version == 2:
            limit_name, usage_name = "memory.max", "memory.current"
        elif "memory" in hierarchy.controllers:
            limit_name, usage_name = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        for folder in hierarchy.upward():
            limit = (read(os.path.join(folder, limit_name)) or "").strip()
            usage = (read(os.path.join(folder, usage_name)) or "").strip()
            # v1 says "none" as the largest multiple of a page below 2**63.
            if limit.isdigit() and int(limit) < 1 << 60:
                used = int(usage) if usage.isdigit() else 0
                rooms.append((int(limit) // MIB, max(0, int(limit) - used) // MIB))
    return min(rooms) if rooms else None


def read(path: str) -> Optional[str]:
    """The text of a small file; None when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "surrogateescape")
    except OSError:
        return None


def _own_paths(text: str) -> dict[str, str]:
    """Controller to path, from lines like `4:cpu,cpuacct:/a/b`; the v2 line has the name ""."""
    paths = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for name in names.split(","):
            paths[name] = path
    return paths


def _matching(options: FrozenSet[str], paths: dict[str, str]) -> FrozenSet[str]:
    return frozenset(name for name in paths if name and name in options)


def _visible(mount: str, root: str, path: Optional[str]) -> str:
    """The folder below `mount` for `path`; a container may see only the part below `root`."""
    if path is None:
        return mount
    below = os.path.relpath(path, root)
    folder = os.path.normpath(os.path.join(mount, below))
    if below.split("/")[0] == ".." or not os.path.isdir(folder):
        return mount
    return folder


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)
