"""Real unix accounts for tests: made with useradd, gone afterwards. Needs root."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

PREFIX = "stk-t-"
PASSWORD = "Kohlen!7433"  # of every account that has one


class Unix(NamedTuple):
    name: str
    uid: int
    gid: int
    home: str


class Accounts:
    """Makes accounts and groups; `remove` ends what they run and removes them."""

    def __init__(self) -> None:
        self._tag = secrets.token_hex(3)
        self._names: list[str] = []
        self._groups: list[str] = []

    def add(self, name: str, *options: str, password: str = PASSWORD) -> Unix:
        full = f"{PREFIX}{self._tag}-{name}"
        run("useradd", "--create-home", "--shell", "/bin/bash", *options, full)
        self._names.append(full)
        if password:
            run("chpasswd", said=f"{full}:{password}\n")
        found = pwd.getpwnam(full)
        return Unix(full, found.pw_uid, found.pw_gid, found.pw_dir)

    def group(self, name: str, *members: Unix) -> str:
        full = f"{PREFIX}{self._tag}-{name}"
        run("groupadd", full)
        self._groups.append(full)
        for member in members:
            run("usermod", "--append", "--groups", full, member.name)
        return full

    def remove(self) -> None:
        for name in self._names:
            with contextlib.suppress(KeyError):
                home = pwd.getpwnam(name).pw_dir
                run("userdel", "--force", name)
                if name in home:
                    shutil.rmtree(home, ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/var/mail/{name}")
        for name in self._groups:
            with contextlib.suppress(KeyError):
                grp.getgrnam(name)
                run("groupdel", name)


def run(*argv: str, said: str = "") -> None:
    done = subprocess.run(argv, input=said, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{argv[0]}: {done.stderr}"


@contextlib.contextmanager
def some_accounts() -> Iterator[Accounts]:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes unix accounts")
    accounts = Accounts()
    try:
        yield accounts
    finally:
        accounts.remove()
