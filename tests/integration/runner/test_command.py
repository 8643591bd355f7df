"""What a command gets: exact arguments, its environment, its shell, its script, its account."""

from __future__ import annotations

import json
import os
import pwd
import signal
import sys
from pathlib import Path

import pytest

from stoker.runner.protocol import MARKER, GpuHold
from tests.helpers.runner_client import Client, alive, wait_until
from tests.integration.runner.conftest import NOBODY, StartRunner

REPORT = """
import json, os, signal, sys
json.dump({
    "argv": [os.fsencode(a).decode("latin-1") for a in sys.argv[2:]],
    "env": {k.decode("latin-1"): v.decode("latin-1") for k, v in os.environb.items()},
    "cwd": os.getcwd(),
    "umask": os.umask(0),
    "ignored": [n for n in (1, 2, 3, 10, 12, 13, 14, 15, 17, 25)
                if signal.getsignal(n) is signal.SIG_IGN],
    "mask": [l.split()[1] for l in open("/proc/self/status")
             if l.startswith(("SigBlk", "SigIgn"))],
    "stdin": os.readlink("/proc/self/fd/0"),
    "session": os.getsid(0) == os.getpid(),
    "uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(),
}, open(sys.argv[1], "w"))
"""


def report(client: Client, place: Path, *args: str, **fields: object) -> dict[str, object]:
    """What a command sees of itself."""
    out = place / "report.json"
    out.touch()
    out.chmod(0o666)
    script = place / "report.py"
    script.write_text(REPORT)
    script.chmod(0o644)
    launch = client.launch("/usr/bin/env", "python3", str(script), str(out), *args, **fields)
    end = client.ended(launch).exit
    assert end is not None
    assert end.code == 0, end
    client.forget(launch)
    found: dict[str, object] = json.loads(out.read_text())
    return found


def test_arguments_arrive_byte_for_byte(shared: Client, place: Path) -> None:
    args = ["", " ", "a b", "$HOME", "`id`", "*", "'\"\\", "-c", "\n", "é", "\udcff\udc80", "火"]
    seen = report(shared, place, *args)
    assert seen["argv"] == [
        word.encode("utf-8", "surrogateescape").decode("latin-1") for word in args
    ]


def test_the_environment_arrives_byte_for_byte_and_identity_wins(
    shared: Client, place: Path
) -> None:
    odd = {
        "A": "",
        "B": "a b\nc=d",
        "C": "\udcff",
        "lower-case.dotted": "火",
        "PATH": "/bin:/usr/bin",
    }
    launch_env = {**odd, MARKER: "forged", "CUDA_VISIBLE_DEVICES": "7", "HOME": "/tmp"}
    gpus = [GpuHold(1, "GPU-b"), GpuHold(3, "GPU-d")]
    seen = report(shared, place, env=launch_env, gpus=gpus, task="17", node="gpu-box")
    env = seen["env"]
    assert isinstance(env, dict)
    for name, value in odd.items():
        assert env[name.encode().decode("latin-1")] == value.encode(
            "utf-8", "surrogateescape"
        ).decode("latin-1")
    attempt = env.pop(MARKER)
    assert attempt.endswith(".0")
    assert attempt != "forged"
    assert {
        name: env[name] for name in sorted(env) if name.startswith(("STOKER", "CUDA", "NV"))
    } == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "1,3",
        "NVIDIA_VISIBLE_DEVICES": "1,3",
        "STOKER_GPU_IDS": "1,3",
        "STOKER_NODE": "gpu-box",
        "STOKER_TASK_ID": "17",
    }
    assert env["HOME"] == "/tmp"
    assert env["PYTHONUNBUFFERED"] == "1"


def test_a_cpu_task_sees_no_card(shared: Client, place: Path) -> None:
    env = report(shared, place)["env"]
    assert isinstance(env, dict)
    assert [env[name] for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")] == ["", ""]


def test_nothing_else_leaks_into_the_environment(start_runner: StartRunner, place: Path) -> None:
    runner = start_runner(env={"SECRET": "s", "LANG": "de_DE", "LC_ALL": "C", "LC_TIME": "C"})
    env = report(runner.client(), place)["env"]
    assert isinstance(env, dict)
    assert "SECRET" not in env
    assert env["LANG"] == "C.UTF-8"
    assert "LC_ALL" not in env
    assert env["LC_TIME"] == "C"
    me = pwd.getpwuid(os.geteuid())
    assert (env["USER"], env["LOGNAME"], env["HOME"]) == (me.pw_name, me.pw_name, me.pw_dir)


def test_a_command_starts_as_if_freshly_logged_in(shared: Client, place: Path) -> None:
    seen = report(shared, place, workdir=str(place))
    assert seen["cwd"] == str(place)
    assert seen["umask"] == 0o022
    blocked, ignored = seen["mask"]  # type: ignore[misc]
    assert int(blocked, 16) == 0  # type: ignore[has-type]
    # Python itself ignores SIGPIPE and SIGXFSZ; nobody can reset what the C library keeps for
    # itself (32 and 33), and whoever started the tests may have ignored those.
    ours = signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}
    assert int(ignored, 16) & sum(1 << number - 1 for number in ours) == 0  # type: ignore[has-type]
    assert seen["stdin"] == "/dev/null"
    assert seen["session"] is True


