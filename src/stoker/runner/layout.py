"""Names in the spool folder (PROTOCOL 2), in one place."""

from __future__ import annotations

import re
from typing import Optional, Tuple

RECORD = ".rec"
LOG = ".log"
CONTROL = ".ctl"
LIMIT = ".lim"
"""A part's time limit, when it is no longer that of its launch."""
SCRIPT = ".script"
TEMPORARY = ".tmp"
"""A record before its claim; removed when nobody locks it."""
DRAFT = ".new"
"""A file about to be renamed by its only writer, the runner."""

SOCKET = "runner.sock"
NOTICES = "runner.dgram"

_KEY = re.compile(r"([0-9A-Za-z_-]{1,64})\.([0-9]{1,6})")


def split_key(key: str) -> Optional[Tuple[str, int]]:
    """Attempt and rank of a part's key; None for anything else, such as a path."""
    match = _KEY.fullmatch(key)
    return (match[1], int(match[2])) if match else None


def socket_path(dir_fd: int, name: str) -> str:
    """A path for bind and connect that stays below 108 bytes however deep the folder is."""
    return f"/proc/self/fd/{dir_fd}/{name}"
