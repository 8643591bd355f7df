"""A runner of root's for many accounts: whom it becomes, whom it refuses, who may talk to it."""

from __future__ import annotations

import base64
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.runner import protocol
from stoker.runner.protocol import Answer, Call, Greeting, LogData, ReadLog
from tests.helpers.accounts import PASSWORD, Accounts, Unix, run, some_accounts
from tests.helpers.runner_client import Client, RunnerProcess, wait_until

SECRET = "PLANTED_IN_ROOTS_ENVIRONMENT"


class Lab:
    """One runner, its server's account, and people."""

    def __init__(self, folder: Path, accounts: Accounts) -> None:
        self.folder = folder
        self.accounts = accounts
        self.server = accounts.add("server", "--system", password="")
        self.ana, self.bob = accounts.add("ana"), accounts.add("bob")
        self.outsider = accounts.add("out")
        self.low = accounts.add("low", "--uid", str(_free_uid()))
        self.shut = accounts.add("shut", "--shell", "/usr/sbin/nologin")
        self.group = accounts.group("gpu", self.ana, self.bob, self.low, self.shut)
        self.project = accounts.group("project", self.ana)
        planted = {
            SECRET: "x",
            "LC_SECRET": SECRET,
            "TMPDIR": "/root",
            "PATH": "/root/bin:/usr/bin",
        }
        self.runner = RunnerProcess(folder / "spool", env=planted).start(
            *("--server-uid", str(self.server.uid)),
            *("--least-uid", "1000", "--allowed-group", self.group),
        )
        self.client = self.runner.client()

    def output(self, who: Unix, script: str, **fields: Any) -> str:
        """What a script prints that ends well."""
        launch = self.client.launch(
            account=who.name, argv=["/bin/sh", "-c", script], workdir=who.home, **fields
        )
        end = self.client.ended(launch)
        assert end.exit is not None
        assert end.exit.code == 0, end
        assert end.log is not None
        lines = base64.b64decode(end.log).decode().splitlines()
        return "\n".join(line for line in lines if not line.startswith("[stoker]"))

    def call(self, verb: str, done_as: str = "", **args: str) -> Answer:
        self.client.send(Call(7, verb, done_as, args, 10))
        return self.client.expect(Answer)

    def login(self, account: str, password: str) -> dict[str, Any]:
        answer = self.call("login", account=account, password=password)
        assert answer.error == ""
        return answer.result


