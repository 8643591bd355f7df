"""A bare pid is never signalled: the start time is compared before and after the handle."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from stoker.runner import identity
from stoker.runner.identity import Process, is_there, send, start_time, stat


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "100"])
    yield process
    process.kill()
    process.wait()


def test_the_very_process_is_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    who = Process(sleeper.pid, start_time(sleeper.pid))
    assert is_there(who)
    assert send(who, signal.SIGTERM)
    assert sleeper.wait(10) == -signal.SIGTERM
    assert not is_there(who)
    assert not send(who, signal.SIGTERM)


def test_a_reused_pid_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    stranger = Process(sleeper.pid, start_time(sleeper.pid) - 1)
    assert not is_there(stranger)
    assert not send(stranger, signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_pid_that_passes_on_while_the_handle_is_taken_is_left_alone(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number belongs to somebody else by the time the handle is open."""
    who = Process(sleeper.pid, start_time(sleeper.pid))
    real = os.pidfd_open

    def late(pid: int, flags: int = 0) -> int:
        handle = real(pid, flags)
        monkeypatch.setattr(identity, "stat", lambda _: None)
        return handle

    monkeypatch.setattr(os, "pidfd_open", late)
    assert not send(who, signal.SIGKILL)
    assert sleeper.poll() is None


def test_without_pidfd_the_comparison_still_guards(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert not send(Process(sleeper.pid, 1), signal.SIGKILL)
    assert send(Process(sleeper.pid, start_time(sleeper.pid)), signal.SIGKILL)
    assert sleeper.wait(10) == -signal.SIGKILL


def test_init_and_nobody_are_never_signalled() -> None:
    assert not send(Process(1, start_time(1)), 0)
    assert not send(Process(0, 0), 0)


def test_a_zombie_has_ended() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    found = stat(process.pid)
    assert found is not None
    assert found.is_zombie
    assert not is_there(Process(process.pid, found.start))
    process.wait()


def test_a_name_with_parentheses_and_spaces_is_read(tmp_path: object) -> None:
    script = "import time; open('/proc/self/comm', 'w').write('a) R 1 (b'); print(); time.sleep(99)"
    with subprocess.Popen(["python3", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = stat(process.pid)
        process.kill()
    assert found is not None
    assert (found.name, found.parent) == ("a) R 1 (b", os.getpid())
