"""Simulated cards, for a node without GPUs: they can be given to tasks and measure nothing.

A card's identity depends on the machine's name and the index only, so that it stays the same
over restarts and reboots.
"""

from __future__ import annotations

import hashlib
import os
from typing import List

from .protocol import Gpu, GpuSample

MODEL = "Simulated GPU"
MEMORY_MIB = 24_576


def gpus(count: int) -> List[Gpu]:
    """`count` cards of this machine."""
    machine = hashlib.sha256(os.uname().nodename.encode("utf-8", "surrogateescape")).hexdigest()
    return [
        Gpu(
            index=index,
            uuid=f"SIM-{machine[:12]}-{index}",
            model=MODEL,
            memory_mib=MEMORY_MIB,
            simulated=True,
        )
        for index in range(count)
    ]


def samples(count: int) -> List[GpuSample]:
    """What they show: nothing is in use and nothing is invented."""
    return [GpuSample(uuid=gpu.uuid, memory_used_mib=0, utilisation=0) for gpu in gpus(count)]
