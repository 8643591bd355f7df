"""Each rule of PROTOCOL that is marked ● and lives in the runner: leaving it out ran a task twice
or got one stuck. The names say the rule."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.runner import killpoint
from stoker.runner.protocol import Listing, Seen, Sweep, Swept
from tests.helpers.kill_points import (
    children,
    counting,
    descriptors,
    kill_at,
    numbers_in,
    pause_at,
    paused,
)
from tests.helpers.runner_client import Client, RunnerProcess, alive, wait_until
from tests.integration.runner.conftest import NOBODY, StartRunner


def test_the_runner_keeps_the_highest_epoch_durably_and_refuses_lower_ones(
    start_runner: StartRunner,
) -> None:
    runner = start_runner()
    runner.client(epoch=9)
    runner.kill()
    runner.start()
    late = runner.client(epoch=5)
    assert late.hello is not None
    assert late.hello.epoch == 9

    refused = [late.launch("true"), late.launch("true")]

    assert late.refusal(refused[0]).why == "epoch"
    late.stop(refused[1])
    assert late.refusal(refused[1]).why == "epoch"
    assert runner.record(refused[0].attempt) is None


def test_facts_go_only_to_the_highest_epoch(runner: RunnerProcess) -> None:
    old = runner.client(epoch=1)
    new = runner.client(epoch=2)
    also_new = runner.client(epoch=2)

    launch = new.launch("true")

    new.ended(launch)
    also_new.ended(launch)
    refused = old.launch("true")
    old.refusal(refused)
    assert not [seen for seen in old.seen if isinstance(seen, Seen)]


def test_the_forker_starts_before_lock_and_sockets_so_that_nobody_inherits_them(
    runner: RunnerProcess, client: Client
) -> None:
    launch = client.launch("sleep", "100")
    client.state(launch, "running")
    (forker,), (supervisor,) = runner.forkers(), runner.supervisors()
    sockets = {link for link in descriptors(runner.pid) if link.startswith("socket:")}

    for pid in (forker, supervisor):
        links = descriptors(pid)
        assert not links & sockets
        assert not [link for link in links if link.endswith("runner.lock")]

    # The lock is free as soon as the runner alone is dead.
    runner.kill()
    runner.start()
    assert runner.client(epoch=2).listing()[launch.attempt].state == "running"


def test_the_forker_ends_the_strays_of_a_dead_supervisor(
    start_runner: StartRunner, place: Path
) -> None:
    """Without control groups, without a runner, without a marker: only the forker is left."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a user without control groups")
    runner = start_runner(uid=NOBODY)
    client = runner.client()
    pids = place / "pids"
    script = f"env -i setsid sh -c 'echo $$ >> {pids}; exec sleep 100' & echo $$ >> {pids}; wait"
    client.launch(shell=script)
    numbers = wait_until(lambda: numbers_in(pids, 2))
    (supervisor,) = runner.supervisors()

    runner.kill()
    os.kill(supervisor, signal.SIGKILL)

    wait_until(lambda: not [pid for pid in numbers if alive(pid)], "the strays' end")
    wait_until(lambda: not runner.forkers(), "the forker's end")


def test_a_dead_forker_ends_its_runner(runner: RunnerProcess, client: Client) -> None:
    launch = client.launch("sleep", "100")
    client.state(launch, "running")
    (supervisor,) = runner.supervisors()

    os.kill(runner.forkers()[0], signal.SIGKILL)

    assert runner.process is not None
    assert runner.process.wait(10) == 1
    assert alive(supervisor)


def test_a_plain_start_that_finds_the_lock_held_exits(
    runner: RunnerProcess, client: Client
) -> None:
    first = runner.process
    runner.start()
    second = runner.process
    assert second is not None
    assert second.wait(10) == 0
    assert "serves" in runner.said()
    assert first is not None
    assert first.poll() is None
    runner.process = first


def test_replace_kills_a_holder_that_does_not_heed_term_after_3_s(
    runner: RunnerProcess, client: Client
) -> None:
    launch = client.launch("sleep", "100")
    client.state(launch, "running")
    first = runner.process
    assert first is not None
    first.send_signal(signal.SIGSTOP)
    begun = time.monotonic()

    runner.start("--replace")

    again = runner.client(epoch=2)
    assert again.listing()[launch.attempt].state == "running"
    assert first.wait(10) == -signal.SIGKILL
    assert time.monotonic() - begun >= 3
    again.stop(launch)
    assert again.ended(launch).exit.cause == "cancel"  # type: ignore[union-attr]


