"""A thread that asks the probe: what the node has (once), then a sample every few seconds.

NVML may hang in a wedged driver; then samples stop, and nothing else does. The thread changes
nothing; each answer is handed to `deliver`, which must be safe to call from here.
"""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Union

from .ending import marker
from .identity import stat
from .note import note
from .probe import Probe
from .protocol import Gpu, Sample

_EVERY_S = 3.0
_OWN_GROUP = re.compile(r"/stoker-[^/]+/([0-9A-Za-z_-]+\.[0-9]+)(?:/|$)", re.MULTILINE)


@dataclass(frozen=True)
class Equipment:
    """What a node has."""

    cpus: int
    memory_mib: int
    gpus: List[Gpu] = field(default_factory=list)
    gpu_error: str = ""


def unanswered(after_s: float) -> Equipment:
    """What can be said of a node whose probe does not answer."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    said = f"the GPU driver has not answered for {after_s:.0f} s"
    return Equipment(os.cpu_count() or 1, pages * size >> 20, gpu_error=said)


class Senses:
    """The probe in a thread."""

    def __init__(
        self,
        simulate_gpus: int,
        spool: str,
        owners: Callable[[], Dict[int, str]],
        deliver: Callable[[Union[Equipment, Sample]], None],
    ) -> None:
        self._simulate_gpus = simulate_gpus
        self._spool = spool
        self._owners = owners
        self._deliver = deliver

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._run, name="senses", daemon=True).start()

    def _run(self) -> None:
        probe = Probe(self._simulate_gpus)
        gpus, error = probe.gpus()
        self._deliver(Equipment(probe.cpus(), probe.memory_mib(), gpus, error))
        while True:
            try:
                self._deliver(probe.sample(self._spool, self._part_of))
            except Exception as failure:
                note(f"no sample: {failure!r}")
            time.sleep(_EVERY_S)

    def _part_of(self, pid: int) -> str:
        """The part that a process belongs to; "" = foreign, or of a part that is over."""
        return part_of(pid, self._owners())


def part_of(pid: int, owners: Dict[int, str]) -> str:
    """By marker, cgroup or ancestor; `owners` are the supervisors and main processes."""
    alive = set(owners.values())
    seen = 0
    while pid > 1 and seen < 100:
        if pid in owners:
            return owners[pid]
        for key in (marker(pid), _grouped(pid)):
            if key in alive:
                return key
        found = stat(pid)
        if found is None:
            return ""
        pid, seen = found.parent, seen + 1
    return ""


def _grouped(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            match = _OWN_GROUP.search(file.read())
    except OSError:
        return ""
    return match[1] if match else ""
