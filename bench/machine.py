"""Where a figure is measured: how busy the machine is, and a folder on a real disk."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def describe(folder: Path) -> str:
    """One paragraph that belongs above every table."""
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} cores, load {load} · Python {platform.python_version()} ({sys.executable})"
        f" · Linux {platform.release()}\nstate in {folder} ({file_system(folder)})"
    )


@contextlib.contextmanager
def workplace(given: Path | None) -> Iterator[Path]:
    """A new private folder on a real disk, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-bench-", dir=given or _real_disk()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def file_system(path: Path) -> str:
    """The type of the file system that `path` is on."""
    target = os.path.realpath(path)
    best, kind = "", "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        mount = left.split(" ")[4]
        inside = target == mount or target.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, right.split(" ")[0]
    return kind


def _real_disk() -> Path:
    """Durable figures in memory would be a lie."""
    for name in (tempfile.gettempdir(), "/var/tmp", os.path.expanduser("~")):
        if file_system(Path(name)) not in IN_MEMORY:
            return Path(name)
    sys.exit("bench: no folder on a real disk found; name one with --dir")
