"""`stoker up --standby`: the server dies or is ended, the standby serves, tasks notice nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stoker.store.database import as_url
from stoker.store.recorder import open_store
from tests.helpers.postgres import Postgres

from .conftest import PATIENCE_S, Stoker, until

NUMBERS = b"".join(b"%d\n" % number for number in range(1, 501))
ESTABLISHED = "01"
PRINTS = "echo begun; while [ ! -e flag ]; do sleep 0.05; done; seq 1 500; exit $1"


@pytest.fixture
def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """A database whose records are whole at the end."""
    made = postgres.fresh()
    yield made
    with closing(open_store(made)) as store:
        assert store.check() == []
    postgres.give_back(made)


@pytest.fixture
def on_postgres(tmp_path: Path, url: str) -> Iterator[Stoker]:
    made = stoker_on(url, tmp_path / "first")
    yield made
    assert made.clean_up() == []


@pytest.fixture
def other(tmp_path: Path, url: str, on_postgres: Stoker) -> Iterator[Stoker]:
    """A state folder of its own that reaches the same node, as from another machine."""
    made = stoker_on(url, tmp_path / "other")
    made.work = on_postgres.work
    (made.home / "spool").symlink_to(on_postgres.home / "spool")
    yield made
    made.end_begun()


def stoker_on(url: str, folder: Path) -> Stoker:
    made = Stoker(folder)
    made.home.mkdir(mode=0o700)
    (made.home / "config.toml").write_text(f'database = "{url}"\n')
    return made


def begin_standby(stoker: Stoker, *args: str) -> subprocess.Popen[bytes]:
    """One that has said that it waits."""
    given = args or ("--listen", "127.0.0.1:0")
    started = stoker.begin("up", "--standby", "--simulate-gpus", "4", *given)
    assert started.stdout is not None
    said = started.stdout.readline()
    assert said.startswith(b"Standing by for "), said
    return started


def submit_pair(stoker: Stoker) -> tuple[str, str, str]:
    """Two that run until they are told, and one that waits for their cards."""
    good, bad = (
        stoker.submit("--gpus", "2", "--", "sh", "-c", PRINTS, "sh", code) for code in ("0", "7")
    )
    until(lambda: all(stoker.task(id)["state"] == "RUNNING" for id in (good, bad)))
    return good, bad, stoker.submit("--gpus", "4", "--", "echo", "next")


def check_ends(stoker: Stoker, good: str, bad: str, queued: str) -> None:
    """They end as if nothing had been, each after one attempt."""
    (stoker.work / "flag").touch()
    stoker("wait", good, bad, queued, code=1)
    lines = b"begun\n" + NUMBERS
    for id, code, output in ((good, 0, lines), (bad, 7, lines), (queued, 0, b"next\n")):
        task = stoker.task(id)
        assert (task["exit_code"], task["attempts"]) == (code, 1)
        assert stoker.output(id) == output


def epoch_in(log: bytes) -> int:
    return int(log.rpartition(b"event=recovered epoch=")[2].split()[0])


def test_a_killed_server_is_followed_by_the_standby(own: Stoker, port: int) -> None:
    listen = ("--listen", f"127.0.0.1:{port}")
    own("up", "--detach", "--simulate-gpus", "4", *listen)
    first = own.server_pid
    tasks = submit_pair(own)
    own("up", "--standby", "--detach", "--simulate-gpus", "4", *listen)
    assert own.server_pid == first
    again = own("up", "--standby", "--detach").stdout
    assert again.startswith("A standby waits already")
    assert f"http://127.0.0.1:{port} (process {first})" in again
    assert "It was running already." in own("up", "--detach").stdout
    following = own.begin("logs", "-f", tasks[0])
    assert following.stdout is not None
    assert following.stdout.readline().startswith(b"[stoker]")
    assert following.stdout.readline() == b"begun\n"
    assert len(own.json("ls")) == 3

    own.kill_server()
    until(lambda: (own.home / "server.json").exists() and own.server_pid != first)
    assert json.loads((own.home / "server.json").read_text())["url"].endswith(f":{port}")
    assert len(own.json("ls")) == 3
    check_ends(own, *tasks)

    out, err = following.communicate(timeout=PATIENCE_S)
    assert (following.returncode, err) == (0, b"")
    assert out.startswith(NUMBERS)
    log = (own.home / "server.log").read_bytes()
    assert b"event=taken_over" in log
    assert epoch_in(log) == 2


def test_down_ends_one_server_and_says_that_the_standby_serves(own: Stoker) -> None:
    own.up()
    tasks = submit_pair(own)
    standby = begin_standby(own)
    said = own("down").stdout
    assert f"the standby (process {standby.pid}) has taken over" in said
    assert own.server_pid == standby.pid
    last = begin_standby(own)
    assert own.json("down")["standby"].startswith("http://")
    assert standby.wait(PATIENCE_S) == 0
    assert own.server_pid == last.pid
    check_ends(own, *tasks)

    waits = begin_standby(own)
    assert "Tasks cancelled: 0" in own("down", "--stop-tasks").stdout
    assert (last.wait(PATIENCE_S), waits.wait(PATIENCE_S)) == (0, 0)
    until(lambda: not own.processes())


def test_the_wait_can_be_ended(own: Stoker) -> None:
    said = own("up", "--standby", "--detach", "--listen", "127.0.0.1:0").stdout
    assert said.startswith("Stoker serves at ")  # there was nobody to wait for
    server = own.server_pid
    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
        standby = begin_standby(own)
        standby.send_signal(number)
        _, err = standby.communicate(timeout=5)
        assert standby.returncode == code, err
        assert b"Traceback" not in err
    assert own.server_pid == server
    own("ls")


def test_an_address_that_is_taken_for_a_moment_is_waited_for(own: Stoker, port: int) -> None:
    own.up()
    with socket.create_server(("127.0.0.1", port)):
        standby = begin_standby(own, "--listen", f"127.0.0.1:{port}")
        own.kill_server()
        assert standby.stderr is not None
        assert any(b"event=address_taken" in line for line in standby.stderr)
    until(lambda: own.server_pid == standby.pid)
    own("ls")


def test_a_stopped_server_is_not_replaced(own: Stoker) -> None:
    """It may go on at any moment, and still has the lock."""
    check_nobody_replaces_it(own)


def test_a_stopped_server_on_postgresql_is_not_replaced(on_postgres: Stoker) -> None:
    check_nobody_replaces_it(on_postgres)


def check_nobody_replaces_it(stoker: Stoker) -> None:
    stoker.up()
    first = stoker.server_pid
    tasks = submit_pair(stoker)
    os.kill(first, signal.SIGSTOP)
    try:
        standby = begin_standby(stoker)
        with pytest.raises(subprocess.TimeoutExpired):
            standby.wait(1.5)
        assert stoker.server_pid == first
    finally:
        os.kill(first, signal.SIGCONT)
    check_ends(stoker, *tasks)
    assert stoker.server_pid == first
    stoker.kill_server()
    until(lambda: stoker.server_pid == standby.pid)


def test_a_server_that_lost_its_session_is_fenced(
    on_postgres: Stoker, other: Stoker, url: str, postgres: Postgres
) -> None:
    own = on_postgres
    first = own.begin("up", "--simulate-gpus", "4", "--listen", "127.0.0.1:0")
    until((own.home / "server.json").exists)
    tasks = submit_pair(own)
    standby = other.begin("up", "--standby", "--simulate-gpus", "4", "--listen", "127.0.0.1:0")
    assert standby.stdout is not None
    said = standby.stdout.readline().decode()
    assert f"the server of the database {as_url(url).database} (" in said
    assert f"pid {first.pid})" in said

    first.send_signal(signal.SIGSTOP)
    assert postgres.cut(url) >= 2
    until((other.home / "server.json").exists)
    new = other.submit("--gpus", "0", "--", "echo", "by the second")
    other("wait", new)
    recorded = other.json("ls", "-a")
    late = own.begin("submit", "--", "echo", "never")  # the first one is asked, and cannot answer
    until(lambda: is_asked(own))
    first.send_signal(signal.SIGCONT)
    _, log = first.communicate(timeout=PATIENCE_S)  # by itself: nobody asks it anything

    assert first.returncode == 1, log
    assert b"Traceback" not in log
    assert b"event=outdated" in log
    assert b"event=Placed" not in log.partition(b"event=outdated")[2]
    assert late.wait(PATIENCE_S) in (2, 3), "nothing may be accepted"
    assert other.json("ls", "-a") == recorded
    check_ends(other, *tasks)
    other("down")
    assert standby.communicate(timeout=PATIENCE_S)[1].count(b"event=recovered epoch=2 ") == 1


def is_asked(stoker: Stoker) -> bool:
    """Whether somebody is connected to the server of this folder."""
    url = json.loads((stoker.home / "server.json").read_text())["url"]
    port = f":{int(url.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[2].endswith(port) and row[3] == ESTABLISHED for row in rows)


def test_a_standby_elsewhere_leaves_tasks_alone_that_it_cannot_reach(
    on_postgres: Stoker, other: Stoker
) -> None:
    own = on_postgres
    (other.home / "spool").unlink()
    own.up()
    tasks = submit_pair(own)
    ended = begin_standby(other)
    other("down")
    assert ended.wait(PATIENCE_S) == 0
    standby = begin_standby(other)
    own.kill_server()
    _, said = standby.communicate(timeout=PATIENCE_S)
    assert standby.returncode == 2
    assert b"2 tasks run on " in said
    assert b"Traceback" not in said
    own.up()
    check_ends(own, *tasks)
