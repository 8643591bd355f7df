"""Standing by: have the records as soon as the server before us is gone.

Whoever waits holds a lock file of its own, so that others on this machine see that somebody does,
and a second one is refused. Nothing of the records is touched before their own locks are ours
(`recorder.open_store`); ending the wait at any moment leaves nothing behind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from stoker.domain.errors import StoreError

from .database import ServerLock
from .recorder import SqlStore, open_store

log = logging.getLogger("stoker.store")

WAITING = "standby.lock"
"""Beside the server's own lock file; holds the pid of who waits."""


def take_over(
    path_or_url: str | os.PathLike[str], *, lock: Path, tell: Callable[[StoreError], None]
) -> SqlStore:
    """Open the records, at once or when their server is gone; `tell` who that is, once.

    Blocks. StoreError `already_waits` when somebody else waits beside this lock.
    """
    try:
        return open_store(path_or_url, lock=lock)
    except StoreError as error:
        if error.code != "already_served":
            raise
        served = error
    try:
        waiting = ServerLock(lock.with_name(WAITING))
    except StoreError as error:
        raise StoreError("already_waits", pid=error.values["pid"]) from None
    with closing(waiting):
        tell(served)
        store = open_store(path_or_url, lock=lock, wait=True)
        log.warning("event=taken_over from=%r", str(served.values.get("pid", "?")))
        return store
