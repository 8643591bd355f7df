"""What a node has and what it looks like now: cards, processors, memory, disk.

Cards come from NVML or are simulated, never both. Nothing here raises, and nothing is invented:
a card that does not answer is missing in the sample. A question to NVML may take long (a wedged
driver); ask where that holds up nobody.
"""

from __future__ import annotations

import os
import pwd
import time
from typing import Callable, Dict, List, Optional, Tuple

from . import hierarchy, simulate
from .nvml import Nvml, Reading
from .protocol import Gpu, GpuProcess, GpuSample, Sample

_MIB = 1024 * 1024


class Probe:
    """The senses of a runner. With `simulate_gpus` > 0 the node has that many simulated cards."""

    def __init__(self, simulate_gpus: int) -> None:
        self._simulate_gpus = simulate_gpus
        self._nvml = Nvml()
        self._accounts: Dict[int, str] = {}

    def gpus(self) -> Tuple[List[Gpu], str]:
        """The cards in PCI order, and why there are none, in NVML's own words."""
        if self._simulate_gpus > 0:
            return simulate.gpus(self._simulate_gpus), ""
        return self._nvml.gpus()

    def sample(self, spool: str, part_of: Callable[[int], str]) -> Sample:
        """The node now. `part_of` says to which part a pid belongs, "" = to none."""
        if self._simulate_gpus > 0:
            gpus = simulate.samples(self._simulate_gpus)
        else:
            gpus = [self._gpu_sample(reading, part_of) for reading in self._nvml.readings()]
        return Sample(
            at=time.time(),
            load1=_load1(),
            memory_available_mib=_memory_available_mib(),
            disk_free_mib=_disk_free_mib(spool),
            gpus=gpus,
        )

    def cpus(self) -> int:
        """The processors this process may use."""
        allowed = len(os.sched_getaffinity(0))
        quota = hierarchy.quota_cpus()
        return allowed if quota is None else max(1, min(allowed, int(quota)))

    def memory_mib(self) -> int:
        """The memory of the machine, or of the control group that we are locked into."""
        total = _meminfo_mib("MemTotal")
        room = hierarchy.room_mib()
        return total if room is None else min(total, room[0])

    def close(self) -> None:
        """Let go of the driver. A later question opens it again."""
        self._nvml.close()

    def _gpu_sample(self, reading: Reading, part_of: Callable[[int], str]) -> GpuSample:
        return GpuSample(
            uuid=reading.uuid,
            # The protocol has no "unknown" for these two; 0 is what an idle card shows.
            memory_used_mib=reading.memory_used_mib or 0,
            utilisation=reading.utilisation or 0,
            temperature_c=reading.temperature_c,
            power_w=reading.power_w,
            processes=[
                GpuProcess(
                    pid=pid,
                    account=self._account(pid),
                    memory_mib=memory_mib,
                    part=part_of(pid),
                    command=_command(pid),
                )
                for pid, memory_mib in sorted(reading.processes.items())
            ],
        )

    def _account(self, pid: int) -> str:
        """The name of a process's real user; "" for one that we cannot see."""
        uid = _uid(pid)
        if uid is None:
            return ""
        if uid not in self._accounts:  # a directory service may take its time
            try:
                self._accounts[uid] = pwd.getpwuid(uid).pw_name
            except KeyError:
                return str(uid)
        return self._accounts[uid]


def _uid(pid: int) -> Optional[int]:
    # The owner of /proc/PID is root for any process that is not dumpable: read its status.
    for line in (hierarchy.read(f"/proc/{pid}/status") or "").splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[1])
    return None


def _command(pid: int) -> str:
    raw = hierarchy.read(f"/proc/{pid}/comm") or ""
    return raw.rstrip("\n").encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _load1() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:
        return 0.0


def _memory_available_mib() -> int:
    available = _meminfo_mib("MemAvailable")
    room = hierarchy.room_mib()
    return available if room is None else min(available, room[1])


def _meminfo_mib(name: str) -> int:
    for line in (hierarchy.read("/proc/meminfo") or "").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) // 1024
    return 0


def _disk_free_mib(folder: str) -> int:
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize // _MIB
