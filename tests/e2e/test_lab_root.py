"""`stoker up` by root, with real accounts: who runs as whom, what the server cannot do, what survives."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from stoker.access.tokens import kept_as, new_secret
from stoker.cli.alive import has_runner
from stoker.domain.person import SCOPES, Credential, Person
from stoker.lab.book import Book, Put
from stoker.runner import lock
from stoker.store.recorder import open_store
from tests.helpers.accounts import Accounts, Unix, some_accounts

from .conftest import Stoker, until

SECRET = "PLANTED-IN-ROOTS-ENVIRONMENT"


class Lab(Stoker):
    """A Stoker of root's, and people with tokens."""

    def __init__(self, folder: Path, accounts: Accounts) -> None:
        super().__init__(folder)
        self.server = accounts.add(
            "srv", "--system", "--user-group", "--shell", "/usr/sbin/nologin", password=""
        )
        self.ana, self.bob, self.out = (accounts.add(name) for name in ("ana", "bob", "out"))
        self.group = accounts.group("gpu", self.ana, self.bob)
        self.env |= {
            "STOKER_ONE_PERSON": "0",
            "STOKER_SERVER_ACCOUNT": self.server.name,
            "STOKER_ALLOWED_GROUP": self.group,
            "ROOTS_SECRET": SECRET,
            "LC_ROOTS_SECRET": SECRET,
        }
        people = {
            "ana": Person(name="ana", account=self.ana.name),
            "bob": Person(name="bob", account=self.bob.name),
            "out": Person(name="out", account=self.out.name),
            "low": Person(name="low", account="daemon"),
            "ghost": Person(name="ghost"),
        }
        self.tokens = {name: new_secret() for name in people}
        self.home.mkdir(mode=0o700)
        asyncio.run(self._admit(people))

    async def _admit(self, people: dict[str, Person]) -> None:
        store = open_store(self.home / "stoker.db")
        try:
            book, now = Book(store), datetime.now(UTC)
            await book.load()
            for name, person in people.items():
                token = Credential(
                    kind="token", person=name, scopes=SCOPES, created_at=now, expires_at=None
                )
                hashed = kept_as(self.tokens[name])
                await book.amend([Put("person", name, person), Put("credential", hashed, token)])
        finally:
            store.close()

    def as_person(self, name: str, *args: str, code: int = 0, language: str = "en") -> Any:
        """What the command line of this person says, on whatever machine."""
        url = json.loads((self.home / "server.json").read_text())["url"]
        locale = "zh_CN.UTF-8" if language == "zh" else "C.UTF-8"
        given = {"STOKER_URL": url, "STOKER_TOKEN": self.tokens[name], "LC_ALL": locale}
        return self(*args, code=code, env=given)

    def submit_as(self, name: str, *args: str) -> str:
        folder = pwd.getpwnam(getattr(self, name).name).pw_dir if hasattr(self, name) else "/"
        said = self.as_person(name, "submit", "--json", "--workdir", folder, *args).stdout
        return str(json.loads(said)["id"])

    def output_as(self, name: str, line: str) -> str:
        """What a line prints that ends well."""
        id = self.submit_as(name, "-c", line)
        self.as_person(name, "wait", id)
        return str(self.as_person(name, "logs", id).stdout)

    def pids(self) -> list[int]:
        """Everything of this state folder but the tasks."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                said = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
                if str(self.home).encode() in said and int(path.name) != os.getpid():
                    found.append(int(path.name))
        return found

    def runner_pid(self) -> int:
        """As its lock says while it is held, else 0."""
        with open(self.home / "spool" / "runner.lock", "rb") as file:
            who = lock.holder(file.fileno())
        return who.pid if who is not None and has_runner(self.home) else 0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with some_accounts() as accounts:
        folder = Path(tempfile.mkdtemp(prefix="stoker-test-"))
        folder.chmod(0o755)
        made = Lab(folder, accounts)
        if not _may(made.server, sys.executable, os.R_OK):
            pytest.skip("needs root: an interpreter that other accounts can read")
        try:
            made.up()
            yield made
            made("up", "--detach")
            made("down", "--stop-tasks", "--yes")
            until(lambda: not made.pids())
        finally:
            for pid in made.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)


def test_the_server_has_no_privilege(lab: Lab) -> None:
    facts = _status(lab.server_pid)
    assert facts["Uid"].split() == [str(lab.server.uid)] * 4
    assert facts["Gid"].split() == [str(lab.server.gid)] * 4
    assert facts["Groups"].split() == [str(lab.server.gid)]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(facts[name], 16) == 0, name
    assert facts["NoNewPrivs"] == "1"
    assert SECRET.encode() not in Path(f"/proc/{lab.server_pid}/environ").read_bytes()


def test_the_servers_account_can_replace_nothing_that_root_trusts(lab: Lab) -> None:
    (lab.home / "config.toml").touch(0o640)
    program = next((lab.home / "runner").iterdir())
    for path in (lab.home / "config.toml", lab.home / "spool", lab.home / "runner", program):
        assert not _may(lab.server, str(path), os.W_OK)
        assert not _does(lab.server, lambda p=path: os.rename(p, f"{p}.x"))
        assert not _does(lab.server, lambda p=path: os.unlink(p) if p.is_file() else os.rmdir(p))
    assert not _may(lab.server, str(lab.home / "spool"), os.R_OK)
    for who in (lab.ana, lab.bob):
        assert not _may(who, str(lab.home / "stoker.db"), os.R_OK)
        assert not _may(who, str(lab.home / "server.json"), os.R_OK)


def test_tasks_are_their_owners_and_the_server_cannot_read_their_files(lab: Lab) -> None:
    for who in (lab.ana, lab.bob):
        name = "ana" if who is lab.ana else "bob"
        said = lab.output_as(
            name, 'umask 077; echo mine > kept; id -u; id -g; id -Gn; pwd; echo "$HOME"; env'
        )
        lines = [line for line in said.splitlines() if not line.startswith("[stoker]")]
        assert lines[:2] == [str(who.uid), str(who.gid)]
        assert set(lines[2].split()) == {who.name, lab.group}
        assert lines[3:5] == [who.home, who.home]
        assert SECRET not in said
        kept = Path(who.home, "kept")
        assert (kept.stat().st_uid, stat.S_IMODE(kept.stat().st_mode)) == (who.uid, 0o600)
        assert not _may(lab.server, str(kept), os.R_OK)
        assert not _may(lab.bob if who is lab.ana else lab.ana, str(kept), os.R_OK)


def test_output_that_the_owner_keeps_to_himself_is_read_as_the_owner(lab: Lab) -> None:
    id = lab.submit_as("ana", "--stdout", "out.txt", "-c", "umask 077; echo private-line")
    lab.as_person("ana", "wait", id)
    os.chmod(Path(lab.ana.home, "out.txt"), 0o600)
    assert "private-line" in lab.as_person("ana", "logs", id).stdout


@pytest.mark.parametrize(
    ("name", "why", "words", "zh"),
    [
        ("low", "(uid 1 < 1000)", "runs no tasks as the account daemon", "不以账号 daemon"),
        ("out", "(group ", "runs no tasks as the account", "不以账号"),
        ("ghost", "`ghost`", "does not know the account `ghost`", "没有账号 `ghost`"),
    ],
)
def test_who_cannot_be_become_is_told_so_in_both_languages(
    lab: Lab, name: str, why: str, words: str, zh: str
) -> None:
    id = lab.submit_as(name, "-c", "id")
    lab.as_person(name, "wait", id, code=1)
    said = lab.as_person(name, "show", id).stdout
    assert words in said
    assert why in said
    assert "stoker user edit" in said
    assert zh in lab.as_person(name, "show", id, language="zh").stdout


def test_an_environment_is_looked_for_as_the_owner(lab: Lab) -> None:
    said = lab.as_person("ghost", "submit", "--environment", "ml", "-c", "id", code=2).stderr
    assert "no unix account `ghost`" in said
    said = lab.as_person("ana", "submit", "--environment", "ml", "-c", "id", code=2).stderr
    assert "no environment `ml`" in said


def test_server_and_runner_may_be_killed_and_tasks_go_on(lab: Lab) -> None:
    id = lab.submit_as("ana", "-c", "echo $$; sleep 600")
    until(lambda: _first_number(lab.as_person("ana", "logs", id).stdout))
    task = _first_number(lab.as_person("ana", "logs", id).stdout)
    before = lab.server_pid
    for pid in (before, lab.runner_pid()):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{before}").exists())
    lab.up()
    assert lab.server_pid != before
    assert os.stat(f"/proc/{task}").st_uid == lab.ana.uid
    shown = json.loads(lab.as_person("ana", "show", "--json", id).stdout)["task"]
    assert shown["state"] == "RUNNING"
    lab.as_person("ana", "cancel", id)
    lab.as_person("ana", "wait", id, code=1)
    assert not Path(f"/proc/{task}").exists()


def test_root_starts_a_dead_runner_again_while_the_server_goes_on(lab: Lab) -> None:
    id = lab.submit_as("bob", "-c", "echo $$; sleep 600")
    until(lambda: _first_number(lab.as_person("bob", "logs", id).stdout))
    task = _first_number(lab.as_person("bob", "logs", id).stdout)
    server, runner = lab.server_pid, lab.runner_pid()
    os.kill(runner, signal.SIGKILL)
    until(lambda: lab.runner_pid() not in (0, runner))
    assert lab.server_pid == server
    assert os.stat(f"/proc/{task}").st_uid == lab.bob.uid
    lab.as_person("bob", "cancel", id)
    lab.as_person("bob", "wait", id, code=1)
    assert not Path(f"/proc/{task}").exists()


def test_a_standby_takes_over_when_roots_process_is_killed(lab: Lab) -> None:
    id = lab.submit_as("ana", "-c", "echo $$; sleep 600")
    until(lambda: _first_number(lab.as_person("ana", "logs", id).stdout))
    first, runner = lab.server_pid, lab.runner_pid()
    lab("up", "--standby", "--detach", "--listen", "127.0.0.1:0", "--simulate-gpus", "4")
    os.kill(int(_status(first)["PPid"]), signal.SIGKILL)
    until(lambda: not Path(f"/proc/{first}").exists() and (lab.home / "server.json").exists())
    until(lambda: lab.server_pid != first and lab.runner_pid() not in (0, runner))
    assert _status(lab.server_pid)["Uid"].split()[0] == str(lab.server.uid)
    lab.as_person("ana", "cancel", id)
    lab.as_person("ana", "wait", id, code=1)


def test_the_first_admins_code_is_in_a_private_file_only(lab: Lab) -> None:
    path = lab.home / "first-code"
    name, code = path.read_text().split()
    assert name == "admin"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = lab("up").stdout
    assert "It was running already." in again
    assert str(path) in again
    assert code not in again
    assert code not in (lab.home / "server.log").read_text()
    assert code.encode() not in (lab.home / "stoker.db").read_bytes()
    assert not any(_may(who, str(path), os.R_OK) for who in (lab.ana, lab.bob))


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _first_number(text: str) -> int:
    return next((int(line) for line in text.splitlines() if line.isdigit()), 0)


def _does(who: Unix, act: Any) -> bool:
    """Whether a process of that account can do this."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.initgroups(who.name, who.gid)
            os.setresgid(who.gid, who.gid, who.gid)
            os.setresuid(who.uid, who.uid, who.uid)
            act()
            os._exit(0)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _may(who: Unix, path: str, mode: int) -> bool:
    def look() -> None:
        if not os.access(path, mode):
            raise PermissionError

    return _does(who, look)


