"""One task that writes 300 MiB as fast as it can: its log is capped, and nobody else notices."""

from __future__ import annotations

from pathlib import Path

from .conftest import Stoker, until

SIZE = 300 << 20
KEPT = 256 << 20
SLACK = 2 << 20
FLAT = 48 << 20
"""How much a server may grow meanwhile: a few chunks on their way, never the log."""


def test_a_flood_is_capped_and_harms_nobody(own: Stoker) -> None:
    own.up()
    own.submit("-c", "true")
    own("wait", "1")
    before = peak(own.server_pid)
    line = "x" * 99
    flood = own.submit("--gpus", "1", "-c", f"yes {line} | head -c {SIZE}")
    follower = own.begin("logs", "-f", flood)
    others = [own.submit("--gpus", "1", "-c", f"echo {number}") for number in range(5)]
    own("wait", *others)
    assert [own.output(id).decode() for id in others] == [f"{n}\n" for n in range(5)]

    followed = 0
    assert follower.stdout is not None
    while chunk := follower.stdout.read(1 << 20):
        followed += len(chunk)
    own("wait", flood)

    assert own.task(flood)["outcome"] == "succeeded"
    assert followed > KEPT - SLACK
    until(lambda: copies(own))
    (copy,) = copies(own)
    status = copy.stat()
    assert status.st_size > SIZE
    assert status.st_blocks * 512 <= KEPT + SLACK
    until(lambda: not list((own.home / "spool").glob("*.log")))
    assert own("logs", "--tail", "2", flood).stdout.splitlines()[0] == line
    assert peak(own.server_pid) - before < FLAT


def copies(own: Stoker) -> list[Path]:
    return [p for p in (own.home / "logs").glob("*/*.stdout") if p.stat().st_size > SIZE]


def peak(pid: int) -> int:
    """The most memory a process has had, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError
