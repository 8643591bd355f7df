"""Stop, time limit, grace, and what a command leaves behind. Also: the stop before the claim."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from stoker.runner import killpoint
from stoker.runner.ending import marker
from tests.helpers.kill_points import counting, numbers_in, pause_at, paused
from tests.helpers.runner_client import Client, RunnerProcess, alive, wait_until
from tests.integration.runner.conftest import NOBODY, StartRunner

DAEMONS = """
setsid sh -c 'echo $$ >> {pids}; exec sleep 100' &
( setsid sh -c '( echo $BASHPID >/dev/null; sh -c "echo \\$\\$ >> {pids}; exec sleep 101" ) & ' ) &
env -i setsid sh -c 'echo $$ >> {pids}; exec sleep 102' &
while [ "$(wc -l < {pids})" -lt 3 ]; do sleep 0.02; done
echo $$ >> {pids}
"""


def daemons(place: Path) -> tuple[Path, str]:
    """A script that leaves a daemon, a double-forked one and one without environment behind."""
    pids = place / "pids"
    pids.touch()
    pids.chmod(0o666)
    return pids, DAEMONS.format(pids=pids)


def gone(pids: list[int]) -> bool:
    return not [pid for pid in pids if alive(pid)]


def test_what_a_command_leaves_behind_is_ended(any_runner: RunnerProcess, place: Path) -> None:
    client = any_runner.client()
    pids, script = daemons(place)
    launch = client.launch(shell=script + "exit 3")

    end = client.ended(launch).exit

    assert end is not None
    assert (end.cause, end.code) == ("exit", 3)
    assert gone(numbers_in(pids, 4))


def test_what_a_command_started_is_stopped_with_it(any_runner: RunnerProcess, place: Path) -> None:
    client = any_runner.client()
    pids, script = daemons(place)
    launch = client.launch(shell=script + "wait; sleep 100")
    numbers = wait_until(lambda: numbers_in(pids, 4))

    client.stop(launch)

    end = client.ended(launch).exit
    assert end is not None
    assert (end.cause, end.signal) == ("cancel", signal.SIGTERM)
    assert gone(numbers)


def test_what_a_command_started_is_ended_when_its_supervisor_was_killed(
    any_runner: RunnerProcess, place: Path
) -> None:
    client = any_runner.client()
    pids, script = daemons(place)
    launch = client.launch(shell=script + "wait; sleep 100")
    numbers = wait_until(lambda: numbers_in(pids, 4))

    os.kill(any_runner.supervisors()[0], signal.SIGKILL)

    assert client.state(launch, "lost").evidence == "supervisor_died"
    assert gone(numbers)


def test_control_groups_end_even_what_lost_supervisor_and_forker(
    runner: RunnerProcess, place: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: writable control groups")
    client = runner.client()
    pids, script = daemons(place)
    launch = client.launch(shell=script + "wait; sleep 100")
    numbers = wait_until(lambda: numbers_in(pids, 4))
    unmarked = [pid for pid in numbers if not marker(pid)]
    for pid in [*runner.forkers(), *runner.supervisors(), *set(numbers) - set(unmarked)]:
        os.kill(pid, signal.SIGKILL)
    assert runner.process is not None
    runner.process.wait(10)
    assert [pid for pid in unmarked if alive(pid)]

    runner.start()

    assert runner.client().state(launch, "lost").evidence == "supervisor_died"
    assert gone(numbers)


def test_a_part_is_not_lost_while_anything_of_it_is_left(
    start_runner: StartRunner, place: Path
) -> None:
    """Supervisor and forker were killed; without control groups the marker is what is left."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a user without control groups")
    runner = start_runner(uid=NOBODY)
    client = runner.client()
    pids = place / "pids"
    line = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 100' & echo $$ >> {pids}; wait"
    launch = client.launch(shell=line)
    numbers = wait_until(lambda: numbers_in(pids, 2))
    for pid in [*runner.forkers(), *runner.supervisors()]:
        os.kill(pid, signal.SIGKILL)
    assert runner.process is not None
    runner.process.wait(10)
    assert not gone(numbers)
    runner.start()

    again = runner.client()

    again.state(launch, "lost")
    assert gone(numbers)
    states = [seen.state for seen in again.facts_about(launch)]
    assert set(states) <= {"running", "lost"}


def test_a_process_that_ignores_term_is_killed_after_its_grace(client: Client) -> None:
    launch = client.launch(shell="trap '' TERM; echo ready; while :; do sleep 0.05; done")
    client.state(launch, "running")
    wait_until(lambda: (client.runner.spool / f"{launch.attempt}.0.log").read_text().count("ready"))
    begun = time.monotonic()
    client.stop(launch, grace_s=0.5)
    end = client.ended(launch).exit
    assert end is not None
    assert (end.cause, end.signal) == ("cancel", signal.SIGKILL)
    assert time.monotonic() - begun >= 0.5


