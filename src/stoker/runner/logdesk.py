"""Answers to ReadLog: at once from our own log, later for files of the owner's.

Those are read by a process that becomes the owner (`readlog`), which answers under a ticket; a
ticket that stays open too long (a file server that hangs) is answered with an error.
"""

from __future__ import annotations

import time
from typing import Callable, Dict, Tuple

from . import readlog
from .layout import split_key
from .protocol import LogData, ReadLog, part_key
from .record import look
from .spool import Spool

_PATIENCE_S = 15.0

Reply = Callable[[LogData], None]


class LogDesk:
    """`run_errand(key, line)` has a process forked that becomes the owner."""

    def __init__(self, spool: Spool, run_errand: Callable[[str, bytes], None]) -> None:
        self._spool = spool
        self._run_errand = run_errand
        self._last = 0
        self._open: Dict[int, Tuple[int, Reply, float]] = {}

    def ask(self, order: ReadLog, reply: Reply) -> None:
        """Answer now or later. Raises ValueError for what is not a part."""
        key = part_key(order.attempt, order.rank)
        if split_key(key) is None:
            raise ValueError(f"not a part: {key!r}")
        record = look(self._spool.dir_fd, key)
        if record is None:
            reply(LogData(order.id, order.offset, 0, error=readlog.MISSING))
            return
        path = readlog.destination(record, order.stream)
        if path == "discard":
            reply(LogData(order.id, order.offset, 0, error=readlog.DISCARDED))
            return
        if not path:
            reply(readlog.read_own(self._spool.dir_fd, key, order))
            return
        self._last += 1
        self._open[self._last] = (order.id, reply, time.monotonic() + _PATIENCE_S)
        account = str(record.claim.get("account", ""))
        errand = readlog.Errand(self._last, account, path, order.offset, order.limit)
        self._run_errand(key, errand.line())

    def answer(self, found: LogData) -> None:
        """From a process that became the owner; a late one has no ticket any more."""
        waiting = self._open.pop(found.id, None)
        if waiting is not None:
            name, reply, _ = waiting
            reply(LogData(name, found.offset, found.size, found.data, found.error))

    def give_up(self, now: float) -> None:
        """Answer what has waited too long."""
        for ticket, (name, reply, until) in list(self._open.items()):
            if now >= until:
                del self._open[ticket]
                reply(LogData(name, 0, 0, error="the file does not answer"))
