"""Whether a restore was decided and then killed. Apart, because every start asks and few need more."""

from __future__ import annotations

from pathlib import Path

JOURNAL = "restore.json"


def is_pending(home: Path) -> bool:
    """`restore.finish` brings it to its end."""
    return (home / JOURNAL).exists()
