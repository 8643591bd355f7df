"""runner.lock: who holds it, and a holder of another boot is nobody."""

from __future__ import annotations

import os
from pathlib import Path

from stoker.runner import lock
from stoker.runner.identity import Process, start_time
from stoker.runner.lines import pack


def test_the_holder_is_named_inside(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    fd = lock.take(folder, replace=False)
    assert fd is not None
    assert lock.holder(fd) == Process(os.getpid(), start_time(os.getpid()))
    assert lock.take(folder, replace=False) is None
    os.close(fd)
    assert lock.take(folder, replace=False) is not None


def test_a_holder_of_another_boot_is_nobody(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    fd = lock.take(folder, replace=False)
    assert fd is not None
    os.pwrite(fd, pack({"boot": "another", "pid": os.getpid(), "start": 1}).ljust(256, b"\0"), 0)
    assert lock.holder(fd) is None
