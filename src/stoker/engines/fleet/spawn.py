"""Starting a runner as a process of its own, which outlives whoever starts it. No asyncio here: the
small process that root leaves beside a server uses it too."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

NOT_FOR_THE_RUNNER = ("STOKER_TOKEN", "STOKER_URL", "STOKER_HOME", "STOKER_DATABASE")


def for_runner(environ: Mapping[str, str]) -> dict[str, str]:
    """What a runner may know of our environment."""
    return {k: v for k, v in environ.items() if k not in NOT_FOR_THE_RUNNER}


def log_of(spool: Path) -> Path:
    return spool.parent / "runner.log"


def spawn(
    program: Path,
    spool: Path,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    python: str = sys.executable,
) -> int:
    """Its pid. A session of its own, nothing of ours but its log: it goes on when we do not."""
    command = [python, "-I", "-S", str(program), "serve", "--spool", str(spool), *arguments]
    spool.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Root's log may be in a folder that others write to: nobody leads it elsewhere.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    out = os.open(log_of(spool), flags, 0o600)
    try:
        return os.posix_spawn(
            python,
            command,
            environ,
            setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out, 1),
                (os.POSIX_SPAWN_DUP2, out, 2),
            ],
        )
    finally:
        os.close(out)