def test_replace_ends_a_healthy_holder_at_once(runner: RunnerProcess, client: Client) -> None:
    first = runner.process
    assert first is not None
    runner.start("--replace")
    runner.client(epoch=2)
    assert first.wait(10) == -signal.SIGTERM


def test_a_number_whose_bit_is_set_and_that_has_no_record_is_refused(
    runner: RunnerProcess, client: Client, place: Path
) -> None:
    runs, line = counting(place)
    launch = client.launch(shell=line)
    client.ended(launch)
    client.forget(launch)
    client.send(launch)

    refused = client.refusal(launch)

    assert (refused.why, refused.state) == ("forgotten", "ended")
    assert refused.exit is not None
    assert refused.exit.code == 0
    runner.kill()
    runner.start()
    again = runner.client(epoch=1)
    again.send(launch)
    assert again.refusal(launch).why == "forgotten"
    assert runs.read_text() == "run\n"


def test_signals_are_blocked_in_a_supervisor(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    """A stop that arrives before the supervisor waits is kept, and kills nobody."""
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    pause_at(points, killpoint.CLAIMED)
    launch = client.launch(shell=line)
    supervisor = paused(runner)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGPIPE, signal.SIGQUIT):
        os.kill(supervisor, number)
    client.stop(launch, cause="requeue")
    client.listing()

    os.kill(supervisor, signal.SIGCONT)

    end = client.ended(launch).exit
    assert end is not None
    assert end.cause == "requeue"
    assert runs.read_text() == ""


