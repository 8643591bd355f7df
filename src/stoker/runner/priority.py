"""How important this process is to the kernel, for processor and disks.

A server may run nicely behind everything else; tasks are what the machine is for. Whatever starts
under the runner inherits from it, so the runner takes it back once, before it forks anything.
"""

from __future__ import annotations

import contextlib
import os

from . import libc


def be_normal() -> None:
    """Not nicer than others, and no idle disk class. Where that is not allowed, as before.

    A negative niceness stays: somebody with the right to it wanted it.
    """
    with contextlib.suppress(OSError):  # a plain account may not, unless it was granted
        if os.getpriority(os.PRIO_PROCESS, 0) > 0:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
    with contextlib.suppress(OSError):
        libc.no_io_class()
