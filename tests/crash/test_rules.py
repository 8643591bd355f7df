"""Permanent tests for rules of PROTOCOL that were learnt the hard way: leaving one out ran a task
twice, or got one stuck. Each sets up the very situation, with real processes.
"""

from __future__ import annotations

import signal
import subprocess
import time
from functools import partial

import pytest

from stoker.runner import killpoint
from tests.conftest import DATABASE

from . import records
from .conftest import MakeSite
from .harness import Site
from .history import Line
from .processes import Found
from .server import Program, wait_until

LIFE_S = 0.3 if DATABASE == "sqlite" else 0.6  # a start has to connect, too


def test_nothing_is_launched_before_its_intent_is_committed(site: Site) -> None:
    """The server stops for good between its decision and the commit."""
    site.revive()
    armed = site.arm(killpoint.PLACE)
    status = site.submit_once({"command": site.witness.command(50), "gpus": 1})
    assert status == 0, "the server answered before it had committed"
    assert not armed.exists()
    assert site.witness.lines() == []
    assert list(site.spool.glob("*.rec")) == []
    assert count(site, "attempts") == 0
    site.submit({"command": site.witness.command(50), "gpus": 1})
    site.judge()
    assert len(starts(site)) == 1


def test_committed_intent_is_launched_by_the_next_server(site: Site) -> None:
    """The server dies between the commit and the launch; nobody was told, and yet it runs."""
    site.revive()
    site.arm(killpoint.PLACED)
    assert site.submit_once({"command": site.witness.command(50), "gpus": 1}) == 0
    assert count(site, "attempts") == 1
    assert site.witness.lines() == []
    site.judge()
    assert len(starts(site)) == 1


@pytest.mark.parametrize("again", ["server", "runner"])
def test_late_supervisor_of_a_forgotten_number_leaves(site: Site, again: str) -> None:
    """Resend after forget: one is paused before its claim; another one, sent because nothing was
    seen of it, claims, runs, ends and is forgotten. Then the first wakes up and finds no record."""
    late = pause_before_claim(site)
    if again == "server":
        site.server.kill()
    else:
        for one in site.processes("runner"):
            site.kill(one)
    site.drain(15)
    wait_until(lambda: not list(site.spool.glob("*.rec")), 10, "its record to be forgotten")
    late.signal(signal.SIGCONT)
    wait_until(lambda: not site.processes("supervisor"), 10, "the late supervisor to leave")
    assert list(site.spool.glob("*.rec")) == []
    site.judge()
    assert len(starts(site)) == 1


def test_late_supervisor_of_a_cancelled_attempt_leaves(site: Site) -> None:
    """Stop without a record revokes the number first: only then is the task finished."""
    late = pause_before_claim(site)
    (id,) = (answer.task for answer in site.history.answers)
    assert site.cancel(id)
    site.drain(10)
    late.signal(signal.SIGCONT)
    wait_until(lambda: not site.processes("supervisor"), 10, "the late supervisor to leave")
    site.judge()
    assert site.end_of(id).outcome == "cancelled"
    assert site.history.lines == []


def test_silence_is_no_proof_that_nothing_will_run(site: Site) -> None:
    """Nothing is seen of an attempt whose supervisor is paused before its claim: it is sent again,
    never given up. It wakes up in the worst moment: the next end is recorded, nothing forgotten."""
    late = pause_before_claim(site)
    site.server.kill()
    armed = site.arm(killpoint.COLLECTED, pause=True)
    site.server.spawn()
    wait_until(lambda: not armed.exists(), 15, "an end to be recorded")
    late.signal(signal.SIGCONT)
    wait_until(lambda: not site.processes("supervisor"), 10, "the late supervisor to leave")
    wait_until(
        lambda: site.server.signal(signal.SIGCONT) and site.server.is_ready(), 10, "the server"
    )
    site.judge()
    assert len(starts(site)) == 1
    assert len(site.history.attempts) == 1


def test_acknowledged_cancel_survives_everybody(site: Site) -> None:
    """R7: server and runner die right after the answer, the order still unread between them."""
    (id,) = site.submit({"command": site.witness.command(ignore_term=True), "grace_s": 1})
    site.await_start(id)
    (runner,) = site.processes("runner")
    runner.signal(signal.SIGSTOP)
    assert site.cancel(id)
    site.server.kill()
    site.kill(runner)
    site.judge()
    assert site.end_of(id).outcome == "cancelled"


def test_queue_drains_while_the_server_dies_every_300_ms(site: Site) -> None:
    """R9: recovery makes progress under a crash loop."""
    site.submit(*[{"command": site.witness.command(60, code=n % 3), "gpus": 1} for n in range(60)])
    lives = 0
    site.server.kill()
    deadline = time.monotonic() + 60
    while left := count(site, "tasks WHERE state <> 'FINISHED'"):
        assert time.monotonic() < deadline, f"{left} tasks left after {lives} lives of the server"
        site.server.spawn()
        lives += 1
        time.sleep(LIFE_S)
        site.server.kill()
    assert lives >= 3
    site.judge()


CHILDREN = ["setsid", "double-fork", "no-environment"]


@pytest.mark.parametrize("child", CHILDREN)
@pytest.mark.parametrize("stubborn", [False, True], ids=["polite", "stubborn"])
def test_daemonised_grandchild_is_ended_after_the_command(
    site: Site, child: str, stubborn: bool
) -> None:
    command = site.witness.command(100, code=3, child=child, ignore_term=stubborn)
    (id,) = site.submit({"command": command, "gpus": 4, "grace_s": 1})
    (after,) = site.submit({"command": site.witness.command(10), "gpus": 4})
    site.judge()
    assert site.witness.has_said("start", task=id, who="child")
    assert not site.witness.has_said("end", task=id, who="child")
    assert site.end_of(id).exit_code == 3
    assert site.end_of(after).exit_code == 0