def test_a_supervisor_paused_before_its_claim_leaves_when_its_number_was_forgotten(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    pause_at(points, killpoint.CLAIM)
    launch = client.launch(shell=line)
    late = paused(runner)
    client.send(launch)
    client.ended(launch)
    client.forget(launch)
    assert launch.attempt not in client.listing()

    os.kill(late, signal.SIGCONT)

    wait_until(lambda: not alive(late), "the late supervisor's end")
    assert runs.read_text() == "run\n"
    assert runner.record(launch.attempt) is None
    assert launch.attempt not in client.listing()


def test_a_supervisor_paused_before_its_claim_leaves_when_somebody_has_it(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    pause_at(points, killpoint.CLAIM)
    launch = client.launch(shell=line)
    late = paused(runner)
    client.send(launch)
    client.ended(launch)

    os.kill(late, signal.SIGCONT)

    wait_until(lambda: not alive(late), "the late supervisor's end")
    assert runs.read_text() == "run\n"
    assert client.listing()[launch.attempt].state == "ended"


def test_a_supervisor_paused_before_its_claim_leaves_when_it_was_revoked(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    pause_at(points, killpoint.CLAIM)
    launch = client.launch(shell=line)
    late = paused(runner)
    client.stop(launch)
    end = client.ended(launch).exit
    assert end is not None
    assert end.cause == "revoked"

    os.kill(late, signal.SIGCONT)

    wait_until(lambda: not alive(late), "the late supervisor's end")
    assert runs.read_text() == ""
    client.send(launch)
    refused = client.refusal(launch)
    assert (refused.why, refused.state, refused.exit) == ("forgotten", "ended", end)


def test_a_child_does_not_keep_the_lock_and_leaves_without_exec_at_end_of_file(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    """Supervisor and forker die while the child, itself paused, waits for its byte."""
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    pause_at(points, killpoint.FORKED)
    launch = client.launch(shell=line)
    supervisor = paused(runner)
    (child,) = wait_until(lambda: children(supervisor), "the child")
    os.kill(child, signal.SIGSTOP)
    os.kill(runner.forkers()[0], signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    assert runner.process is not None
    runner.process.wait(10)
    runner.start()

    assert runner.client().listing()[launch.attempt].state == "never_ran"

    assert alive(child)
    os.kill(child, signal.SIGCONT)
    wait_until(lambda: not alive(child), "the child's end")
    assert runs.read_text() == ""


def test_a_running_command_holds_no_descriptor_of_ours(client: Client) -> None:
    launch = client.launch("sleep", "100")
    pid = client.state(launch, "running").pid
    wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    # The loader opens libraries for a moment after exec; what is ours would stay for ever.
    wait_until(lambda: _is_asleep(pid), "the loader to be done")
    assert set(os.listdir(f"/proc/{pid}/fd")) == {"0", "1", "2"}


def _is_asleep(pid: int) -> bool:
    """It has begun to wait for its time."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_a_datagram_never_waits_behind_a_paused_runner(
    runner: RunnerProcess, client: Client, place: Path
) -> None:
    """More ends than the kernel queues: all supervisors leave, and one rescan tells everything."""
    go = place / "go"
    waiting = f"while [ ! -e {go} ]; do sleep 0.05; done"
    launches = [client.launch(shell=waiting) for _ in range(15)]
    for launch in launches:
        client.state(launch, "running")
    os.kill(runner.pid, signal.SIGSTOP)

    go.touch()

    wait_until(lambda: not runner.supervisors(), "the supervisors' ends")
    os.kill(runner.pid, signal.SIGCONT)
    listing = client.expect(Listing, within_s=10)
    assert {seen.attempt for seen in listing.parts} == {one.attempt for one in launches}
    assert {seen.state for seen in listing.parts} == {"ended"}


def test_a_failed_append_does_not_stop_a_forget(
    start_runner: StartRunner, small_disk: Path
) -> None:
    runner = start_runner(spool="small/spool")
    client = runner.client()
    launch = client.launch("true")
    client.ended(launch)
    fill(small_disk)

    client.forget(launch)

    assert launch.attempt not in client.listing()
    assert runner.record(launch.attempt) is None
    client.send(launch)
    assert client.refusal(launch).why == "forgotten"
    assert (runner.spool / "ended.jsonl").read_bytes() == b""


def test_a_full_disk_does_not_prevent_a_stop_nor_the_exit_line(
    start_runner: StartRunner, small_disk: Path
) -> None:
    runner = start_runner(spool="small/spool")
    client = runner.client()
    stopped = client.launch("sleep", "100", grace_s=5)
    finished = client.launch(shell="sleep 0.5; exit 7")
    for launch in (stopped, finished):
        client.state(launch, "running")
    fill(small_disk)

    client.stop(stopped, cause="requeue")

    end = client.ended(stopped).exit
    assert end is not None
    assert (end.cause, end.signal) == ("cancel", signal.SIGTERM)
    end = client.ended(finished).exit
    assert end is not None
    assert (end.cause, end.code) == ("exit", 7)
    # Nothing new can begin, and it is not lost: it is simply not there, and begins later.
    later = client.launch("true")
    assert later.attempt not in client.listing()
    (small_disk / "filler").unlink()
    client.send(later)
    assert client.ended(later).exit.code == 0  # type: ignore[union-attr]


def fill(folder: Path) -> None:
    """Not one more block."""
    with (folder / "filler").open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def test_a_valid_exit_line_counts_whatever_the_lock(
    start_runner: StartRunner, points: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    pause_at(points, killpoint.RECORDED)
    launch = client.launch(shell="exit 4")
    supervisor = paused(runner)

    seen = client.listing()[launch.attempt]

    assert seen.state == "ended"
    assert seen.exit is not None
    assert seen.exit.code == 4
    os.kill(supervisor, signal.SIGCONT)


def test_another_spool_on_the_same_boot_may_hide_living_supervisors(
    start_runner: StartRunner, place: Path
) -> None:
    """The spool is deleted while something runs: a new one must be able to end it."""
    runner = start_runner()
    client = runner.client()
    launch = client.launch(shell="setsid sleep 100 & sleep 100")
    main = client.state(launch, "running").pid
    (supervisor,) = runner.supervisors()
    shutil.rmtree(runner.spool)
    assert runner.process is not None
    assert runner.process.wait(10) == 1
    assert "deleted" in runner.said()
    assert alive(main)

    runner.start()
    again = runner.client(epoch=2)
    assert again.incarnation.spool_id != launch.incarnation.spool_id
    assert again.incarnation.boot_id == launch.incarnation.boot_id
    again.send(launch)
    assert again.refusal(launch).why == "epoch"
    again.send(Sweep(launch.attempt, 0, epoch=2))

    assert again.expect(Swept).left == 0
    assert not alive(main)
    assert not alive(supervisor)


def test_a_supervisor_that_has_not_begun_is_swept_as_well(
    start_runner: StartRunner, points: Path, place: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    runs, line = counting(place)
    pause_at(points, killpoint.CLAIMED)
    launch = client.launch(shell=line)
    supervisor = paused(runner)
    shutil.rmtree(runner.spool)
    assert runner.process is not None
    runner.process.wait(10)
    runner.start()
    again = runner.client(epoch=2)

    again.send(Sweep(launch.attempt, 0, epoch=2))

    assert again.expect(Swept).left == 0
    assert not alive(supervisor)
    assert runs.read_text() == ""


def test_every_rescan_sends_the_whole_list(runner: RunnerProcess, client: Client) -> None:
    launches = [client.launch("true") for _ in range(3)]
    for launch in launches:
        client.ended(launch)
    for _ in range(2):
        assert set(client.listing()) == {launch.attempt for launch in launches}
    client.forget(launches[0])
    assert set(client.listing()) == {launch.attempt for launch in launches[1:]}


def test_a_rescan_removes_what_nobody_owns(start_runner: StartRunner, points: Path) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    kill_at(points, killpoint.CLAIM)
    launch = client.launch("true")
    wait_until(lambda: not (points / killpoint.CLAIM).exists() and not runner.supervisors())
    (runner.spool / f"{launch.attempt}.0.ctl").touch()

    assert client.listing() == {}

    names = [path.name for path in runner.spool.iterdir() if launch.attempt in path.name]
    assert names == []


def test_a_temporary_record_that_somebody_locks_stays(
    start_runner: StartRunner, points: Path
) -> None:
    runner = start_runner(kill_points=points)
    client = runner.client()
    pause_at(points, killpoint.CLAIM)
    launch = client.launch("true")
    supervisor = paused(runner)
    client.listing()
    assert len(list(runner.spool.glob("*.tmp"))) == 1
    os.kill(supervisor, signal.SIGCONT)
    assert client.ended(launch).exit.code == 0  # type: ignore[union-attr]


def test_the_highest_number_never_goes_backwards(runner: RunnerProcess, client: Client) -> None:
    client.launch("true", number=1_000_003)
    launch = client.launch("true", number=1_000_009)
    client.ended(launch)
    client.forget(launch)
    assert launch.attempt not in client.listing()
    runner.kill()
    runner.start()
    hello = runner.client().hello
    assert hello is not None
    assert hello.highest == 1_000_009


def test_another_incarnation_is_refused(client: Client) -> None:
    other = client.incarnation.__class__(client.incarnation.boot_id, "elsewhere")
    launch = client.launch("true", incarnation=other)
    assert client.refusal(launch).why == "incarnation"


def test_what_ended_in_an_earlier_life_of_the_node_can_be_forgotten(client: Client) -> None:
    """Else its record and its log would be listed, and collected again, for ever."""
    launch = client.launch("true")
    client.ended(launch)
    mine = client.incarnation
    before = mine.__class__("an earlier boot", mine.spool_id)

    client.forget(dataclasses.replace(launch, incarnation=before))

    assert launch.attempt not in client.listing()


def test_only_the_own_account_and_root_may_connect(start_runner: StartRunner) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: connects as another user")
    runner = start_runner(uid=NOBODY)
    runner.client()  # root may
    assert (runner.spool / "runner.sock").stat().st_mode & 0o777 == 0o600
    assert runner.spool.stat().st_mode & 0o777 == 0o700
    (runner.spool / "runner.sock").chmod(0o777)
    runner.spool.chmod(0o755)
    stranger = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        's.sendall(b\'{"type":"Greeting","epoch":99}\\n\'); print(s.recv(100))'
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", stranger, str(runner.spool / "runner.sock")],
        user=12345,
        capture_output=True,
        text=True,
        check=False,
    )
    refused = ("BrokenPipeError", "ConnectionResetError")
    assert done.stdout.strip() == "b''" or any(word in done.stderr for word in refused), done
    hello = runner.client().hello
    assert hello is not None
    assert hello.epoch == 1
