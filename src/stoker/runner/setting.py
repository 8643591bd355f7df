"""What every supervisor needs from its forker: made once, shared by fork, never changed."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Mapping, Optional

from .account import Account, Admission
from .cgroup import Cgroups


@dataclass(frozen=True)
class Setting:
    """Descriptors and facts that are the same for all parts of a spool."""

    spool: str
    dir_fd: int
    null_fd: int
    """/dev/null, open for reading and writing."""
    notices: socket.socket
    """Unbound datagram socket; never blocks."""
    boot_id: str
    mine: Account
    base: Mapping[str, str]
    """The runner's environment."""
    cgroups: Cgroups
    admission: Optional[Admission] = None
    """Many accounts are served; None = the runner's own, and it is everybody's."""
