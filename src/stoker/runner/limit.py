"""`A.R.lim`: a part's time limit, once it is no longer that of its launch.

Written by the runner alone and whole; read by the supervisor, which needs no word about it: it
looks before it lets a limit count, and whenever it wakes up. So whoever comes first wins, and a
runner that dies has lost nothing. Needs no fsync: it only matters within one boot.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Optional, Tuple

from .layout import LIMIT
from .lines import pack, unpack


@dataclass(frozen=True)
class Limit:
    """What a server said, and when it did: the highest (epoch, serial) is the newest word."""

    limit_s: Optional[float]
    """From the start; None = none."""
    epoch: int
    serial: int

    @property
    def age(self) -> Tuple[int, int]:
        return self.epoch, self.serial

    def line(self) -> bytes:
        return pack({"limit_s": self.limit_s, "epoch": self.epoch, "serial": self.serial})


def read(dir_fd: int, key: str) -> Optional[Limit]:
    """None: it is as at the launch, as nearly always."""
    if not os.access(key + LIMIT, os.F_OK, dir_fd=dir_fd):
        return None
    try:
        fd = os.open(key + LIMIT, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=dir_fd)
    except OSError:
        return None
    try:
        facts = unpack(os.read(fd, 4096))
    finally:
        os.close(fd)
    if not facts:
        return None
    limit_s = facts[0]["limit_s"]
    return Limit(
        None if limit_s is None else float(limit_s), int(facts[0]["epoch"]), int(facts[0]["serial"])
    )
