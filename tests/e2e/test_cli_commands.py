"""Every command once, as a person types it."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from stoker.client import Client, TaskSpec

from .conftest import Stoker, until


def test_a_first_task(stoker: Stoker) -> None:
    said = stoker("submit", "--gpus", "1", "-c", "echo hello from $STOKER_GPU_IDS").stdout
    assert said.startswith("Task ")
    assert "starting on " in said
    assert ", GPU 0." in said
    id = said.split()[1]
    assert f"stoker logs -f {id}" in said
    assert f"Task {id} (echo hello from" in stoker("wait", id).stdout
    assert stoker.output(id) == b"hello from 0\n"
    assert stoker.output(id, "-f") == b"hello from 0\n"


def test_how_to_get_in(stoker: Stoker) -> None:
    again = stoker("up").stdout  # finds the running one and leaves it alone
    assert "already" in again
    assert "http://127.0.0.1:" in again
    assert str(stoker.home / "token") in again
    token = (stoker.home / "token").read_text().strip()
    assert token not in again
    assert "4 GPUs (simulated" in again
    assert stat.S_IMODE((stoker.home / "token").stat().st_mode) == 0o600
    assert token not in (stoker.home / "server.log").read_text()


def test_the_list_and_its_groups(stoker: Stoker) -> None:
    running = stoker.submit("--gpus", "4", "-n", "all of them", "--", "sleep", "600")
    queued = stoker.submit("--gpus", "1", "--", "true")
    held = stoker.submit("--hold", "--", "true")
    said = stoker("ls").stdout
    assert [line.split()[0] for line in said.splitlines()] == ["ID", running, queued, held]
    listed = stoker.json("ls")
    assert {task["id"] for task in listed} == {running, queued, held}
    assert isinstance(listed[0]["spec"], dict)
    assert [task["id"] for task in stoker.json("ls", "--state", "queued")] == [queued]
    assert [task["id"] for task in stoker.json("ls", "--state", "Live")] == [running]
    everything = stoker.json("ls", "-a")
    assert len(everything) > 3
    assert [int(task["id"]) for task in everything] == sorted(
        (int(task["id"]) for task in everything), reverse=True
    )
    assert stoker.json("ls", "-a", "-n", "2") == everything[:2]
    assert "-n shows more" in stoker("ls", "-a", "-n", "2").stdout
    assert stoker("ls", "--state", "nonsense", code=2).stderr.startswith("stoker: state")

    shown = stoker("show", queued).stdout
    assert "of the 4 GPUs" in shown
    assert f"Task {queued}: {'held'}" in stoker("hold", queued).stdout
    assert "does not wait" in stoker("hold", running, code=2).stderr
    assert f"Task {queued}: queued." in stoker("release", queued).stdout
    assert "is not held" in stoker("release", queued, code=2).stderr

    stoker("wait", running, "--timeout", "1s", code=124)
    done = stoker("cancel", running, held, "999999", code=2)
    assert "There is no task 999999" in done.stderr
    stoker("wait", running, held, code=1)
    stoker("wait", queued)
    assert stoker.task(running)["outcome"] == "cancelled"
    assert "cancelled by" in stoker("show", running).stdout
    assert stoker.json("ls") == []
    assert "No tasks are waiting or running." in stoker("ls").stdout
    assert "already ended" in stoker("cancel", running, code=2).stderr


def test_nodes(stoker: Stoker) -> None:
    id = stoker.submit("--gpus", "2", "--", "sleep", "600")
    found = stoker.json("nodes")
    assert [card["task"] for card in found[0]["cards"]] == [id, id, None, None]
    said = stoker("nodes").stdout
    assert "Simulated GPUs" in said
    enforced = set(found[0]["limits"]) >= {"cpus", "memory"}
    assert ("Not enforced" in said) is not enforced
    stoker("cancel", id)
    stoker("wait", id, code=1)


def test_output_apart_and_its_end(stoker: Stoker) -> None:
    id = stoker.submit("--stderr", "err.txt", "-c", "seq 1 500; echo bad >&2")
    stoker("wait", id)
    assert stoker.output(id).splitlines() == [b"%d" % n for n in range(1, 501)]
    tail = stoker("logs", "--tail", "3", id, text=False).stdout.splitlines()
    assert tail[:2] == [b"499", b"500"]
    assert tail[2].startswith(b"[stoker] ")
    assert stoker.output(id, "--stderr") == b"bad\n"
    assert (stoker.work / "err.txt").read_bytes() == b"bad\n"
    assert json.loads(stoker("logs", "--json", "--tail", "3", id).stdout)["text"].startswith("499")
    assert stoker("logs", "--tail", "0", id, text=False).stdout == b""
    merged = stoker.submit("-c", "echo x >&2")
    stoker("wait", merged)
    assert "went into its standard output" in stoker("logs", "--stderr", merged, code=2).stderr


def test_output_in_files_of_ones_own(stoker: Stoker) -> None:
    (stoker.work / "out.txt").write_text("before\n")
    id = stoker.submit("-o", "+out.txt", "-c", "echo after; pwd")
    stoker("wait", id)
    assert (stoker.work / "out.txt").read_text() == f"before\nafter\n{stoker.work}\n"
    nothing = stoker.submit("-o", "discard", "-c", "echo x")
    stoker("wait", nothing)
    assert "not kept" in stoker("logs", nothing, code=2).stderr


def test_following_a_task_that_has_not_started(stoker: Stoker) -> None:
    id = stoker.submit("--hold", "-c", "for n in 1 2 3; do echo $n; sleep 0.1; done")
    assert "not started" in stoker("logs", id, code=2).stderr
    follower = stoker.begin("logs", "-f", id)
    assert follower.stderr is not None
    assert b"not started yet" in follower.stderr.readline()
    stoker("release", id)
    out, _ = follower.communicate(timeout=60)
    assert follower.returncode == 0
    assert [line for line in out.splitlines() if not line.startswith(b"[stoker]")] == [
        b"1", b"2", b"3",
    ]  # fmt: skip


def test_a_script_with_options(stoker: Stoker) -> None:
    script = stoker.work / "训练.sh"
    script.write_text(
        "#!/bin/bash\n#STOKER --gpus 1 --time-limit 1h -e 'GREETING=hello there'\n"
        'echo "$GREETING $1 $CUDA_VISIBLE_DEVICES" "${BASH_VERSION:+in bash}"\n'
    )
    id = stoker.submit("-g", "2", "训练.sh", "plain")
    stoker("wait", id)
    assert stoker.output(id) == b"hello there plain 0,1 in bash\n"
    spec = stoker.task(id)["spec"]
    assert (spec["name"], spec["gpus"], spec["time_limit_s"]) == ("训练.sh", 2, 3600)
    assert "command: " in stoker("submit", "训练.sh", "not plain", code=2).stderr
    script.write_text("#" * 131072)
    assert "command: too long for Linux" in stoker("submit", "训练.sh", code=2).stderr


def test_limits_of_time(stoker: Stoker) -> None:
    id = stoker.submit("-t", "1s", "--grace", "1s", "--", "sleep", "600")
    assert "time limit of 1 s" in stoker("wait", id, code=1).stdout
    assert stoker.task(id)["outcome"] == "timed_out"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--gpus", "5000", "--", "x"], "gpus: too large: at most 1024"),
        (["--gpus", "-1", "--", "x"], "gpus: too small: at least 0"),
        (["--gpus", "5", "--", "x"], "gpus: 5 GPUs can never be given"),
        (["--gpus", "1", "--gpu-ids", "7", "--", "x"], "gpu_ids: "),
        (["--gpus", "1", "--gpu-ids", "0,1", "--", "x"], "gpu_ids: 2 GPUs are named"),
        (["--gpus", "2", "--gpu-ids", "1,1", "--", "x"], "gpu_ids: the same GPU"),
        (["--memory", "900T", "--", "x"], "memory_mib: "),
        (["--cpus", "0", "--", "x"], "cpus: too small: at least 1"),
        (["--time-limit", "0", "--", "x"], "time_limit_s: too small"),
        (["--notify", "ana", "--", "x"], "notify[0]: `ana` is nothing that you can be told"),
        (
            ["--gpus", "1", "--gpu-model", "H100", "--", "x"],
            "gpu_model: No node has a GPU of model",
        ),
        (["--gpus", "1", "--mode", "shared", "--", "x"], "gpu_memory_mib: mode shared needs"),
        (["--node", "nowhere", "--", "x"], "node: There is no node nowhere"),
        (["--queue", "nowhere", "--", "x"], "queue: there is no such queue"),
        (["--after", "0", "--", "x"], "after[0]: `0` does not name a task"),
        (["--after", "999999", "--", "x"], "after[0]: there is no task 999999"),
        (["--array", "9-0", "--", "x"], "array: `9-0` is not a set of indices"),
        (["--start-after", "x", "--", "x"], "start_after: `x` is not a time"),
        (["--mode", "nonsense", "--", "x"], "mode: `nonsense` is not one of: exclusive"),
        (["-e", "CUDA_VISIBLE_DEVICES=0", "--", "x"], "env.CUDA_VISIBLE_DEVICES: "),
        (["-o", "merge", "--", "x"], "stdout: "),
        (["-n", "n" * 201, "--", "x"], "name: too long: at most 200"),
        (["-c", " "], "command: the command is empty"),
    ],
)
def test_what_is_refused_names_its_field(stoker: Stoker, args: list[str], said: str) -> None:
    assert f"stoker: {said}" in stoker("submit", *args, code=2).stderr


def test_chinese(stoker: Stoker) -> None:
    zh = {"LANG": "zh_CN.UTF-8"}
    id = stoker.submit("-c", "exit 3")
    assert "运行错误" in stoker("wait", id, code=1, env=zh).stdout
    assert "退出码 3" in stoker("ls", "-a", env=zh).stdout
    assert "gpus: 太大：最多为 1024。" in stoker("submit", "-g", "5000", "x", code=2, env=zh).stderr
    assert "没有任务 999999" in stoker("show", "999999", code=2, env=zh).stderr
    assert "模拟" in stoker("nodes", env=zh).stdout


def test_hostile_output_on_a_terminal_and_exact_in_a_pipe(stoker: Stoker) -> None:
    hostile = b"\x1b]0;owned\x07\x1b[31mred\x1b[0m\x1b[2J\xff\n"
    (stoker.work / "hostile").write_bytes(hostile)
    id = stoker.submit("-n", "\x1b[2Jname", "--", "cat", "hostile")
    stoker("wait", id)
    assert stoker.output(id) == hostile
    seen = _on_a_terminal(stoker, "logs", id)
    assert b"\x1b[31mred\x1b[0m\xef\xbf\xbd" in seen
    assert b"owned" not in seen
    assert b"\x1b[2J" not in seen
    listed = _on_a_terminal(stoker, "ls", "-a", COLUMNS="60")
    assert b"\\x1b[2Jname" in listed
    assert b"\x1b[32m" in listed
    assert b"\x1b[" not in _on_a_terminal(stoker, "ls", "-a", NO_COLOR="1")


def _on_a_terminal(stoker: Stoker, *args: str, **env: str) -> bytes:
    """What the command writes when it believes that somebody looks."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        stoker.command(*args), cwd=stoker.work, env=stoker.env | env, stdin=theirs, stdout=theirs
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        seen += data
    os.close(ours)
    assert child.wait(30) == 0
    return seen


