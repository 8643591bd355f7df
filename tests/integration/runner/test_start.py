"""How a runner starts and what its hello says; a spool however deep; attach; the build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.runner import protocol
from stoker.runner.build import build_id
from stoker.runner.protocol import Greeting, Hello, Listing, LogData, ReadLog, Sample
from tests.helpers.runner_client import Client, RunnerProcess, runner_file, wait_until
from tests.integration.runner.conftest import StartRunner


def test_hello_says_who_answers(start_runner: StartRunner) -> None:
    runner = start_runner(simulate_gpus=3)
    hello = runner.client(epoch=4).hello
    assert hello is not None
    assert (hello.pid, hello.epoch, hello.highest) == (runner.pid, 4, 0)
    assert hello.build == build_id()
    assert [gpu.index for gpu in hello.gpus] == [0, 1, 2]
    assert hello.cpus > 0
    assert hello.memory_mib > 0
    assert hello.root == (os.geteuid() == 0)
    assert hello.incarnation.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_samples_keep_coming(start_runner: StartRunner) -> None:
    client = start_runner(simulate_gpus=1).client()
    sample = client.expect(Sample)
    assert len(sample.gpus) == 1
    assert sample.disk_free_mib > 0


def test_a_spool_may_be_deeper_than_a_socket_path(start_runner: StartRunner) -> None:
    runner = start_runner(spool="d" * 100 + "/" + "e" * 100)
    client = runner.client()
    assert client.ended(client.launch("true")).exit is not None


def test_a_spool_of_another_account_is_refused(place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes a folder of another account")
    (place / "spool").mkdir()
    os.chown(place / "spool", 12345, 12345)
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(runner_file()), "serve", "--spool", str(place / "spool")],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "another account" in done.stderr


def test_a_runner_survives_closed_stdio_and_a_hangup(place: Path) -> None:
    runner = RunnerProcess(place / "spool")
    runner.log.touch()
    command = f"{sys.executable} -I -S {runner_file()} serve --spool {runner.spool}"
    runner.process = subprocess.Popen(
        ["sh", "-c", f"exec {command} <&- >&- 2>&-"], env=runner.env, start_new_session=True
    )
    try:
        client = runner.client()
        os.kill(runner.pid, 1)
        launch = client.launch("echo", "x")
        end = client.ended(launch).exit
        assert end is not None
        assert end.code == 0
    finally:
        runner.end()


def test_attach_joins_stdio_to_the_runner(runner: RunnerProcess, client: Client) -> None:
    launch = client.launch("true")
    client.ended(launch)
    command = [sys.executable, "-I", "-S", str(runner_file()), "attach", "--spool"]
    with subprocess.Popen(
        [*command, str(runner.spool)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as attached:
        assert attached.stdin is not None
        assert attached.stdout is not None
        attached.stdin.write(protocol.line(Greeting(1)))
        attached.stdin.flush()
        messages = [protocol.read(attached.stdout.readline()) for _ in range(2)]
        assert isinstance(messages[0], Hello)
        assert isinstance(messages[1], Listing)
        assert [seen.attempt for seen in messages[1].parts] == [launch.attempt]
        attached.stdin.close()
        assert attached.wait(10) == 0
    nobody = subprocess.run(
        [*command, str(runner.spool.parent)], capture_output=True, text=True, check=False
    )
    assert nobody.returncode == 3
    assert "no runner" in nobody.stderr


def test_what_is_not_a_message_ends_only_its_own_connection(
    runner: RunnerProcess, client: Client
) -> None:
    for raw in (b"nonsense\n", b'{"type":"Launch"}\n', b'{"type":"Hello"}\n', b"[]\n"):
        bad = runner.client(greet=False)
        bad._socket.sendall(raw)
        assert bad.receive() is None
    escape = client.a_launch("true", attempt="../../etc/x")
    bad = runner.client()
    bad.send(escape)
    wait_until(lambda: bad.receive() is None)
    assert client.ended(client.launch("true")).exit is not None


def test_a_server_that_does_not_read_holds_up_nobody(runner: RunnerProcess, client: Client) -> None:
    large = client.launch(shell="head -c 1000000 /dev/zero")
    client.ended(large)
    deaf = runner.client()
    deaf.send(*(ReadLog(n, large.attempt, 0, "stdout", 0, 1 << 20) for n in range(20)))

    assert client.ended(client.launch("true")).exit is not None

    for n in range(20):
        assert deaf.expect(LogData).id == n


def test_the_forker_goes_when_its_runner_and_its_last_supervisor_are_gone(
    runner: RunnerProcess, client: Client
) -> None:
    launch = client.launch("sleep", "100")
    client.state(launch, "running")
    (forker,) = runner.forkers()
    runner.kill()
    runner.start()
    again = runner.client()
    assert forker in runner.forkers()
    again.stop(launch)
    again.ended(launch)
    wait_until(lambda: forker not in runner.forkers(), "the old forker's end")
    assert len(runner.forkers()) == 1