def _free_uid() -> int:
    taken = {one.pw_uid for one in pwd.getpwall()}
    return next(uid for uid in range(999, 500, -1) if uid not in taken)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with some_accounts() as accounts:
        folder = Path(tempfile.mkdtemp(prefix="stoker-test-"))
        folder.chmod(0o755)
        made = Lab(folder, accounts)
        yield made
        made.runner.end()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_command_is_the_owner_in_everything(lab: Lab) -> None:
    said = lab.output(
        lab.ana,
        'id -u; id -g; id -Gn | tr " " "\\n" | sort | tr "\\n" " "; echo; umask; pwd; '
        'echo "$HOME $USER $LOGNAME $SHELL"; grep -E "^(Cap(Inh|Prm|Eff|Amb)|Uid|Gid):" /proc/self/status; '
        "touch made; stat -c %U:%G made",
    ).splitlines()
    ana = lab.ana
    assert said[0:2] == [str(ana.uid), str(ana.gid)]
    assert set(said[2].split()) == {ana.name, lab.group, lab.project}
    assert said[3:6] == ["0022", ana.home, f"{ana.home} {ana.name} {ana.name} /bin/bash"]
    facts = dict(line.split(":", 1) for line in said[6:-1])
    assert facts["Uid"].split() == [str(ana.uid)] * 4
    assert facts["Gid"].split() == [str(ana.gid)] * 4
    assert all(int(facts[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"))
    assert said[-1] == f"{ana.name}:{ana.name}"


def test_nothing_of_roots_environment_is_seen(lab: Lab) -> None:
    said = lab.output(lab.ana, "env; cat /proc/$PPID/environ 2>/dev/null || true")
    names = {line.partition("=")[0] for line in said.splitlines()}
    assert SECRET not in said
    assert "/root" not in said
    assert "STOKER_TEST_FAMILY" not in names
    assert {"PATH", "HOME", "LANG"} <= names
    path = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)["PATH"]
    assert "/usr/bin" in path.split(":")
    assert "/sbin" not in path.split(":")


def test_scripts_and_named_files_are_the_owners(lab: Lab) -> None:
    script = "#!/bin/sh\nid -u; echo to-stderr >&2\n"
    launch = lab.client.launch(
        account=lab.ana.name, shell=script, workdir=lab.ana.home, stdout="out.txt", stderr="err.txt"
    )
    lab.client.ended(launch)
    out = Path(lab.ana.home, "out.txt")
    assert out.read_text() == f"{lab.ana.uid}\n"
    assert (out.stat().st_uid, stat.S_IMODE(out.stat().st_mode)) == (lab.ana.uid, 0o644)
    lab.client.send(ReadLog(5, launch.attempt, 0, "stderr", 0, 100))
    assert base64.b64decode(lab.client.expect(LogData).data) == b"to-stderr\n"
    assert not Path("/run/stoker-scripts", f"{launch.attempt}.0.script").exists()


def test_another_owners_folder_is_closed(lab: Lab) -> None:
    os.chmod(lab.bob.home, 0o700)
    launch = lab.client.launch("pwd", account=lab.ana.name, workdir=lab.bob.home)
    end = lab.client.ended(launch).exit
    assert end is not None
    assert end.reason == "folder_denied"
    launch = lab.client.launch(
        "id", account=lab.ana.name, workdir="/", stdout=f"{lab.bob.home}/stolen"
    )
    end = lab.client.ended(launch).exit
    assert end is not None
    assert end.reason == "stdout_not_writable"


@pytest.mark.parametrize("verb", ["launch", "call", "login"])
def test_who_is_not_admitted_is_refused_with_the_reason(lab: Lab, verb: str) -> None:
    expected = {
        "": "- (uid 0)",
        "root": "root (uid 0)",
        lab.low.name: f"{lab.low.name} (uid {lab.low.uid} < 1000)",
        lab.shut.name: f"{lab.shut.name} (/usr/sbin/nologin)",
        lab.outsider.name: f"{lab.outsider.name} (group {lab.group})",
    }
    for name, why in expected.items():
        if verb == "login":
            assert lab.login(name, PASSWORD) == {"code": "not_allowed"}
        elif verb == "call":
            answer = lab.call("check_environment", name, environment="x")
            assert (answer.error, answer.result) == ("account_not_allowed", {"detail": why})
        else:
            end = lab.client.ended(lab.client.launch("id", account=name)).exit
            assert end is not None
            assert (end.cause, end.reason, end.detail) == ("refused", "account_not_allowed", why)


def test_the_servers_own_account_runs_nothing(lab: Lab, tmp_path: Path) -> None:
    """Not even where its uid is high enough: it would read everybody's records."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-"))
    runner = RunnerProcess(folder / "spool").start("--server-uid", str(lab.ana.uid))
    try:
        client = runner.client()
        end = client.ended(client.launch("id", account=lab.ana.name)).exit
        assert end is not None
        assert end.detail == f"{lab.ana.name} (= server)"
    finally:
        runner.end()
        shutil.rmtree(folder, ignore_errors=True)


def test_an_unknown_account_is_named(lab: Lab) -> None:
    end = lab.client.ended(lab.client.launch("id", account="stk-t-nobody")).exit
    assert end is not None
    assert (end.reason, end.detail) == ("account_unknown", "stk-t-nobody")


def test_only_the_server_may_talk_to_it(lab: Lab) -> None:
    sock = lab.folder / "spool" / "runner.sock"
    status, folder = sock.stat(), sock.parent.stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (lab.server.uid, 0o600)
    assert (folder.st_uid, folder.st_gid) == (0, lab.server.gid)
    assert stat.S_IMODE(folder.st_mode) == 0o710
    assert _greeted_as(lab.server, sock) == "Hello"
    assert _greeted_as(lab.ana, sock) == "PermissionError"
    os.chmod(sock, 0o666)
    os.chmod(sock.parent, 0o755)
    try:  # whatever the modes are, the kernel says who it is
        assert _greeted_as(lab.ana, sock) == ""
        assert f"refused a connection of uid {lab.ana.uid}" in lab.runner.said()
    finally:
        os.chmod(sock, 0o600)
        os.chmod(sock.parent, 0o710)


def test_the_server_reads_nothing_of_the_spool_itself(lab: Lab) -> None:
    launch = lab.client.launch("sleep", "600", account=lab.ana.name)
    lab.client.state(launch, "running")
    spool = lab.folder / "spool"
    for path in (spool, spool / f"{launch.attempt}.0.rec", spool / f"{launch.attempt}.0.log"):
        assert os.path.exists(path)
        assert not _readable_by(lab.server, path)
        assert not _readable_by(lab.bob, path)
    lab.client.stop(launch)
    lab.client.ended(launch)


def test_a_killed_runner_leaves_tasks_alone_and_the_next_knows_them(lab: Lab) -> None:
    launch = lab.client.launch("sleep", "600", account=lab.bob.name)
    pid = lab.client.state(launch, "running").pid
    lab.runner.kill(signal.SIGKILL)
    lab.runner.start("--server-uid", str(lab.server.uid), "--allowed-group", lab.group)
    lab.client = lab.runner.client()
    assert os.stat(f"/proc/{pid}").st_uid == lab.bob.uid
    assert lab.client.state(launch, "running").pid == pid
    lab.client.stop(launch)
    end = lab.client.ended(launch).exit
    assert end is not None
    assert end.cause == "cancel"


def test_log_in_by_the_systems_password(lab: Lab) -> None:
    assert lab.login(lab.ana.name, PASSWORD) == {"ok": True}
    assert lab.login(lab.ana.name, PASSWORD + "x") == {"code": "wrong_password"}
    assert lab.login("stk-t-nobody", PASSWORD) == {"code": "no_account"}
    run("passwd", "-l", lab.ana.name)
    assert lab.login(lab.ana.name, PASSWORD) == {"code": "account_locked"}
    run("passwd", "-u", lab.ana.name)
    run("chage", "-E", "0", lab.ana.name)
    assert lab.login(lab.ana.name, PASSWORD) == {"code": "account_expired"}
    run("chage", "-E", "-1", lab.ana.name)
    run("chage", "-d", "0", lab.ana.name)  # its password must be changed first
    assert lab.login(lab.ana.name, PASSWORD) == {"code": "account_expired"}
    run("chage", "-d", "-1", lab.ana.name)
    assert lab.login(lab.ana.name, PASSWORD) == {"ok": True}
    assert PASSWORD not in lab.runner.said()


def test_log_ins_are_bounded_and_hold_up_nobody(lab: Lab) -> None:
    for number in range(12):
        args = {"account": lab.bob.name, "password": "wrong"}
        lab.client.send(Call(100 + number, "login", "", args, 10))
    assert lab.output(lab.bob, "echo meanwhile") == "meanwhile"
    wait_until(lambda: _answers(lab.client) >= 12 or lab.client.receive() is None)
    errors = [m.error for m in lab.client.seen if isinstance(m, Answer) and m.id >= 100]
    # Fewer than eight if the process of a log-in before has not ended yet.
    assert 1 <= errors.count("") <= 8
    assert errors.count("busy") == 12 - errors.count("")


def test_passwords_are_in_no_command_line_and_in_nobodys_reach(lab: Lab) -> None:
    lab.client.send(Call(9, "login", "", {"account": lab.bob.name, "password": "s3cr3t-wr0ng"}, 10))
    said = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "s3cr3t-wr0ng" not in said
    lab.client.expect(Answer, lambda answer: answer.id == 9)
    assert "s3cr3t-wr0ng" not in lab.runner.said()
    for path in (lab.folder / "spool").iterdir():
        if path.is_file():
            assert b"s3cr3t-wr0ng" not in path.read_bytes()
    # What is not dumpable belongs to root in /proc, and leaves no core.
    assert os.stat(f"/proc/{lab.runner.pid}/mem").st_uid == 0


def test_a_runner_that_is_not_root_says_that_it_cannot(place: Path) -> None:
    with some_accounts() as accounts:
        ana, bob = accounts.add("ana"), accounts.add("bob")
        os.chown(place, ana.uid, ana.gid)
        runner = RunnerProcess(place / "spool", uid=ana.uid).start()
        try:
            client = runner.client()
            end = client.ended(client.launch("id", account=bob.name)).exit
            assert end is not None
            assert end.reason == "account_not_allowed"
            assert end.detail == f"{bob.name} (runner: {ana.name})"
            client.send(Call(1, "login", "", {"account": ana.name, "password": PASSWORD}, 10))
            assert client.expect(Answer).result == {"code": "pam_unavailable"}
        finally:
            runner.end()


def _answers(client: Client) -> int:
    return sum(isinstance(m, Answer) and m.id >= 100 for m in client.seen)


def _readable_by(who: Unix, path: Path) -> bool:
    test = ["test", "-r", str(path)]
    done = subprocess.run(test, user=who.uid, group=who.gid, extra_groups=[], check=False)
    return done.returncode == 0


def _greeted_as(who: Unix, sock: Path) -> str:
    """What a process of that account gets for a greeting: the answer's type, or the error's."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = ""
        try:
            os.initgroups(who.name, who.gid)
            os.setresgid(who.gid, who.gid, who.gid)
            os.setresuid(who.uid, who.uid, who.uid)
            link = socket.socket(socket.AF_UNIX)
            link.settimeout(10)
            link.connect(str(sock))
            link.sendall(protocol.line(Greeting(1)))
            raw = link.makefile("rb").readline()
            said = type(protocol.read(raw)).__name__ if raw else ""
        except (ConnectionResetError, BrokenPipeError):
            said = ""
        except OSError as error:
            said = type(error).__name__
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        said = file.read().decode()
    os.waitpid(pid, 0)
    return said
