"""The systemd of this machine or of this account: where its units are, and asking it to do things.

Talks to `systemctl` and `loginctl` only, with exact arguments and no shell.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from .unit import NAME

BOOTED = Path("/run/systemd/system")
"""Is there when systemd runs the machine (sd_booted)."""
PATIENCE_S = 120


class Done(NamedTuple):
    """What was asked, and what came of it."""

    words: str
    code: int
    out: str
    err: str


class Systemd:
    """`is_system`: of the machine, for root; else of this account."""

    def __init__(self, folder: Path, *, is_system: bool) -> None:
        self.is_system = is_system
        self.path = folder / NAME

    @classmethod
    def here(cls) -> Systemd:
        if os.geteuid() == 0:
            return cls(Path("/etc/systemd/system"), is_system=True)
        config = os.environ.get("XDG_CONFIG_HOME", "")
        base = Path(config) if config.startswith("/") else Path(os.path.expanduser("~/.config"))
        return cls(base / "systemd" / "user", is_system=False)

    @property
    def manager(self) -> str:
        """As one types it."""
        return "systemctl" if self.is_system else "systemctl --user"

    def ask(self, *arguments: str) -> Done:
        """One call of systemctl. OSError when there is none."""
        return _run([*self.manager.split(), *arguments])

    def says(self, question: str) -> str:
        """`is-enabled` or `is-active`, as one word."""
        try:
            return self.ask(question, NAME).out.strip() or "unknown"
        except OSError:
            return "unknown"

    @property
    def lingers(self) -> bool:
        """Whether services of this account run without a login. The machine's always do."""
        if self.is_system:
            return True
        try:
            done = _run(["loginctl", "show-user", str(os.getuid()), "--property=Linger"])
        except OSError:
            return False
        return done.out.strip() == "Linger=yes"


def _run(command: list[str]) -> Done:
    env = dict(os.environ)
    own = f"/run/user/{os.getuid()}"
    if not env.get("XDG_RUNTIME_DIR") and os.path.isdir(own):  # after su, or from cron
        env["XDG_RUNTIME_DIR"] = own
    done = subprocess.run(  # noqa: S603 - exact arguments, no shell
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=env,
        timeout=PATIENCE_S,
        check=False,
    )
    return Done(" ".join(command), done.returncode, done.stdout, done.stderr)
