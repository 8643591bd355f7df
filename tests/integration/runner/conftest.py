"""Real runners on real spools: as root with control groups, or as a plain user without any."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.runner_client import Client, RunnerProcess

NOBODY = 65534

StartRunner = Callable[..., RunnerProcess]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start_runner(place: Path) -> Iterator[StartRunner]:
    """Makes runners; ends them and everything they started."""
    made: list[RunnerProcess] = []

    def start(*options: str, spool: str = "spool", **settings: Any) -> RunnerProcess:
        runner = RunnerProcess(place / spool, **settings)
        made.append(runner)
        return runner.start(*options)

    yield start
    for runner in made:
        runner.end()


@pytest.fixture
def runner(start_runner: StartRunner) -> RunnerProcess:
    return start_runner()


@pytest.fixture
def client(runner: RunnerProcess) -> Client:
    return runner.client()


@pytest.fixture(scope="module")
def shared() -> Iterator[Client]:
    """One runner for all tests of a module that leave it as they found it."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-"))
    folder.chmod(0o777)
    runner = RunnerProcess(folder / "spool").start()
    yield runner.client()
    runner.end()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["grouped", "bare"])
def any_runner(request: pytest.FixtureRequest, start_runner: StartRunner) -> RunnerProcess:
    """With control groups (root), and without any (a plain user)."""
    if os.geteuid() != 0:
        if request.param == "grouped":
            pytest.skip("needs root: writable control groups")
        return start_runner()
    return start_runner(uid=NOBODY if request.param == "bare" else None)


@pytest.fixture
def points(place: Path) -> Path:
    """A folder for kill points."""
    folder = place / "points"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    return folder


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a small file system")
    folder = place / "small"
    folder.mkdir()
    mounted = os.system(f"mount -t tmpfs -o size=1m,mode=0777 tmpfs {folder}") == 0
    if not mounted:
        pytest.skip("needs root: mounts a small file system")
    yield folder
    os.system(f"umount -l {folder}")
