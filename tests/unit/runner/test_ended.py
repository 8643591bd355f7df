"""The ends of the last 30 days."""

from __future__ import annotations

import os
import time
from pathlib import Path

from stoker.runner.ended import Ended

DAY = 86400


def test_the_latest_end_of_a_part_is_found(tmp_path: Path) -> None:
    ended = Ended(os.open(tmp_path, os.O_RDONLY))
    assert ended.find("a.0") is None
    for n, key in enumerate(("a.0", "b.0", "a.0", "aa.0")):
        ended.append({"key": key, "at": 1.0, "n": n})
    assert ended.find("a.0") == {"key": "a.0", "at": 1.0, "n": 2}
    assert ended.find("b.0") == {"key": "b.0", "at": 1.0, "n": 1}
    assert ended.find("c.0") is None


def test_a_torn_or_forged_line_is_passed_over(tmp_path: Path) -> None:
    ended = Ended(os.open(tmp_path, os.O_RDONLY))
    ended.append({"key": "a.0", "at": 1.0})
    with (tmp_path / "ended.jsonl").open("ab") as file:
        file.write(b'{"key":"a.0","at":2.0} 00000000\n{"key":"a.0"')
    assert ended.find("a.0") == {"key": "a.0", "at": 1.0}


def test_old_ends_are_dropped_and_nothing_is_written_otherwise(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    ended = Ended(folder)
    now = time.time()
    for key, days in (("old.0", 31), ("kept.0", 29), ("new.0", 0)):
        ended.append({"key": key, "at": now - days * DAY})
    ended.prune()
    assert ended.find("old.0") is None
    assert ended.find("kept.0")
    inode = (tmp_path / "ended.jsonl").stat().st_ino
    ended.prune()
    assert (tmp_path / "ended.jsonl").stat().st_ino == inode
    ended.append({"key": "later.0", "at": now})
    assert Ended(folder).find("later.0")
