"""Secrets are planted in a running Stoker of a lab, and looked for wherever they must not be.

Looked through: the logs of server and runner, everything else in the state folder, the command
lines and environments of all processes, records, a backup, what commands print and every answer.
Where one is by design is said in `BY_DESIGN`; whoever adds a feature that has a secret adds a line
there and plants it in `plant`.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from typing_extensions import override

from stoker.access.codes import new_code
from stoker.access.passwords import Passwords
from stoker.access.tokens import csrf_of, kept_as, new_secret
from stoker.domain.person import SCOPES, Credential, Person
from stoker.lab.book import RULE, Book, Put
from stoker.store.recorder import open_store
from tests.e2e.conftest import Stoker, until
from tests.helpers.accounts import Unix, some_accounts
from tests.helpers.receivers import Receiver, receiving

Where = Literal[
    "server.log", "runner.log", "state folder", "task's own log", "token file", "records", "backup",
    "argv", "task's own argv", "environ", "task's own environ", "answers", "owner's answers",
    "screen", "key file", "first-code file", "answer that shows it once",
]  # fmt: skip

OF_A_TASK: frozenset[Where] = frozenset({"records", "backup", "owner's answers"})
"""A task must be able to run from the records; its owner may read what he has said."""
ONCE: frozenset[Where] = frozenset({"answer that shows it once"})
BY_DESIGN: dict[str, frozenset[Where]] = {
    "variable of a task": OF_A_TASK | {"task's own environ"},
    # argv is the kernel's to show; the first line of a log says what is run
    "argument of a task": OF_A_TASK | {"task's own argv", "task's own log", "screen"},
    "script of a task": OF_A_TASK | {"task's own argv", "task's own log", "screen"},
    "the folder's own token": frozenset({"token file"}),
    "token": frozenset(),
    "expired token": frozenset(),
    "session": frozenset(),
    "csrf word": frozenset(),
    "one-time code": frozenset(),
    "token that is wrong": frozenset(),
    "password in a wrong place": frozenset(),
    "password of the database": frozenset(),
    "password": frozenset(),
    "wrong password": frozenset(),
    "old password": frozenset(),
    "new password": frozenset(),
    "password of the system": frozenset(),
    "one-time password": ONCE,
    "first admin's code": frozenset({"first-code file"}),
    "code that was asked for": ONCE,
    "token of a log-in": ONCE,
    "token that was asked for": ONCE,
    "cookie of a session": ONCE,
    "csrf word of a session": ONCE,
    "password of the mail server": frozenset(),
    "address of a webhook": frozenset(),
    "key of the seal": frozenset({"key file"}),
}
OWN = "the folder's own token"
LEAST_BYTES = {"one-time password": 14}
"""What a person has to type is shorter than the others; it is as little to be found by chance."""


class Site:
    """A Stoker with secrets in it, and everything it has said."""

    def __init__(self, stoker: Stoker, receiver: Receiver) -> None:
        self.stoker, self.receiver = stoker, receiver
        self.secrets: dict[str, str] = {}
        self.said: dict[Where, bytes] = {
            "answers": b"",
            "owner's answers": b"",
            "screen": b"",
            "answer that shows it once": b"",
        }
        self.tasks: list[str] = []
        self.read: list[tuple[Where, bytes]] = []
        """Everything that could be read once all was planted."""
        self.cookie = ""
        """Of the last answer."""

    @property
    def host(self) -> str:
        found = json.loads((self.stoker.home / "server.json").read_text())
        return str(found["url"]).removeprefix("http://")

    def places_of(self, text: bytes) -> set[Where]:
        return {where for where, data in self.read if text in data}

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        where: Where = "answers",
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """What comes back is kept. `token`: "" = none."""
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            known = {"Content-Type": "application/json", **(headers or {})}
            if token != "":
                known["Authorization"] = f"Bearer {token or self.secrets[OWN]}"
            data = None if body is None else json.dumps(body)
            connection.request(method, f"/api/v1{path}", data, known)
            response = connection.getresponse()
            answer = response.read()
            self.said[where] += answer + repr(response.getheaders()).encode()
            self.cookie = (response.getheader("Set-Cookie") or "").partition(";")[0]
            return json.loads(answer) if answer[:1] in b"{[" else answer
        finally:
            connection.close()

    def is_in(self, id: str, state: str) -> bool:
        found = self.request("GET", f"/tasks/{id}", where="owner's answers")
        return bool(found["task"]["state"] == state)

    def run(self, *args: str, env: Mapping[str, str] | None = None, code: int = 0) -> None:
        done = subprocess.run(
            self.stoker.command(*args),
            cwd=self.stoker.work,
            env=self.stoker.env | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == code, done
        self.said["screen"] += done.stdout + done.stderr


class OfAnAccount(Stoker):
    """A Stoker that a plain account serves a lab with: root would serve it as somebody else."""

    def __init__(self, folder: Path, account: Unix | None) -> None:
        super().__init__(folder)
        self.account = account
        self.env["STOKER_ONE_PERSON"] = "0"
        self.home.mkdir(mode=0o700)
        if account is not None:
            self.env["HOME"] = account.home
            for path in (folder, self.work, self.home):
                os.chown(path, account.uid, account.gid)

    @override
    def command(self, *args: str) -> list[str]:
        if self.account is None:
            return super().command(*args)
        become = [f"--reuid={self.account.uid}", f"--regid={self.account.gid}", "--clear-groups"]
        return ["setpriv", *become, *super().command(*args)]


@contextlib.contextmanager
def somewhere() -> Iterator[OfAnAccount]:
    with contextlib.ExitStack() as stack:
        account = None
        if os.getuid() == 0:
            account = stack.enter_context(some_accounts()).add("lab")
        folder = Path(tempfile.mkdtemp(prefix="stoker-test-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        made = OfAnAccount(folder, account)
        tried = subprocess.run(made.command("version"), env=made.env, cwd="/", check=False)
        if tried.returncode != 0:
            pytest.skip("needs root: an interpreter that other accounts can read")
        yield made


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with somewhere() as stoker, receiving() as receiver:
        made = Site(stoker, receiver)
        asyncio.run(plant_in_records(made))
        if stoker.account is not None:
            for path in stoker.home.iterdir():
                os.chown(path, stoker.account.uid, stoker.account.gid)
        left = ["it was not cleaned up"]
        try:
            stoker.up()
            plant(made)
            made.read = [(where, data) for where, data in places(made) if data]
            yield made
        finally:
            left = stoker.clean_up()
        assert left == []


async def plant_in_records(site: Site) -> None:
    """What people log in with."""
    store = open_store(site.stoker.home / "stoker.db")
    try:
        book, now = Book(store), datetime.now(UTC)
        await book.load()
        passwords = Passwords()
        kept = {}
        for name in ("password", "old password"):
            site.secrets[name] = canary()
            kept[name] = await passwords.hashed(site.secrets[name])
        passwords.close()
        changes = [
            Put(RULE, "notice_hosts", "127.0.0.1"),
            Put("person", "ana", Person(name="ana"), kept["password"]),
            Put("person", "bo", Person(name="bo"), kept["old password"]),
            Put("person", "cy", Person(name="cy", login="system", account="nobody")),
        ]
        for name, kind, until_ in (
            ("token", "token", None),
            ("expired token", "token", now - timedelta(days=1)),
            ("session", "session", None),
        ):
            site.secrets[name] = new_secret()
            if kind == "session":
                site.secrets["csrf word"] = csrf_of(site.secrets[name])
            credential = Credential(
                kind=kind,  # type: ignore[arg-type]
                person="ana",
                scopes=SCOPES,
                created_at=now,
                expires_at=until_,
            )
            changes.append(Put("credential", kept_as(site.secrets[name]), credential))
        await book.amend(changes)
        site.secrets["one-time code"] = await new_code(book, _Now(), "ana", by="root")
    finally:
        store.close()


def canary() -> str:
    return "CANARY" + new_secret()[4:].replace("-", "x")


class _Now:
    def now(self) -> datetime:
        return datetime.now(UTC)


def plant(site: Site) -> None:
    """Everything that a person does with a secret; then time for it to leak."""
    known, stoker = site.secrets, site.stoker
    known[OWN] = (stoker.home / "token").read_text().strip()
    for name in BY_DESIGN:
        known.setdefault(name, canary())
    plant_tasks(site)
    plant_people(site)
    plant_notices(site)
    for name in ("token", "expired token", "session", "one-time code", "token that is wrong"):
        secret = known[name]
        site.request("GET", "/tasks", token=secret)
        site.request("GET", f"/tasks?token={secret}")
        site.request("POST", "/login", {"name": "ana", "code": secret}, token=secret)
        cookie = f"__Host-stoker={secret}; stoker={secret}"
        site.request("GET", "/tasks", headers={"Cookie": cookie}, token="x" * 20)
    site.request("POST", "/tasks", {}, headers={"X-Stoker-Csrf": known["csrf word"]})
    password = known["password in a wrong place"]
    for method, path, body in (
        ("POST", "/tasks", {"command": ["true"], "password": password}),
        ("POST", "/login", {"name": "ana", "password": password}),
        ("POST", "/login", {"name": password, "password": password}),
        ("POST", "/nodes/nowhere/drain", {"why": "x", "password": password}),
        ("PUT", "/me/password", {"old": password, "new": password}),
    ):
        site.request(method, path, body)
    site.run("ls", "-a")
    site.run("show", site.tasks[0])
    url = f"postgresql://stoker:{known['password of the database']}@127.0.0.1:1/stoker"
    site.run("config", "show", env={"STOKER_DATABASE": url})
    elsewhere = {"STOKER_DATABASE": url, "STOKER_HOME": str(stoker.folder / "elsewhere")}
    site.run("up", "--detach", "--listen", "127.0.0.1:0", env=elsewhere, code=2)
    site.run("backup", str(stoker.folder / "backup"))


def plant_people(site: Site) -> None:
    """Come in by every way, rightly and wrongly."""
    known = site.secrets
    once: Where = "answer that shows it once"
    known["first admin's code"] = (site.stoker.home / "first-code").read_text().split()[1]

    def log_in(where: Where = once, **wish: str) -> Any:
        return site.request("POST", "/login", wish, token="", where=where)

    mine = log_in(name="ana", password=known["password"])
    known["token of a log-in"] = mine["token"]
    made = site.request(
        "POST", "/tokens", {"label": "x", "scopes": ["account"]}, token=mine["token"], where=once
    )
    known["token that was asked for"] = made["token"]
    session = log_in(name="ana", password=known["password"], kind="session")
    known["csrf word of a session"] = session["csrf"]
    known["cookie of a session"] = site.cookie.partition("=")[2]
    own_page = {
        "Cookie": site.cookie,
        "Origin": f"http://{site.host}",
        "X-Stoker-CSRF": session["csrf"],
    }
    confirmed = {"password": known["password"]}
    site.request("POST", "/me/confirm", confirmed, token="", headers=own_page, where=once)
    site.request("POST", "/me/confirm", confirmed, token=mine["token"])
    site.request("GET", "/tokens", token=mine["token"])
    refused = log_in("answers", name="ana", password=known["wrong password"])
    assert refused["code"] == "wrong_password"
    refused = log_in("answers", name="cy", password=known["password of the system"])
    assert refused["code"] in ("wrong_password", "login_unreachable")
    bo = log_in(name="bo", password=known["old password"])["token"]
    change = {"old": known["old password"], "new": known["new password"]}
    assert "revoked" in site.request("PUT", "/me/password", change, token=bo)
    added = site.request("POST", "/people", {"name": "di"}, where=once)
    known["one-time password"] = added["one_time_password"]
    log_in(name="di", password=known["one-time password"])
    known["code that was asked for"] = site.request("POST", "/people/di/code", where=once)["code"]
    log_in(code=known["code that was asked for"])
    for path in ("/me", "/people", "/people/di", "/audit", "/server-log", "/server-log/full"):
        site.request("GET", path)


def plant_notices(site: Site) -> None:
    """A mail server that is not there, and a service that says its own address when it fails."""
    known, mine = site.secrets, site.secrets["token of a log-in"]
    server = {
        "host": "127.0.0.1", "port": 1, "tls": "none", "sender": "lab@lab.example", "user": "lab",
        "password": known["password of the mail server"],
    }  # fmt: skip
    assert site.request("PUT", "/mail", server)["server"]["has_password"] is True
    address = f"{site.receiver.url}/{known['address of a webhook']}"
    site.receiver.answer = lambda hit: (500, hit.path.encode())
    for name, url in (("mail", "ana@lab.example"), ("hook", address)):
        site.request("PUT", f"/me/channels/{name}", {"url": url}, token=mine)
        tried = site.request("POST", f"/me/channels/{name}/test", token=mine)
        assert tried["state"] == "failed", tried
    assert known["address of a webhook"] in site.receiver.hits[0].path
    site.request("PUT", "/me/channels/other", {"url": f"{address} {address}"}, token=mine)
    for path in ("/me/channels", "/me/notices"):
        site.request("GET", path, token=mine)
    site.request("GET", "/mail")
    known["key of the seal"] = (site.stoker.home / "secret.key").read_text().split()[1]


def plant_tasks(site: Site) -> None:
    """Two that fail, one that runs, one from a script."""
    known = site.secrets
    specs: list[tuple[str, Any]] = [
        ("FINISHED", ["false", known["argument of a task"]]),
        ("FINISHED", ["/missing", known["argument of a task"]]),
        ("RUNNING", ["sh", "-c", "sleep 600; true", known["argument of a task"]]),
        ("RUNNING", f"sleep 600; true {known['script of a task']}"),
    ]
    for state, command in specs:
        spec = {"command": command, "env": {"SECRET": known["variable of a task"]}}
        made = site.request("POST", "/tasks", spec, where="owner's answers")
        site.tasks.append(made["id"])
        until(partial(site.is_in, made["id"], state))
    spec = {"command": ["true"], "env": {"SECRET": known["variable of a task"], "": "x"}}
    site.request("POST", "/tasks", spec)
    site.request("POST", "/tasks", spec | {"surprise": 1})


# ---- where to look


def places(site: Site) -> Iterator[tuple[Where, bytes]]:
    """Everything there is to read."""
    yield from site.said.items()
    yield from in_folders(site)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            argv, environ = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:  # it has ended, or is another's
            continue
        is_task = is_of_a_task(argv, environ)
        yield ("task's own argv" if is_task else "argv"), argv
        yield ("task's own environ" if is_task else "environ"), environ


def is_of_a_task(argv: bytes, environ: bytes) -> bool:
    """Whether a process is what somebody wanted to run, and none of ours beside it."""
    is_marked = any(entry.startswith(b"STOKER_TASK_ID=") for entry in environ.split(b"\0"))
    return is_marked and b".pyz" not in argv and b"python" not in argv


def in_folders(site: Site) -> Iterator[tuple[Where, bytes]]:
    named: dict[str, Where] = {
        "server.log": "server.log",
        "runner.log": "runner.log",
        "token": "token file",
        "secret.key": "key file",
        "first-code": "first-code file",
    }
    for path in site.stoker.folder.rglob("*"):
        if not path.is_file():
            continue
        where: Where = named.get(path.name, "state folder")
        if path.name.startswith("stoker.db"):
            where = "records"
        elif path.suffix in (".stdout", ".stderr") or "spool" in path.parts:
            where = "task's own log"
        elif path.name == "backup":
            where = "backup"
        yield where, path.read_bytes()


@pytest.mark.parametrize("name", BY_DESIGN)
def test_a_planted_secret_is_only_where_it_must_be(site: Site, name: str) -> None:
    secret = site.secrets[name].encode()

    assert len(secret) >= LEAST_BYTES.get(name, 40)
    assert site.places_of(secret) <= BY_DESIGN[name]


def test_what_was_looked_through_was_there(site: Site) -> None:
    """A search in the wrong place finds nothing, too."""
    assert site.places_of(b"") >= {
        "server.log", "records", "backup", "argv", "task's own argv", "environ",
        "task's own environ", "answers", "owner's answers", "screen", "task's own log", "token file",
    }  # fmt: skip
    for name in ("variable of a task", "argument of a task", "script of a task"):
        found = site.places_of(site.secrets[name].encode())
        assert found >= {"records", "backup", "owner's answers"}, name


def test_hashes_of_what_people_log_in_with_are_there(site: Site) -> None:
    """They were planted, and are kept as their hashes only."""
    for name in (
        "token", "expired token", "session", "one-time code", "token of a log-in",
        "token that was asked for", "cookie of a session", "first admin's code",
    ):  # fmt: skip
        assert "records" in site.places_of(kept_as(site.secrets[name]).encode()), name
    assert "records" in site.places_of(b"$argon2id$")


def test_what_is_shown_once_was_shown(site: Site) -> None:
    for name, where in BY_DESIGN.items():
        if where in (ONCE, {"first-code file"}, {"key file"}, {"token file"}):
            assert site.places_of(site.secrets[name].encode()) == where, name
