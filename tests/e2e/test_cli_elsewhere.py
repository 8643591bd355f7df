"""The command line and the SDK on a laptop: no POSIX modules, a server that is another machine.

Windows and macOS are pretended (helpers/elsewhere.py); the server is real, named by STOKER_URL and
STOKER_TOKEN or by client.toml.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.run import COMMANDS, ON_THE_SERVER

from .conftest import ROOT, Stoker

HELPER = ROOT / "tests" / "helpers" / "elsewhere.py"
SYSTEMS = ("win32", "darwin")


class Laptop:
    """An account on another system that knows a server by address and token only."""

    def __init__(self, system: str, folder: Path, server: Stoker | None) -> None:
        self.system, self.folder = system, folder
        self.state = (
            folder / "Local" / "stoker" if system == "win32" else folder / "state" / "stoker"
        )
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(folder),
            "LOCALAPPDATA": str(folder / "Local"),
            "XDG_STATE_HOME": str(folder / "state"),
            "LANG": "C.UTF-8",
        }
        if server is not None:
            url, token = address(server)
            self.env |= {"STOKER_URL": url, "STOKER_TOKEN": token}

    def __call__(self, *args: str, code: int = 0) -> str:
        """Run `stoker`; its output, of a refusal the one line that says why."""
        done = subprocess.run(
            [sys.executable, str(HELPER), self.system, *args],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, f"{args}: {done.returncode}\n{done.stdout}{done.stderr}"
        if code in (2, 3):
            assert done.stderr.count("\n") == 1, done.stderr
            return done.stderr
        return done.stdout

    def json(self, *args: str, code: int = 0) -> Any:
        command, *rest = args
        return json.loads(self(command, "--json", *rest, code=code))


def address(server: Stoker) -> tuple[str, str]:
    url = json.loads((server.home / "server.json").read_text())["url"]
    return str(url), (server.home / "token").read_text().strip()


@pytest.fixture(params=SYSTEMS)
def laptop(request: pytest.FixtureRequest, tmp_path: Path, stoker: Stoker) -> Laptop:
    return Laptop(request.param, tmp_path, stoker)


@pytest.fixture
def windows(tmp_path: Path, stoker: Stoker) -> Laptop:
    return Laptop("win32", tmp_path, stoker)


@pytest.mark.parametrize("module", ["fcntl", "pwd", "stoker.cli.alive", "stoker.store.database"])
def test_the_pretence_holds(tmp_path: Path, module: str) -> None:
    """What needs POSIX cannot be imported there, so a green test means something."""
    with pytest.raises(AssertionError, match="not on win32"):
        Laptop("win32", tmp_path, None)("--import", module)


@pytest.mark.parametrize("system", SYSTEMS)
def test_everything_of_a_client_can_be_imported(tmp_path: Path, system: str) -> None:
    modules = ["stoker", "stoker.client", "stoker.wire", "stoker.text", "stoker.__main__"]
    modules += [
        f"stoker.cli.{name.replace('-', '_')}" for name in COMMANDS if name not in ON_THE_SERVER
    ]
    Laptop(system, tmp_path, None)("--import", ",".join(modules))


@pytest.mark.parametrize("system", SYSTEMS)
def test_only_what_belongs_to_the_server_refuses(tmp_path: Path, system: str) -> None:
    elsewhere = Laptop(system, tmp_path, None)
    overview = elsewhere("--help")
    assert all(name in overview for name in COMMANDS)
    for name in ON_THE_SERVER:
        said = elsewhere(name, code=2)
        assert f"`stoker {name}` works on the machine that serves" in said
        assert "STOKER_URL" in said


def test_a_day_on_a_laptop(laptop: Laptop, stoker: Stoker) -> None:
    folder = str(stoker.work)
    id = laptop.json("submit", "-w", folder, "-n", "first", "-c", "echo $PWD", "-o", "out.txt")[
        "id"
    ]
    assert f"Task {id} (first): succeeded" in laptop("wait", id)
    assert (stoker.work / "out.txt").read_text().strip() == folder
    assert folder in laptop("show", id)
    second = laptop.json("submit", "-w", folder, "--", "printf", r"%s\n", r"C:\a", "训练")["id"]
    laptop("wait", second)
    assert "C:\\a\n训练\n" in laptop("logs", "-f", second)
    assert "C:\\a\n训练\n" in laptop("logs", second)
    holder = laptop.json("submit", "-w", folder, "-g", "4", "--", "sleep", "600")["id"]
    waiting = laptop.json("submit", "-w", folder, "-g", "1", "-n", "later", "--", "true")["id"]
    assert f"Task {waiting} (later) waits" in laptop("why", waiting)
    assert "later" in laptop("ls")
    laptop("edit", waiting, "-n", "sooner")
    assert "sooner" in laptop("ls")
    laptop("cancel", waiting, holder)
    assert {task["outcome"] for task in laptop.json("wait", waiting, holder, code=1)} == {
        "cancelled"
    }
    assert [len(node["cards"]) for node in laptop.json("nodes")] == [4]
    assert laptop.json("version")["server"]["home"] == str(stoker.home)


def test_a_signal_is_named_as_linux_names_it(laptop: Laptop, stoker: Stoker) -> None:
    id = laptop.json("submit", "-w", str(stoker.work), "-c", "kill -USR1 $$")["id"]
    laptop("wait", id, code=1)
    assert "SIGUSR1" in laptop("show", id)


def test_a_folder_of_windows_is_not_sent(windows: Laptop) -> None:
    for typed in ([], ["-w", r"C:\Users\ana"], ["-w", "project"], ["-w", "~/project"]):
        said = windows("submit", *typed, "--", "true", code=2)
        assert said.startswith("stoker: workdir: ")
        assert "-w /data/project" in said
    for path in (r"C:\out.txt", r"logs\out.txt", "~/out.txt"):
        said = windows("submit", "-w", "/tmp", "--stderr", path, "--", "true", code=2)
        assert said.startswith("stoker: stderr: ")


def test_a_script_of_windows_needs_no_execute_bit(windows: Laptop, stoker: Stoker) -> None:
    script = windows.folder / "train.sh"
    script.write_text("#!/bin/sh\necho from a script\n")
    script.chmod(0o755)  # as every file there looks
    id = windows.json("submit", "-w", str(stoker.work), "train.sh")["id"]
    windows("wait", id)
    assert "from a script\n" in windows("logs", id)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_server_that_is_written_down(tmp_path: Path, stoker: Stoker, system: str) -> None:
    elsewhere = Laptop(system, tmp_path, None)
    said = elsewhere("ls", code=3)
    assert "No server is named" in said
    assert str(elsewhere.state) in said
    url, token = address(stoker)
    elsewhere.state.mkdir(parents=True)
    # as Notepad writes it
    (elsewhere.state / "client.toml").write_bytes(
        f'\ufeffurl = "{url}/"\r\ntoken = "{token}"\r\n'.encode()
    )
    (elsewhere.state / "client.toml").chmod(0o600)
    assert elsewhere.json("ls", "-a") == stoker.json("ls", "-a")
    elsewhere.env["STOKER_URL"] = "http://127.0.0.1:1"
    assert "is the way to it (an SSH tunnel) open?" in elsewhere("ls", code=3)
