"""The first bytes of a program that exec refused, so that `reason.py` can say why.

Must be called by the child that has become the owner, in the working folder, after exec failed:
what the owner may not read stays unread. Never raises and never blocks.
"""

from __future__ import annotations

import os
import stat
from typing import Optional

_ENOUGH = 256
"""The kernel itself looks no further for a #! line."""


def head(word: str, path: str) -> Optional[bytes]:
    """What the file that exec meant by `word` begins with; `path` is PATH. None = no such file."""
    folders = [""] if "/" in word else path.split(os.pathsep)
    for folder in folders:
        found = _read(os.path.join(folder, word))
        if found is not None:
            return found
    return None


def _read(name: str) -> Optional[bytes]:
    try:
        # NONBLOCK: opening a pipe must not wait for its writer.
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        return os.read(fd, _ENOUGH) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)
