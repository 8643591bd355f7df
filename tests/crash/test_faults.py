"""Faults of the machine around us: paused processes, a deleted spool, a full disk, a jumping clock,
a reboot, a second server. After each: nothing twice, nothing lost in silence, everything finishes.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from stoker.domain.errors import StoreError
from stoker.store.recorder import open_store

from . import records
from .conftest import MakeSite
from .harness import Site
from .history import Line
from .server import Program, wait_until

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
HOUR = 3600


def test_paused_supervisor_is_not_dead(site: Site) -> None:
    """It looks like death to anyone who infers it from silence: everything else restarts."""
    ids = site.submit(
        {"command": site.witness.command(until=site.go, code=3), "gpus": 2},
        {"command": site.witness.command(until=site.go), "gpus": 2, "requeue_on_loss": True},
    )
    site.await_start(*ids)
    paused = site.processes("supervisor")
    assert len(paused) == 2
    for one in paused:
        one.signal(signal.SIGSTOP)
    site.server.kill()
    for one in site.processes("runner", "forker"):
        site.kill(one)
    site.revive()
    site.go.touch()
    await_ends(site, *ids)
    assert [site.task(id)["state"] for id in ids] == ["RUNNING", "RUNNING"]
    for one in paused:
        one.signal(signal.SIGCONT)
    site.judge()
    assert [site.end_of(id).exit_code for id in ids] == [3, 0]


def test_deleted_spool_ends_and_loses_what_ran(site: Site) -> None:
    lost, again, waiting = site.submit(
        {"command": site.witness.command(), "gpus": 2},
        {"command": site.witness.command(until=site.go), "gpus": 2, "requeue_on_loss": True},
        {"command": site.witness.command(20), "gpus": 4},
    )
    site.await_start(lost, again)
    site.history.deleted_spools.add(records.spool_id(site.spool))
    shutil.rmtree(site.spool)
    wait_until(lambda: len(starts(site, again)) == 2, 15, "the task to be run again")
    site.go.touch()
    site.judge()
    assert site.end_of(lost).reason == "spool_gone"
    assert site.end_of(again).outcome == "succeeded"
    assert site.end_of(waiting).outcome == "succeeded"


def test_deleted_spool_while_the_server_is_away(site: Site) -> None:
    (id,) = site.submit({"command": site.witness.command(), "gpus": 4})
    site.await_start(id)
    site.server.kill()
    site.history.deleted_spools.add(records.spool_id(site.spool))
    shutil.rmtree(site.spool)
    site.judge()
    assert site.end_of(id).reason == "spool_gone"


@pytest.fixture
def small_home(tmp_path: Path) -> Iterator[Path]:
    """A home whose disk is small."""
    with small_disk(tmp_path / "small"):
        yield tmp_path / "small/home"


@pytest.fixture
def small_spool(tmp_path: Path) -> Iterator[Path]:
    """A home of which only the spool is on a small disk."""
    with small_disk(tmp_path / "home/spool"):
        yield tmp_path / "home"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=0700", "stoker-crash", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a small disk: {done.stderr.strip()}")
    yield
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.about_sqlite
def test_full_disk_refuses_submits_and_loses_nothing(small_home: Path, make_site: MakeSite) -> None:
    site = make_site(home=small_home)
    command = site.witness.command(until=site.go, code=3)
    running = site.submit(*[{"command": command, "gpus": 1}] * 2)
    (queued,) = site.submit({"command": site.witness.command(10), "gpus": 4})
    site.await_start(*running)
    ballast = small_home.parent / "ballast"
    fill(ballast)
    submission = {"name": "refused", "workdir": "/", "command": site.witness.command(10)}
    status, said = site.server.request("POST", "/tasks", submission)
    assert status == 503, said
    assert said["code"] == "disk_full", said
    for path in ("/tasks", f"/tasks/{running[0]}", "/nodes", "/health", "/events"):
        assert site.server.request("GET", path)[0] == 200, path
    site.go.touch()
    await_ends(site, *running)
    assert site.task(queued)["state"] == "QUEUED"
    ballast.unlink()
    wait_until(lambda: site.submit_once(submission) == 201, 10, "submits to be accepted again")
    site.judge()
    assert [site.end_of(id).exit_code for id in running] == [3, 3]
    accepted = [task for task in site.history.tasks if task.name == "refused"]
    assert len(accepted) == 1, "a refused submit was recorded"
    assert site.server.starts == 1


def test_full_spool_records_ends_and_obeys_stops(small_spool: Path, make_site: MakeSite) -> None:
    """Records are preallocated, a signal without an order means cancel, and a runner can start."""
    site = make_site(home=small_spool)
    ending, stopped = site.submit(
        {"command": site.witness.command(until=site.go, code=3), "gpus": 2},
        {"command": site.witness.command(), "gpus": 1},
    )
    site.await_start(ending, stopped)
    ballast = small_spool / "spool/ballast"
    fill(ballast)
    (runner,) = site.processes("runner")
    site.kill(runner)
    assert site.cancel(stopped)
    site.go.touch()
    site.await_state(stopped, "FINISHED")
    site.await_state(ending, "FINISHED")
    (late,) = site.submit({"command": site.witness.command(20), "gpus": 4})
    wait_until(lambda: site.task(late)["state"] == "STARTING", 5, "a launch into a full spool")
    assert not site.witness.has_said("start", task=late)
    ballast.unlink()
    site.judge()
    assert site.end_of(ending).exit_code == 3
    assert site.end_of(stopped).outcome == "cancelled"
    assert site.end_of(late).outcome == "succeeded"


def test_clock_jumps_change_no_limit_and_no_order(make_site: MakeSite, tmp_path: Path) -> None:
    if not FAKETIME.exists():
        pytest.skip("faketime is not installed (tools/packages.txt)")
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    site = make_site(
        Program(),
        environ={
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        },
    )
    site.history.is_server_clock_true = False
    limited = site.submit(
        {"command": site.witness.command(), "gpus": 2, "time_limit_s": 2, "grace_s": 1},
        {"command": site.witness.command(2500, code=3), "gpus": 2, "time_limit_s": 30},
    )
    site.await_start(*limited)
    order = []
    for jump in (HOUR, -HOUR, 0, HOUR):
        clock.write_text(f"{jump:+d}\n")
        order += site.submit({"command": site.witness.command(30), "gpus": 4})
    assert abs(server_clock(site) - time.time() - HOUR) < 60, "the server's clock did not jump"
    site.judge()
    timed_out, ended = (site.end_of(id) for id in limited)
    assert timed_out.outcome == "timed_out"
    lines = [line for line in site.history.lines if line.task == limited[0]]
    lived_s = (lines[-1].ns - lines[0].ns) / 1e9
    assert 1.5 < lived_s < 4, f"a limit of 2 s became {lived_s}"
    assert ended.exit_code == 3
    assert [line.task for line in starts(site, *order)] == order


def test_reboot_loses_what_ran_and_reruns_what_asked_for_it(
    make_site: MakeSite, tmp_path: Path
) -> None:
    boots = [str(uuid.uuid4()), str(uuid.uuid4())]
    named = tmp_path / "boot_id"
    named.write_text(boots[0] + "\n")
    script = f'mount --bind {named} /proc/sys/kernel/random/boot_id && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", script, "sh")
    trial = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        pytest.skip(f"cannot give a process another boot id: {trial.stderr.strip()}")
    site = make_site(Program(prefix))
    lost, again, waiting = site.submit(
        {"command": site.witness.command(), "gpus": 2},
        {"command": site.witness.command(until=site.go), "gpus": 2, "requeue_on_loss": True},
        {"command": site.witness.command(10), "gpus": 4},
    )
    site.await_start(lost, again)
    site.server.kill()
    while left := site.processes():
        for one in left:
            one.kill()
    named.write_text(boots[1] + "\n")
    site.history.ended_boots.add(boots[0])
    site.go.touch()
    site.judge()
    assert site.end_of(lost).reason == "rebooted"
    assert site.end_of(again).outcome == "succeeded"
    assert site.end_of(waiting).outcome == "succeeded"
    assert {attempt.boot for attempt in site.history.attempts} == set(boots)


def test_second_server_on_a_home_leaves_it_alone(site: Site) -> None:
    (id,) = site.submit({"command": site.witness.command(until=site.go)})
    second = subprocess.run(
        [sys.executable, "-m", "stoker", "up", "--listen", "127.0.0.1:0", "--simulate-gpus", "4"],
        env=site.server.environ,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert str(site.home) in second.stdout + second.stderr
    with pytest.raises(StoreError, match="already_served"):
        open_store(site.home / "stoker.db")
    assert site.server.is_alive
    assert site.server.starts == 1
    assert site.task(id)["state"] == "RUNNING"
    site.go.touch()
    site.judge()


def test_replaced_runner_leaves_tasks_at_work(site: Site) -> None:
    """An upgrade: the new runner takes over, supervisors and the old forker go on."""
    ids = site.submit(
        {"command": site.witness.command(until=site.go, code=3), "gpus": 2},
        {"command": site.witness.command(), "gpus": 2, "grace_s": 1},
    )
    site.await_start(*ids)
    before = {one.process for one in site.processes("supervisor", "forker", "witness")}
    (old,) = site.processes("runner")
    second = site.start_runner()
    assert second is not None
    assert second.wait(10) == 0, "a plain start must leave the first runner alone"
    assert [one.process for one in site.processes("runner")] == [old.process]
    site.start_runner("--replace")
    wait_until(
        lambda: any(one.process != old.process for one in site.processes("runner")),
        10,
        "the new runner",
    )
    assert before <= {one.process for one in site.processes("supervisor", "forker", "witness")}
    assert site.cancel(ids[1])
    site.go.touch()
    site.judge()
    assert site.end_of(ids[0]).exit_code == 3
    assert site.end_of(ids[1]).outcome == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_stopped_server_leaves_tasks_at_work(make_site: MakeSite, number: signal.Signals) -> None:
    program = Program()
    site = make_site(program)
    (id,) = site.submit({"command": site.witness.command(until=site.go, code=3), "gpus": 4})
    site.await_start(id)
    before = {one.process for one in site.processes()}
    site.server.stop(number)
    assert program.started[-1].wait(5) == 0
    assert {one.process for one in site.processes()} == before
    said = len(site.witness.lines())
    wait_until(lambda: len(site.witness.lines()) > said + 2, 5, "the command to go on")
    site.revive()
    assert site.task(id)["state"] == "RUNNING"
    site.go.touch()
    site.drain(10)
    text = site.log(id).decode()
    assert text.count("begun ") == 1
    assert text.count("over 3") == 1
    site.judge()
    assert {one.process for one in site.processes("runner")} <= before


def starts(site: Site, *ids: str) -> list[Line]:
    return [line for line in site.witness.lines() if line.what == "start" and line.task in ids]


def await_ends(site: Site, *ids: str) -> None:
    wait_until(
        lambda: all(site.witness.has_said("end", task=id) for id in ids), 10, "the commands' end"
    )


def fill(ballast: Path) -> None:
    """Take every byte that is left."""
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue


def server_clock(site: Site) -> float:
    """The wall clock of the server, from the newest task's own words."""
    _, page = site.ask("GET", "/tasks?sort=-id&limit=1")
    return datetime.fromisoformat(page["tasks"][0]["submitted_at"]).timestamp()
