"""The witness program from Python: building it, the commands that run it, reading what it said."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from .history import Line

SOURCE = Path(__file__).with_name("witness.c")


def build(target: Path) -> Path:
    """Compile the witness to `target`."""
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(target), str(SOURCE)]
    subprocess.run(command, check=True)
    return target


class Witness:
    """The program at `path`, testifying to `file`."""

    def __init__(self, path: Path, file: Path) -> None:
        self.path, self.file = path, file
        file.touch()

    def command(
        self,
        run_ms: int = 60_000,
        *,
        until: Path | None = None,
        code: int = 0,
        tick_ms: int = 20,
        signal: int = 0,
        ignore_term: bool = False,
        child: str = "",
        child_ms: int = 60_000,
    ) -> list[str]:
        """Arguments for a task. It runs for `run_ms`, or until the file `until` is there.

        `child`: setsid, double-fork or no-environment.
        """
        words: list[Any] = [self.path, self.file, "--run-ms", run_ms, "--tick-ms", tick_ms]
        words += ["--until", until] if until else []
        words += ["--code", code] if code else []
        words += ["--signal", signal] if signal else []
        words += ["--child", child, "--child-ms", child_ms] if child else []
        words += ["--ignore-term"] if ignore_term else []
        return [str(word) for word in words]

    def lines(self) -> list[Line]:
        """Everything that was said so far. A line that is being written does not count."""
        said = self.file.read_bytes().split(b"\n")[:-1]
        return [_line(json.loads(raw)) for raw in said]

    def has_said(self, what: str, *, task: str, who: str = "main") -> bool:
        return any((one.what, one.task, one.who) == (what, task, who) for one in self.lines())


def _line(body: dict[str, Any]) -> Line:
    return Line(
        task=body["task"],
        attempt=body["attempt"].partition(".")[0],
        pid=body["pid"],
        boot=body["boot"],
        ns=body["ns"],
        wall_ns=body["wall"],
        what=body["what"],
        who=body["who"],
        gpus=tuple(int(word) for word in body["gpus"].split(",") if word),
        code=body["code"],
    )