def test_a_second_stop_with_less_grace_hastens_the_end_and_names_the_cause(client: Client) -> None:
    launch = client.launch(shell="trap '' TERM; echo ready; while :; do sleep 0.05; done")
    client.state(launch, "running")
    wait_until(lambda: (client.runner.spool / f"{launch.attempt}.0.log").read_text().count("ready"))
    client.stop(launch, cause="requeue", grace_s=100)
    client.stop(launch, grace_s=0)
    end = client.ended(launch, within_s=5).exit
    assert end is not None
    assert (end.cause, end.signal) == ("cancel", signal.SIGKILL)


def test_a_command_may_end_in_order_within_its_grace(client: Client) -> None:
    launch = client.launch(
        shell="trap 'echo saved; exit 5' TERM; echo ready; while :; do sleep 0.02; done"
    )
    log = client.runner.spool / f"{launch.attempt}.0.log"
    wait_until(lambda: log.exists() and "ready" in log.read_text())
    client.stop(launch)
    end = client.ended(launch).exit
    assert end is not None
    assert (end.cause, end.code) == ("cancel", 5)
    assert "saved" in log.read_text()


def test_a_stopped_process_hears_term(client: Client) -> None:
    launch = client.launch("sleep", "100")
    pid = client.state(launch, "running").pid
    os.kill(pid, signal.SIGSTOP)
    client.stop(launch, grace_s=100)
    end = client.ended(launch, within_s=5).exit
    assert end is not None
    assert end.signal == signal.SIGTERM


def test_the_time_limit_is_enforced_without_a_runner(runner: RunnerProcess) -> None:
    client = runner.client()
    launch = client.launch("sleep", "100", time_limit_s=1)
    client.state(launch, "running")
    runner.kill()
    wait_until(lambda: not runner.supervisors(), "the supervisor's end")
    runner.start()
    end = runner.client().ended(launch).exit
    assert end is not None
    assert (end.cause, end.signal) == ("limit", signal.SIGTERM)
    assert 1 <= end.ran_s < 5


def test_stop_without_a_record_revokes(client: Client, place: Path) -> None:
    runs, line = counting(place)
    launch = client.a_launch(shell=line)
    client.stop(launch)
    end = client.ended(launch).exit
    assert end is not None
    assert end.cause == "revoked"
    client.send(launch)
    assert client.refusal(launch).why == "forgotten"
    assert runs.read_text() == ""


def test_stop_is_idempotent_and_a_finished_part_keeps_its_end(client: Client) -> None:
    launch = client.launch(shell="exit 8")
    client.ended(launch)
    client.drop_history()
    for _ in range(2):
        client.stop(launch)
        end = client.ended(launch).exit
        assert end is not None
        assert (end.cause, end.code) == ("exit", 8)


def test_an_order_that_was_left_before_the_start_is_found(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    """The runner dies after it wrote ctl; nobody signals the supervisor."""
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    pause_at(points, killpoint.CLAIMED)
    launch = client.launch(shell=line)
    supervisor = paused(runner)
    client.stop(launch)
    client.listing()
    runner.kill()
    os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: not alive(supervisor))
    runner.start()
    end = runner.client().ended(launch).exit
    assert end is not None
    assert end.cause == "cancel"
    assert runs.read_text() == ""


def test_a_bare_term_to_a_supervisor_cancels_with_the_launchs_own_grace(
    runner: RunnerProcess, client: Client
) -> None:
    launch = client.launch("sleep", "100")
    client.state(launch, "running")
    os.kill(runner.supervisors()[0], signal.SIGTERM)
    end = client.ended(launch).exit
    assert end is not None
    assert end.cause == "cancel"


def test_a_process_that_survives_kill_is_reported_and_its_end_waited_for(
    client: Client,
) -> None:
    """A frozen process (cgroup v1) does not take even SIGKILL."""
    freezer = Path("/sys/fs/cgroup/freezer")
    if os.geteuid() != 0 or not os.access(freezer / "cgroup.procs", os.W_OK):
        pytest.skip("needs root and the v1 freezer")
    stopped, orphaned = client.launch("sleep", "100"), client.launch("sleep", "100")
    pids = [client.state(launch, "running").pid for launch in (stopped, orphaned)]
    folder = freezer / f"stoker-test-{os.getpid()}"
    folder.mkdir()
    try:
        for pid in pids:
            (folder / "cgroup.procs").write_text(str(pid))
        (folder / "freezer.state").write_text("FROZEN")
        client.stop(stopped, grace_s=0)
        record = client.runner.record(orphaned.attempt)
        assert record is not None
        os.kill(record.claim["pid"], signal.SIGKILL)
        for launch, pid in zip((stopped, orphaned), pids, strict=True):
            seen = client.about(launch, lambda seen: bool(seen.stuck))
            assert seen.state == "running"
            assert str(pid) in seen.stuck
            assert client.listing()[launch.attempt].stuck
        (folder / "freezer.state").write_text("THAWED")
        end = client.ended(stopped).exit
        assert end is not None
        assert end.cause == "cancel"
        assert end.signal in (signal.SIGTERM, signal.SIGKILL)
        assert client.state(orphaned, "lost").stuck == ""
    finally:
        (folder / "freezer.state").write_text("THAWED")
        wait_until(lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()
