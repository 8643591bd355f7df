"""Arming kill points, and watching processes that have reached one."""

from __future__ import annotations

import os
from pathlib import Path

from tests.helpers.runner_client import RunnerProcess, wait_until


def pause_at(points: Path, point: str) -> None:
    """The next process that gets there stops itself."""
    (points / f"{point}.pause").touch()


def kill_at(points: Path, point: str) -> None:
    """The next process that gets there kills itself."""
    (points / point).touch()


def reached(points: Path, point: str) -> None:
    """Wait until an armed death has happened."""
    wait_until(lambda: not (points / point).exists(), f"somebody at {point}")


def paused(runner: RunnerProcess) -> int:
    """The supervisor that has stopped itself at a kill point."""

    def stopped() -> int:
        return next((pid for pid in runner.supervisors() if state_of(pid) == "T"), 0)

    return wait_until(stopped, "a paused supervisor")


def state_of(pid: int) -> str:
    """The one-letter state of a process; "" = there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def counting(place: Path) -> tuple[Path, str]:
    """A file with one line per run, and the shell line that adds one."""
    runs = place / "runs"
    runs.touch()
    runs.chmod(0o666)
    return runs, f"echo run >> {runs}"


def descriptors(pid: int) -> set[str]:
    """What the descriptors of a process lead to."""
    folder = Path(f"/proc/{pid}/fd")
    return {os.readlink(folder / name) for name in os.listdir(folder)}


def children(pid: int) -> list[int]:
    """The children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def numbers_in(path: Path, count: int) -> list[int]:
    """The numbers in a file once it has `count` whole lines; until then none."""
    text = path.read_text() if path.exists() else ""
    words = text.split()
    return [int(word) for word in words] if len(words) == count and text.endswith("\n") else []