def test_another_server_by_address(stoker: Stoker, tmp_path: Path) -> None:
    url = json.loads((stoker.home / "server.json").read_text())["url"]
    token = (stoker.home / "token").read_text().strip()
    elsewhere = {"STOKER_HOME": str(tmp_path), "STOKER_URL": url}
    assert "wants a token" in stoker("ls", code=2, env=elsewhere).stderr
    stoker("ls", env=elsewhere | {"STOKER_TOKEN": token})
    wrong = elsewhere | {"STOKER_TOKEN": "no"}
    assert "This token is not good" in stoker("ls", code=2, env=wrong).stderr
    assert "stoker up" in stoker("ls", code=3, env={"STOKER_HOME": str(tmp_path)}).stderr


def test_the_sdk(stoker: Stoker) -> None:
    with Client(home=stoker.home) as client:
        ids = client.submit_many(
            TaskSpec(command=("sh", "-c", f"exit {n}"), workdir="/") for n in range(3)
        )
        ended = client.wait(ids, timeout_s=60)
        assert [ended[id].exit_code for id in ids] == [0, 1, 2]
        assert client.health().status == "ok"
        assert {task.id for task in client.tasks(state=["finished"])} >= set(ids)
        assert b"".join(client.follow_log(ids[0])).startswith(b"[stoker]")


