"""Our processes of one home: found in /proc by the files they hold, signalled by identity.

Every search is limited to one home's own spool and witness, so that nothing else on the machine is
ever touched. A process that ends while we look is simply not found.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import zlib
from dataclasses import dataclass
from pathlib import Path

from stoker.runner.identity import Process, send, stat
from stoker.runner.lines import unpack

_KEY = re.compile(r"([0-9a-f]{32})\.\d+\.")


@dataclass(frozen=True)
class Found:
    """A process of ours; `attempt` for supervisors and witnesses."""

    kind: str
    process: Process
    state: str
    attempt: str = ""

    def signal(self, number: int) -> bool:
        """False when it is gone."""
        return send(self.process, number)

    def kill(self) -> bool:
        return self.signal(signal.SIGKILL)


def runner(spool: Path) -> Found | None:
    """Who holds `runner.lock`; None when nobody does."""
    try:
        facts = unpack((spool / "runner.lock").read_bytes())
    except FileNotFoundError:
        return None
    one = stat(facts[0]["pid"]) if facts else None
    if one is None or one.start != facts[0]["start"] or one.is_zombie:
        return None
    return Found("runner", Process(one.pid, one.start), one.state)


def find(spool: Path, witness: Path) -> list[Found]:
    """Every process of a home but the server: runner, forkers, supervisors, witnesses."""
    found = []
    holder = runner(spool)
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        one = stat(pid)
        if one is None or one.is_zombie or pid == os.getpid():
            continue
        who = Process(one.pid, one.start)
        if holder is not None and who == holder.process:
            found.append(holder)
        elif _executable(pid) == str(witness):
            found.append(Found("witness", who, one.state, _marked(pid)))
        elif one.name.startswith(("stoker", "python")):
            paths = _open_paths(pid)
            if str(spool) not in (path.removesuffix(" (deleted)") for path in paths):
                continue
            if one.name == "stoker-watch":
                # Its child has the same name until it becomes the command.
                parent = stat(one.parent)
                kind = "child" if parent and parent.name == one.name else "supervisor"
                found.append(Found(kind, who, one.state, _claimed(paths, spool)))
            elif one.name == "stoker-forker":
                # What it has just forked has its name until it takes its own.
                parent = stat(one.parent)
                kind = "nameless" if parent and parent.name == one.name else "forker"
                found.append(Found(kind, who, one.state))
            else:
                # A runner before its lock.
                found.append(Found("nameless", who, one.state))
    return found


def command_line(pid: int) -> list[str]:
    """Empty when the process is gone."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [word.decode() for word in raw.split(b"\0")[:-1]]


def remove_cgroups(spool: Path) -> None:
    """The folders of this spool's parts, which a killed forker cannot remove any more."""
    ours = re.compile(rf"/stoker-[^/]*-{zlib.crc32(os.fsencode(spool)):08x}(/|$)")
    # Deepest first; folders of others come and go meanwhile, which `walk` does not mind.
    for path, _, _ in os.walk("/sys/fs/cgroup", topdown=False):
        if ours.search(path):
            with contextlib.suppress(OSError):
                os.rmdir(path)


def _executable(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return ""


def _open_paths(pid: int) -> list[str]:
    paths: list[str] = []
    with contextlib.suppress(OSError):
        paths += (os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))
    return paths


def _claimed(paths: list[str], spool: Path) -> str:
    """The attempt of a supervisor: from the record (or temporary record) that it holds."""
    for path in paths:
        match = _KEY.match(path.removeprefix(f"{spool}/"))
        if match and ".log" not in path:
            return match[1]
    return ""


def _marked(pid: int) -> str:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    match = re.search(rb"STOKER_ATTEMPT=([0-9a-f]{32})", environ)
    return match[1].decode() if match else ""
