"""`stoker service` through the real command; what it prints is read by systemd's own checker.

A restart under a real systemd needs a machine that is run by one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.cli.systemd import BOOTED
from stoker.cli.unit import Unit, unit_text

from .conftest import Stoker

LATER = ("RestartSteps", "RestartMaxDelaySec")
"""Keys that older ones than systemd 254 say they ignore."""


@pytest.fixture
def unstarted(tmp_path: Path) -> Stoker:
    """Only its command is used: there is nothing to end."""
    return Stoker(tmp_path)


def verify(text: str, folder: Path, *, is_system: bool) -> subprocess.CompletedProcess[str]:
    """What systemd says to this unit."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    path = folder / "units" / "stoker.service"
    path.parent.mkdir()
    path.write_text(text)
    return subprocess.run(
        [
            "systemd-analyze",
            "--system" if is_system else "--user",
            "verify",
            "--man=no",
            str(path),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"XDG_RUNTIME_DIR": str(folder)},
    )


@pytest.mark.parametrize("is_system", [True, False], ids=["system", "user"])
@pytest.mark.parametrize("options", [(), ("--nice", "5", "--io-class", "idle")], ids=["", "nice"])
def test_systemd_accepts_the_unit(
    unstarted: Stoker, options: tuple[str, ...], is_system: bool
) -> None:
    home = str(unstarted.folder / "a b 100% 训练 \"q\" \\ 'x'")
    if is_system == (os.geteuid() == 0):
        unstarted.env["STOKER_HOME"] = home
        text = unstarted("service", "print", *options).stdout
    else:
        text = unit_text(Unit(sys.executable, home, is_system, *((5, "idle") if options else ())))

    done = verify(text, unstarted.folder, is_system=is_system)

    complaints = [
        line for line in done.stderr.splitlines() if not any(key in line for key in LATER)
    ]
    assert [line for line in complaints if "stoker" in line] == []
    assert done.returncode == 0, done.stderr
    assert f'ExecStart="{sys.executable}" -m stoker up' in text
    assert "100%% 训练" in text


def test_the_checker_would_notice(unstarted: Stoker) -> None:
    text = unstarted("service", "print").stdout.replace("KillMode=process", "KillMode=sometimes")
    done = verify(text, unstarted.folder, is_system=os.geteuid() == 0)
    assert "sometimes" in done.stderr


def test_without_systemd_nothing_is_written(unstarted: Stoker) -> None:
    if BOOTED.is_dir():
        pytest.skip("this machine is run by systemd")
    said = unstarted("service", "install", code=2).stderr
    line = f"@reboot STOKER_HOME={unstarted.home} {sys.executable} -m stoker up --detach"
    assert line in said
    facts = unstarted("service", "status", "--json").stdout
    assert '"installed": false' in facts
    assert "There is no service" in unstarted("service", "uninstall").stdout
    assert "server   no server of" in unstarted("service", "status").stdout
    assert "nice: " in unstarted("service", "install", "--nice", "20", code=2).stderr
    assert "io_class: " in unstarted("service", "print", "--io-class", "realtime", code=2).stderr


def test_tasks_do_not_inherit_the_priority_of_the_server(own: Stoker) -> None:
    up = own.command("up", "--detach", "--simulate-gpus", "1", "--listen", "127.0.0.1:0")
    subprocess.run(["nice", "-n", "5", "ionice", "-c", "3", *up], env=own.env, check=True)
    assert os.getpriority(os.PRIO_PROCESS, own.server_pid) == 5

    id = own.submit("-c", "nice; ionice")
    own("wait", id)

    niceness, disks = own.output(id).decode().split(maxsplit=1)
    assert "idle" not in disks
    if os.geteuid() == 0:  # a plain account may not take it back
        assert niceness == "0"
