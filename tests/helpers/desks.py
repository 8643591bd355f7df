"""A person's own place: a home of their own, and the `stoker` command there, for a lab's server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.helpers.pseudo_terminal import PseudoTerminal

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = ("STOKER_", "LC_", "LANG")


class Desk:
    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.state = folder / "state"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(NOT_OURS)}
        self.env = kept | {
            "STOKER_HOME": str(self.state),
            "PYTHONPATH": str(ROOT / "src"),
            "LANG": "C.UTF-8",
        }
        self.env |= env

    def __call__(self, *args: str, typed: str = "", code: int = 0) -> str:
        """Run it with this on standard input and insist on its exit code; all that it said."""
        done = subprocess.run(
            [sys.executable, "-m", "stoker", *args],
            cwd=self.folder,
            env=self.env,
            input=typed.encode(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        assert done.returncode == code, f"{args[:3]}: {done.returncode}, {said}"
        assert "Traceback" not in said, said
        self.out, self.err = done.stdout.decode(), done.stderr.decode()
        return said

    def json(self, *args: str, typed: str = "") -> Any:
        self(*args, "--json", typed=typed)
        return json.loads(self.out)

    def at_terminal(self, *args: str) -> PseudoTerminal:
        return PseudoTerminal([sys.executable, "-m", "stoker", *args], self.env, self.folder, 120)


def answer(terminal: PseudoTerminal, *steps: tuple[str, str]) -> None:
    """Wait for each question, each time it is asked, then type its answer."""
    for number, (question, typed) in enumerate(steps, 1):
        times = sum(asked == question for asked, _ in steps[:number])
        terminal.until(partial(_asks, question, times))
        terminal.press(typed + "\r")


def _asks(question: str, times: int, text: str) -> bool:
    return text.count(question) >= times