def test_version_config_and_a_reader_that_leaves(stoker: Stoker) -> None:
    assert stoker.json("version")["server"]["home"] == str(stoker.home)
    assert str(stoker.home) in stoker("config", "show").stdout
    line = f"{' '.join(stoker.command('logs'))} $ID | head -c 10"
    id = stoker.submit("-c", "seq 1 100000")
    stoker("wait", id)
    done = subprocess.run(
        ["bash", "-c", f"ID={id}; {line}; exit ${{PIPESTATUS[0]}}"],
        cwd=stoker.work, env=stoker.env, capture_output=True, check=False,
    )  # fmt: skip
    assert done.stderr == b""
    assert len(done.stdout) == 10


def test_reset_is_refused_while_somebody_is_there(own: Stoker) -> None:
    own.up()
    id = own.submit("--", "sleep", "600")
    until(lambda: own.task(id)["state"] == "RUNNING")
    assert "stoker down" in own("reset", "--yes", code=2).stderr
    assert "Tasks that go on: 1" in own("down").stdout
    assert "1" in own("reset", "--yes", code=2).stderr
    assert "stoker up" in own("down", "--stop-tasks", code=2).stderr
    own.up()
    assert own.task(id)["state"] == "RUNNING"
    own.submit("--gpus", "4", "--", "sleep", "600")
    own.submit("--gpus", "4", "--", "sleep", "600")
    own.submit("--hold", "--", "true")
    assert "Tasks cancelled: 4" in own("down", "--stop-tasks", "--yes").stdout
    assert own.processes() == []
    said = own("reset", "--yes").stdout
    aside = next(own.folder.glob("home.old-*"))
    assert str(aside) in said
    assert (aside / "stoker.db").exists()
    own.up()
    assert own.json("ls", "-a") == []


def test_a_start_that_is_refused_says_why(own: Stoker) -> None:
    own("up", "--listen", "203.0.113.1:7433", code=2)  # in clear, to other machines
    plain = {"STOKER_PLAIN_HTTP": "1"}
    for flags in ([], ["--detach"]):
        done = subprocess.run(
            own.command("up", "--listen", "203.0.113.1:7433", *flags),
            cwd=own.work, env=own.env | plain, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert "cannot serve on 203.0.113.1:7433" in done.stderr
        assert "Traceback" not in done.stderr


def test_ctrl_c_leaves_tasks_at_work(own: Stoker) -> None:
    server = own.begin("up", "--simulate-gpus", "1", "--listen", "[::1]:0")
    assert server.stdout is not None
    assert b"http://[::1]:" in server.stdout.readline()
    id = own.submit("--gpus", "1", "-c", "sleep 1; echo survived")
    server.send_signal(signal.SIGINT)
    out, _ = server.communicate(timeout=30)
    assert server.returncode == 0
    assert b"the next `stoker up` knows them" in out
    own.up()
    own("wait", id)
    assert own.output(id) == b"survived\n"