@pytest.mark.parametrize("child", CHILDREN)
def test_daemonised_grandchild_is_ended_by_a_cancel(site: Site, child: str) -> None:
    (id,) = site.submit({"command": site.witness.command(child=child), "grace_s": 1})
    wait_until(lambda: said_by_child(site, id), 10, "the grandchild")
    assert site.cancel(id)
    site.judge()
    assert site.end_of(id).outcome == "cancelled"


@pytest.mark.parametrize("child", CHILDREN)
def test_daemonised_grandchild_of_a_killed_supervisor_is_ended(site: Site, child: str) -> None:
    """Its main process has ended, its supervisor is dead, and it carries no marker (env -i)."""
    command = site.witness.command(100, child=child, ignore_term=True)
    (id,) = site.submit({"command": command, "gpus": 4, "grace_s": 30})
    wait_until(lambda: site.witness.has_said("end", task=id), 10, "the main process to end")
    (supervisor,) = site.processes("supervisor")
    site.kill(supervisor)
    site.judge()
    assert site.end_of(id).reason == "supervisor_died"


def test_grandchildren_are_ended_where_there_are_no_cgroups(make_site: MakeSite) -> None:
    """A plain account: descent, session and marker must do; one of them carries no marker."""
    hidden = 'mount -t tmpfs -o ro none /sys/fs/cgroup && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", hidden, "sh")
    trial = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        pytest.skip(f"cannot hide the cgroups: {trial.stderr.strip()}")
    site = make_site(Program(prefix))
    _, nodes = site.ask("GET", "/nodes")
    assert nodes[0]["limits"] == [], "there are cgroups all the same"
    ending = start_with_children(site, run_ms=100)
    site.drain(10)
    stopped = start_with_children(site)
    assert all(site.cancel(id) for id in stopped)
    site.drain(10)
    killed = start_with_children(site)
    for one in site.processes("supervisor"):
        site.kill(one)
    site.judge()
    assert {site.end_of(id).outcome for id in ending} == {"succeeded"}
    assert {site.end_of(id).outcome for id in stopped} == {"cancelled"}
    assert {site.end_of(id).outcome for id in killed} == {"lost"}


def test_command_without_supervisor_and_forker_is_ended_before_it_is_lost(site: Site) -> None:
    """Nobody is left who would be told of its death: the next runner finds it by its record. A
    command that had inherited the lock would make its dead supervisor look alive."""
    command = site.witness.command(until=site.go, child="setsid")
    (id,) = site.submit({"command": command, "gpus": 4, "requeue_on_loss": True})
    wait_until(lambda: said_by_child(site, id), 10, "the grandchild")
    for one in (*site.processes("forker"), *site.processes("supervisor")):
        site.kill(one)
    wait_until(lambda: len(starts(site)) == 2, 15, "the task to be run again")
    site.go.touch()
    site.judge()
    assert site.end_of(id).outcome == "succeeded"
    assert len(site.history.attempts) == 2


@pytest.mark.parametrize("how", ["forker died", "runner replaced"])
def test_death_of_a_supervisor_that_another_forker_made_is_noticed(site: Site, how: str) -> None:
    """R8: its own forker cannot tell anybody, and half a minute until a rescan is too long."""
    (id,) = site.submit({"command": site.witness.command(), "gpus": 4})
    site.await_start(id)
    (old,) = site.processes("runner")
    (supervisor,) = site.processes("supervisor")
    if how == "forker died":
        for one in site.processes("forker"):
            site.kill(one)
    else:
        site.start_runner("--replace")
    wait_until(lambda: is_served_by_another(site, old), 10, "another runner to serve the node")
    site.kill(supervisor)
    site.judge(10)
    assert site.end_of(id).reason == "supervisor_died"


def is_served_by_another(site: Site, old: Found) -> bool:
    _, nodes = site.ask("GET", "/nodes")
    runners = [one.process for one in site.processes("runner")]
    return bool(nodes[0]["up"] and runners and runners != [old.process])


def start_with_children(site: Site, run_ms: int = 60_000) -> list[str]:
    """One task per way to get away, each with a grandchild that lives."""
    commands = [site.witness.command(run_ms, child=child) for child in CHILDREN]
    ids = site.submit(*[{"command": words, "gpus": 1, "grace_s": 1} for words in commands])
    for id in ids:
        wait_until(partial(said_by_child, site, id), 10, f"the grandchild of task {id}")
    return ids


def starts(site: Site) -> list[Line]:
    lines = site.witness.lines()
    return [line for line in lines if (line.what, line.who) == ("start", "main")]


def said_by_child(site: Site, id: str) -> bool:
    return site.witness.has_said("tick", task=id, who="child")


def pause_before_claim(site: Site) -> Found:
    """Submit one task; its supervisor, stopped before it has claimed anything."""
    site.revive()
    armed = site.arm(killpoint.CLAIM, pause=True)
    site.submit({"command": site.witness.command(50), "gpus": 1})
    wait_until(lambda: not armed.exists() and site.stopped(), 10, "a pause before the claim")
    (late,) = site.stopped()
    assert late.kind == "supervisor"
    return late


def count(site: Site, rows: str) -> int:
    """From the records themselves: no server is asked."""
    return records.count(site.database, rows)
