"""What is left of a part: finding its processes and signalling them (PROTOCOL 3.5, 5).

A process belongs to a part if it is in its cgroup, carries its marker in the environment, is in
the session of its main process while that lives, or descends from one that does. Reading
environments can hang on a process that the kernel holds: never call this from the runner's loop.
Zombies hold nothing and do not count.
"""

from __future__ import annotations

import os
import signal
from typing import Collection, Dict, Iterable, List, Optional, Set

from .identity import Process, Stat, send, stat
from .layout import RECORD, TEMPORARY
from .protocol import MARKER

_MARKER = b"\0" + MARKER.encode("ascii") + b"="


class Snapshot:
    """Every process, as /proc listed it at one moment. Environments are read when asked for."""

    def __init__(self) -> None:
        self.stats: Dict[int, Stat] = {}
        self._markers: Optional[Dict[int, str]] = None
        for name in os.listdir("/proc"):
            if name.isdigit():
                found = stat(int(name))
                if found is not None and not found.is_zombie:
                    self.stats[found.pid] = found

    def marked(self, key: str) -> Set[int]:
        """The processes that carry the marker of a part."""
        if self._markers is None:
            self._markers = {pid: marker(pid) for pid in self.stats}
        return {pid for pid, value in self._markers.items() if value == key}

    def of_session(self, leader: Process) -> Set[int]:
        """The members of a session whose leader is still that very process.

        Without its leader a session's number proves nothing: it may have been used again.
        """
        found = self.stats.get(leader.pid)
        if found is None or found.start != leader.start:
            return set()
        return {pid for pid, one in self.stats.items() if one.session == leader.pid}

    def descendants(self, roots: Iterable[int]) -> Set[int]:
        """Children, their children and so on; the roots themselves are not included."""
        children: Dict[int, List[int]] = {}
        for one in self.stats.values():
            children.setdefault(one.parent, []).append(one.pid)
        found: Set[int] = set()
        waiting = list(roots)
        while waiting:
            for pid in children.get(waiting.pop(), ()):
                if pid not in found:
                    found.add(pid)
                    waiting.append(pid)
        return found

    def left(
        self,
        key: str,
        *,
        grouped: Collection[int],
        leader: Optional[Process] = None,
        ancestor: Optional[int] = None,
        spare: Collection[int] = (),
    ) -> Dict[int, Stat]:
        """What is left of a part: by cgroup, session leader, marker, and below `ancestor`."""
        found = set(grouped) | self.marked(key)
        if leader is not None:
            found |= self.of_session(leader)
        if ancestor is not None:
            found |= self.descendants([ancestor])
        found |= self.descendants(found)
        return {pid: self.stats[pid] for pid in found.difference(spare) if pid in self.stats}


def signal_all(processes: Dict[int, Stat], number: int) -> None:
    """Signal each of them, if it is still the one that was seen."""
    for one in processes.values():
        send(Process(one.pid, one.start), number)
        if number == signal.SIGTERM:
            send(Process(one.pid, one.start), signal.SIGCONT)  # a stopped one must hear it too


def why_stuck(processes: Dict[int, Stat]) -> str:
    """One line about processes that survive KILL."""
    shown = [f"process {one.pid} ({one.name}) survives SIGKILL, state {one.state}"
             for one in sorted(processes.values(), key=lambda one: one.pid)[:3]]  # fmt: skip
    more = len(processes) - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more > 0 else "")


def marker(pid: int) -> str:
    """The part whose marker a process carries; "" when none, or not ours to read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = b"\0" + file.read()
    except OSError:
        return ""
    _, found, rest = text.partition(_MARKER)
    return rest.partition(b"\0")[0].decode("ascii", "replace") if found else ""


def supervisors(key: str, spare: Collection[int]) -> Dict[int, Stat]:
    """Who has the record of a part open, whatever folder it was in, deleted or not.

    They carry no marker: this is how one is found that could still begin the command.
    """
    found: Dict[int, Stat] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in spare and _has_open(int(name), key + "."):
            one = stat(int(name))
            if one is not None and not one.is_zombie:
                found[one.pid] = one
    return found


def _has_open(pid: int, prefix: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        base = os.path.basename(target)
        if base.endswith(" (deleted)"):
            base = base[: -len(" (deleted)")]
        if base.startswith(prefix) and base.endswith((RECORD, TEMPORARY)):
            return True
    return False