def test_a_backup_is_restored_by_root_and_served_again(lab: Lab) -> None:
    id = lab.submit_as("ana", "-c", "echo kept-output")
    lab.as_person("ana", "wait", id)
    file = lab.folder / "backup"
    lab("backup", str(file))
    assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0
    lab("down")
    lab("restore", str(file), "--yes")
    assert not _may(lab.server, str(lab.home), os.R_OK)
    lab.up()
    assert "kept-output" in lab.as_person("ana", "logs", id).stdout
    until(lambda: lab.output_as("bob", "id -u").count(f"\n{lab.bob.uid}\n"))
    owners = {path.name: path.owner() for path in lab.home.iterdir()}
    assert owners["stoker.db"] == owners["logs"] == lab.server.name
    assert owners["spool"] == owners["runner"] == "root"


def test_somebody_elses_folder_is_not_served_from(lab: Lab) -> None:
    """Root would trust what that account put there."""
    folder = lab.folder / "of-ana"
    folder.mkdir()
    os.chown(folder, lab.ana.uid, lab.ana.gid)
    said = lab(
        "up", "--detach", "--listen", "127.0.0.1:0", code=2, env={"STOKER_HOME": str(folder)}
    )
    assert "does not belong to root" in said.stderr
    assert list(folder.iterdir()) == []


