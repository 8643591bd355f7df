"""Supervisors that our own forker did not fork: watched one by one, for nobody tells their death.

They are left by a forker that died, or whose runner was replaced. A pidfd becomes readable when its
process ends. Where none is to be had (Python 3.8, no descriptor left) the next rescan finds out.
"""

from __future__ import annotations

import os
import selectors
from typing import Callable, Dict

from .identity import Process, is_there, stat


class Vigil:
    """`died(key)` is called in the loop when the supervisor of a part is gone, however it ended."""

    def __init__(
        self, forker_pid: int, selector: selectors.BaseSelector, died: Callable[[str], None]
    ) -> None:
        self._forker_pid = forker_pid
        self._selector = selector
        self._died = died
        self._handles: Dict[Process, int] = {}

    def keep(self, key: str, supervisor: Process) -> None:
        """Watch it, unless our forker does, or we do already. May be repeated."""
        if supervisor in self._handles or not hasattr(os, "pidfd_open"):
            return
        found = stat(supervisor.pid)
        if found is None or found.parent == self._forker_pid:
            return
        try:
            handle = os.pidfd_open(supervisor.pid)
        except OSError:
            return
        if not is_there(supervisor):  # the number may have passed on to a stranger
            os.close(handle)
            return
        self._handles[supervisor] = handle
        self._selector.register(
            handle, selectors.EVENT_READ, lambda _mask: self._end(key, supervisor)
        )

    def _end(self, key: str, supervisor: Process) -> None:
        handle = self._handles.pop(supervisor)
        self._selector.unregister(handle)
        os.close(handle)
        self._died(key)
