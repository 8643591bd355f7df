"""PROTOCOL 4, row by row: real records, real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from stoker.runner import killpoint
from stoker.runner.lines import pack, unpack
from stoker.runner.protocol import Incarnation, Launch
from tests.helpers.kill_points import counting, kill_at, pause_at, paused, reached
from tests.helpers.runner_client import Client, RunnerProcess, alive, wait_until
from tests.integration.runner.conftest import StartRunner


def test_no_record_and_a_clear_bit_means_not_begun_send_it_again(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    kill_at(points, killpoint.ACCEPTED)
    launch = client.launch(shell=line)
    reached(points, killpoint.ACCEPTED)
    assert runner.process is not None
    runner.process.wait(10)
    runner.start()
    again = runner.client()
    assert launch.attempt not in again.listing()

    again.send(launch)

    again.ended(launch)
    assert runs.read_text() == "run\n"


def test_no_record_and_a_set_bit_with_a_trace_is_collected_from_it(client: Client) -> None:
    launch = client.launch(shell="exit 6")
    client.ended(launch)
    client.forget(launch)
    client.send(launch)
    refused = client.refusal(launch)
    assert (refused.why, refused.state) == ("forgotten", "ended")
    assert refused.exit is not None
    assert refused.exit.code == 6
    # A stop for it gets the same answer as a fact.
    client.drop_history()
    client.stop(launch)
    end = client.ended(launch).exit
    assert end is not None
    assert end.code == 6


def test_no_record_and_a_set_bit_without_a_trace_never_began(client: Client, place: Path) -> None:
    runs, line = counting(place)
    launch = client.a_launch(shell=line)
    client.forget(launch)
    client.send(launch)
    refused = client.refusal(launch)
    assert (refused.why, refused.state, refused.exit) == ("forgotten", "", None)
    # The same attempt under a new number may begin.
    client.drop_history()
    fresh = client.launch(shell=line, attempt=launch.attempt)
    client.ended(fresh)
    assert runs.read_text() == "run\n"


def test_no_record_and_a_set_bit_with_a_revocation_was_revoked(client: Client) -> None:
    launch = client.a_launch("true")
    client.stop(launch)
    end = client.ended(launch).exit
    client.send(launch)
    refused = client.refusal(launch)
    assert (refused.why, refused.state, refused.exit) == ("forgotten", "ended", end)


def test_no_record_and_another_boot_or_spool_is_refused(client: Client) -> None:
    mine = client.incarnation
    for other in (Incarnation("rebooted", mine.spool_id), Incarnation(mine.boot_id, "other")):
        assert client.refusal(client.launch("true", incarnation=other)).why == "incarnation"


def test_a_held_record_without_an_exit_line_is_attached_to(
    start_runner: StartRunner, points: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    running = client.launch("sleep", "100")
    client.state(running, "running")
    pause_at(points, killpoint.CLAIMED)
    starting = client.launch("sleep", "100")
    supervisor = paused(runner)
    runner.kill()
    runner.start()

    again = runner.client()

    states = {attempt: seen.state for attempt, seen in again.listing().items()}
    assert states == {running.attempt: "running", starting.attempt: "starting"}
    os.kill(supervisor, signal.SIGCONT)
    again.state(starting, "running")
    again.stop(running)
    again.stop(starting)
    again.ended(running)
    again.ended(starting)


def test_a_free_record_without_a_child_line_never_ran(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    kill_at(points, killpoint.CLAIMED)
    launch = client.launch(shell=line)
    assert client.state(launch, "never_ran").number == launch.number
    client.forget(launch)
    assert client.listing() == {}
    assert runs.read_text() == ""


def test_a_free_record_without_a_child_line_whose_bit_is_set_is_not_reported(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    """Revoked before its claim; it claims all the same and dies before it has read its bit."""
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    pause_at(points, killpoint.CLAIM)
    launch = client.launch(shell=line)
    supervisor = paused(runner)
    client.stop(launch)
    client.ended(launch)
    pause_at(points, killpoint.CLAIMED)
    os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: runner.record(launch.attempt), "the claim")
    assert launch.attempt not in client.listing()
    assert runner.record(launch.attempt) is not None  # its supervisor lives

    os.kill(paused(runner), signal.SIGKILL)

    wait_until(lambda: not alive(supervisor))
    assert launch.attempt not in client.listing()
    assert runner.record(launch.attempt) is None
    assert runs.read_text() == ""


def test_a_free_record_with_a_child_line_is_lost_once_nothing_is_left(
    any_runner: RunnerProcess,
) -> None:
    client = any_runner.client()
    launch = client.launch(
        shell="trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 100' & sleep 100"
    )
    main = client.state(launch, "running").pid
    (supervisor,) = any_runner.supervisors()

    os.kill(supervisor, signal.SIGKILL)

    lost = client.state(launch, "lost")
    assert (lost.evidence, lost.exit) == ("supervisor_died", None)
    assert not alive(main)
    # A stop and a repeated launch change nothing about it.
    client.stop(launch)
    client.send(launch)
    assert client.listing()[launch.attempt].state == "lost"
    client.forget(launch)
    client.send(launch)
    refused = client.refusal(launch)
    assert (refused.why, refused.state, refused.exit) == ("forgotten", "lost", None)


def test_an_exit_line_is_collected_by_the_next_runner(runner: RunnerProcess, place: Path) -> None:
    client = runner.client()
    go = place / "go"
    launch = client.launch(shell=f"while [ ! -e {go} ]; do sleep 0.02; done; echo out; exit 9")
    client.state(launch, "running")
    runner.kill()
    go.touch()
    wait_until(lambda: not runner.supervisors(), "the supervisor's end")
    runner.start()

    seen = runner.client().listing()[launch.attempt]

    assert seen.state == "ended"
    assert seen.exit is not None
    assert seen.exit.code == 9
    assert seen.log is not None


def test_a_record_of_another_boot_without_an_exit_line_is_lost_by_a_reboot(
    runner: RunnerProcess, client: Client
) -> None:
    begun, unbegun, ended = "aa" * 16, "bb" * 16, "cc" * 16
    claim = {"line": "claim", "format": 1, "boot": "another", "pid": os.getpid(), "start": 1}
    child = {"line": "child", "pid": os.getpid(), "start": 1, "at": 1.0}
    end = {"line": "exit", "cause": "exit", "code": 0}
    for attempt, lines in ((begun, [child]), (unbegun, []), (ended, [child, end])):
        raw = b"".join(pack(line) for line in [{**claim, "number": 5}, *lines])
        (runner.spool / f"{attempt}.0.rec").write_bytes(raw.ljust(4096, b"\0"))
    (runner.spool / f"{'dd' * 16}.0.rec").write_bytes(bytes(4096))  # torn by the crash

    listing = client.listing()

    assert {attempt: (seen.state, seen.evidence) for attempt, seen in listing.items()} == {
        begun: ("lost", "rebooted"),
        unbegun: ("lost", "rebooted"),
        ended: ("ended", ""),
        "dd" * 16: ("lost", "rebooted"),
    }
    torn = Launch("dd" * 16, 0, 1, 7, client.incarnation, "1", "n", "/")
    client.forget(torn)
    assert torn.attempt not in client.listing()


def test_a_torn_line_does_not_count(runner: RunnerProcess, client: Client) -> None:
    launch = client.launch("true")
    client.ended(launch)
    path = runner.spool / f"{launch.attempt}.0.rec"
    raw = path.read_bytes()
    exit_at = raw.index(b'{"line":"exit"')
    end = raw.index(b"\n", exit_at)
    wait_until(lambda: not runner.supervisors(), "the supervisor's end")
    for damaged in (
        raw[:end] + bytes(len(raw) - end),
        raw[: exit_at + 20] + b"X" + raw[exit_at + 21 :],
    ):
        assert len(unpack(damaged)) == 2
        path.write_bytes(damaged)
        assert client.listing()[launch.attempt].state in ("running", "lost")
    path.write_bytes(raw)
    assert client.listing()[launch.attempt].state == "ended"


def test_deaths_at_the_labelled_points_are_told_apart(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    """A supervisor that dies at 5 or 6 is lost; at 7 its end is known."""
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    for point, state in (
        (killpoint.BEGUN, "lost"),
        (killpoint.ENDED, "lost"),
        (killpoint.RECORDED, "ended"),
    ):
        kill_at(points, point)
        launch = client.launch(shell=f"{line}; sleep 0.05")
        assert client.state(launch, "lost", "ended").state == state, point
        client.send(launch)
        client.forget(launch)
    assert client.listing() == {}
    assert len(runs.read_text().splitlines()) <= 3


def test_a_runner_that_dies_while_forgetting_loses_nothing(
    start_runner: StartRunner, points: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    launch = client.launch(shell="exit 2")
    client.ended(launch)
    kill_at(points, killpoint.FORGOTTEN)
    client.forget(launch)
    assert runner.process is not None
    runner.process.wait(10)
    runner.start()
    again = runner.client()
    assert again.listing()[launch.attempt].state == "ended"

    again.forget(launch)

    assert again.listing() == {}
    assert not [path for path in runner.spool.iterdir() if launch.attempt in path.name]
