"""What the shells of this machine really say, and what `reason` makes of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from stoker.runner.protocol import Incarnation, Launch
from stoker.runner.reason import explain_exit


@pytest.fixture(params=["bash", "dash"])
def shell(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}")
    return name


def explained(folder: Path, *argv: str) -> tuple[str, str]:
    done = subprocess.run(
        argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False
    )
    launch = Launch(
        attempt="a1",
        rank=0,
        epoch=1,
        number=1,
        incarnation=Incarnation("boot", "spool"),
        task="1",
        node="n",
        workdir=str(folder),
        shell=argv[-1],
    )
    return explain_exit(done.returncode, None, done.stdout, 0, launch)


def test_a_missing_command(shell: str, tmp_path: Path) -> None:
    assert explained(tmp_path, shell, "-c", "echo on; pyhton train.py") == (
        "command_not_found",
        "pyhton",
    )
    assert explained(tmp_path, shell, "-c", "./nothing.sh") == ("command_not_found", "./nothing.sh")
    assert explained(tmp_path, shell, "-c", "env pyhton") == ("command_not_found", "pyhton")
    assert explained(tmp_path, shell, "-c", "pyhton || exit 3") == ("command_not_found", "pyhton")


def test_no_execute_bit(shell: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    assert explained(tmp_path, shell, "-c", "./run.sh") == ("not_executable", "./run.sh")


def test_windows_line_ends(shell: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_bytes(b"echo start\r\npyhton train.py\r\n\r\n")
    assert explained(tmp_path, shell, "run.sh")[0] == "windows_line_ends"
    (tmp_path / "set.sh").write_bytes(b"set -e\r\ntrue\r\n")
    assert explained(tmp_path, shell, "set.sh")[0] == "windows_line_ends"
    script = tmp_path / "tool.py"
    script.write_bytes(b"#!/usr/bin/env python3\r\nprint(1)\r\n")
    script.chmod(0o755)
    assert explained(tmp_path, shell, "-c", "./tool.py") == ("windows_line_ends", "python3")


def test_a_child_killed_by_a_signal(shell: str, tmp_path: Path) -> None:
    line = "sh -c 'kill -SEGV $$'; exit $?"
    assert explained(tmp_path, shell, "-c", line) == ("killed_by_signal", "SIGSEGV")


def test_a_full_disk(tmp_path: Path) -> None:
    line = "import os; os.write(os.open('/dev/full', os.O_WRONLY), b'x')"
    assert explained(tmp_path, "python3", "-c", line) == ("disk_full", "")


def test_a_missing_module(tmp_path: Path) -> None:
    assert explained(tmp_path, "python3", "-c", "import nothing.like_it") == (
        "module_missing",
        "nothing",
    )
    assert explained(tmp_path, "python3", "-m", "nothing") == ("module_missing", "nothing")
