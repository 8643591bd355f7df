"""The server is killed in the middle: what people had on their screens goes on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from .conftest import Stoker, until


def test_killing_the_server_disturbs_nobody(own: Stoker) -> None:
    own.up()
    flag = own.work / "flag"
    line = f"echo begun; while [ ! -e {flag} ]; do sleep 0.05; done; printf 'done\\377'; exit $1"
    good = own.submit("--gpus", "2", "--", "sh", "-c", line, "sh", "0")
    bad = own.submit("--gpus", "2", "--", "sh", "-c", line, "sh", "7")
    queued = own.submit("--gpus", "4", "--", "sh", "-c", "echo next")
    waiting = own.begin("wait", good, queued)
    failing = own.begin("wait", bad)
    following = own.begin("logs", "-f", good)
    assert following.stdout is not None
    assert following.stdout.readline().startswith(b"[stoker]")
    assert following.stdout.readline() == b"begun\n"
    started = {id: own.task(id)["started_at"] for id in (good, bad)}
    until(lambda: _waits(waiting) and _waits(failing))

    own.kill_server()
    assert "tasks have gone on" in own("ls", code=3).stderr
    assert "Tasks that go on: 2" in own("down").stdout
    own.up()
    assert {id: own.task(id)["started_at"] for id in (good, bad)} == started
    own.kill_server()
    flag.touch()
    own.up()

    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, err) == (0, b"")
    assert out.count(b"succeeded") == 2
    assert failing.wait(60) == 1
    failing.communicate()
    out, err = following.communicate(timeout=60)
    assert (following.returncode, err) == (0, b"")
    assert out.startswith(b"done\xff")
    for id in (good, bad, queued):
        task = own.task(id)
        assert task["attempts"] == 1
        assert task["exit_code"] == (7 if id == bad else 0)
    assert own.output(queued) == b"next\n"


def test_a_submit_to_a_dead_server_is_refused_and_not_lost_afterwards(own: Stoker) -> None:
    own.up()
    first = own.submit("--", "true")
    own.kill_server()
    own("submit", "--", "true", code=3)
    own.up()
    second = own.submit("--", "true")
    own("wait", first, second)
    assert [task["id"] for task in own.json("ls", "-a")] == [second, first]


def test_two_starts_at_once_make_one_server(own: Stoker) -> None:
    starts = [
        own.begin("up", "--detach", "--simulate-gpus", "1", "--listen", "127.0.0.1:0", "--json")
        for _ in range(2)
    ]
    done = [start.communicate(timeout=90) for start in starts]
    assert [start.returncode for start in starts] == [0, 0], done
    assert len({json.loads(out)["url"] for out, _ in done}) == 1


def test_down_and_up_again_with_a_line_of_tasks(own: Stoker) -> None:
    own.up()
    ids = [own.submit("--gpus", "4", "--", "sleep", "0.3") for _ in range(4)]
    for _ in range(3):
        own("down")
        own.up()
    own("wait", *ids)
    assert all(own.task(id)["attempts"] == 1 for id in ids)
    until(lambda: own.json("ls") == [])


def _waits(child: subprocess.Popen[bytes]) -> bool:
    """Whether `stoker wait` has got to its waiting: it hears of events, and has asked for a task."""
    try:
        opened = [os.readlink(path) for path in Path(f"/proc/{child.pid}/fd").iterdir()]
    except OSError:  # one was closed just now
        return False
    return sum(name.startswith("socket:") for name in opened) == 2