@pytest.mark.parametrize(
    ("fields", "reason", "word"),
    [
        ({"argv": ["no-such-program"]}, "command_not_found", "no-such-program"),
        ({"argv": ["/etc/passwd"]}, "not_executable", "/etc/passwd"),
        ({"argv": ["true"], "workdir": "/no/such"}, "folder_missing", "/no/such"),
        ({"argv": ["true"], "stdout": "/no/such/file"}, "stdout_not_writable", "/no/such/file"),
        ({"argv": ["true"], "stderr": "/no/such/file"}, "stderr_not_writable", "/no/such/file"),
        ({"argv": ["x" * 200_000]}, "command_not_found", "x"),
        ({"argv": ["true", "y" * 200_000]}, "argument_list_too_long", ""),
        ({"argv": ["true"], "account": "no-such-account"}, "account_unknown", "no-such-account"),
        ({"argv": ["a\0b"]}, "start_failed", ""),
        ({"argv": [], "shell": " "}, "start_failed", ""),
        ({"argv": [], "shell": "#!/no/such/interpreter\n"}, "interpreter_missing", "/no/such"),
        ({"argv": [], "shell": "#!/bin/sh\r\ntrue\r\n"}, "windows_line_ends", ""),
    ],
)
def test_what_fails_before_exec_comes_back_with_a_reason(
    shared: Client, fields: dict[str, object], reason: str, word: str
) -> None:
    launch = shared.launch(**fields)
    end = shared.ended(launch).exit
    assert end is not None
    assert (end.cause, end.code, end.signal) == ("refused", None, None)
    assert end.reason == reason, end
    assert word in end.detail
    shared.forget(launch)


def test_a_refused_start_has_no_command_left(shared: Client) -> None:
    launch = shared.launch("no-such-program")
    seen = shared.ended(launch)
    assert not alive(seen.pid)
    wait_until(lambda: not shared.runner.supervisors())


def test_a_shell_line_and_a_script(shared: Client, place: Path) -> None:
    out = place / "out"
    lines = {
        f"echo $((1+1)) > {out}": "2\n",
        f'#!/bin/sh\necho "$(basename $0)" > {out}\n': "{attempt}.0.script\n",
        f"#!{sys.executable} -I\nopen({str(out)!r}, 'w').write('py')\n": "py",
        f"#!/usr/bin/env sh\ncat > {out} <<EOF\nhere\nEOF": "here\n",
        f"echo long > {out}\n" + "# " + "x" * 300_000: "long\n",
    }
    for line, wanted in lines.items():
        launch = shared.launch(shell=line)
        end = shared.ended(launch).exit
        assert end is not None
        assert end.code == 0, end
        assert out.read_text() == wanted.format(attempt=launch.attempt)
        assert not (shared.runner.spool / f"{launch.attempt}.0.script").exists()
        shared.forget(launch)


def test_root_runs_a_command_as_its_account(shared: Client, place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: runs as another account")
    name = pwd.getpwuid(NOBODY).pw_name
    seen = report(shared, place, account=name, env={"HOME": "/"}, workdir="/")
    assert seen["uid"] == [NOBODY] * 3
    assert seen["gid"] == [pwd.getpwuid(NOBODY).pw_gid] * 3
    assert 0 not in seen["groups"]  # type: ignore[operator]
    env = seen["env"]
    assert isinstance(env, dict)
    assert env["USER"] == name


def test_root_honours_a_script_of_another_account_and_its_files(
    shared: Client, place: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: runs as another account")
    name = pwd.getpwuid(NOBODY).pw_name
    home = place / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    launch = shared.launch(
        shell="#!/bin/sh\nid -u; echo oops >> /dev/stderr; exit 2\n",
        account=name,
        workdir=str(home),
        stdout="out.txt",
        stderr="",
    )
    end = shared.ended(launch).exit
    assert end is not None
    assert end.code == 2, end
    assert (home / "out.txt").read_text() == f"{NOBODY}\n"
    assert (home / "out.txt").stat().st_uid == NOBODY
    log = shared.runner.spool / f"{launch.attempt}.0.log"
    assert "oops" in log.read_text()
    assert not list(Path("/run/stoker-scripts").glob(f"{launch.attempt}*"))
    # A folder of root's is closed to it.
    denied = shared.launch("true", account=name, workdir="/root", stdout="x")
    end = shared.ended(denied).exit
    assert end is not None
    assert end.cause == "refused"