def test_settings_that_are_not_roots_are_not_trusted(lab: Lab) -> None:
    folder = lab.folder / "other"
    folder.mkdir(0o700)
    (folder / "config.toml").write_text('allowed_group = ""\n')
    os.chown(folder / "config.toml", lab.server.uid, lab.server.gid)
    said = lab("up", "--listen", "127.0.0.1:0", code=2, env={"STOKER_HOME": str(folder)})
    assert "config.toml" in said.stderr


def test_a_plain_account_serves_a_lab_and_says_what_that_means(lab: Lab) -> None:
    ana = lab.ana
    home = Path(ana.home, "state")
    env = lab.env | {"STOKER_HOME": str(home), "HOME": ana.home}

    def stoker(*args: str) -> str:
        done = subprocess.run(
            lab.command(*args),
            env=env,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            user=ana.uid,
            group=ana.gid,
            extra_groups=[],
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = stoker("up", "--detach", "--listen", "127.0.0.1:0")
    try:
        assert f"all tasks run as the account {ana.name}" in said
        assert str(home / "first-code") in said
        assert (home / "first-code").read_text().startswith(f"{ana.name} stk_")
        url = json.loads((home / "server.json").read_text())["url"]
        token = (home / "token").read_text().strip()
        asked = Request(f"{url}/api/v1/health", headers={"Authorization": f"Bearer {token}"})
        with urlopen(asked, timeout=10) as answer:
            health = json.load(answer)
        assert health["status"] == "ok"
        assert ana.name in health["notices"][0]
        id = json.loads(stoker("submit", "--json", "--", "id", "-un"))["id"]
        stoker("wait", id)
        assert f"\n{ana.name}\n" in stoker("logs", id)
    finally:
        stoker("down", "--stop-tasks", "--yes")
