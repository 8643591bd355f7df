"""The unix account that a command runs as, and how a process becomes it.

Looking up a name may ask the network (LDAP): only the command's own process and log readers do
it, never the runner's loop or a supervisor. After `become` there is no way back.

A runner that serves many accounts (it is root, and has an `Admission`) becomes those that its
admission lets in, for everything, and does nothing of a task as itself: no name, "" included, means
its own account then.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
from dataclasses import dataclass
from typing import Optional

NOT_ALLOWED = "account_not_allowed"
"""The strerror of a refusal; its filename says whom and why, in no language."""
_NO_SHELLS = ("nologin", "false")


@dataclass(frozen=True)
class Account:
    """What the password database says of an account."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str


@dataclass(frozen=True)
class Admission:
    """Whom a runner that serves many accounts becomes. Never root, never the server's account."""

    server_uid: int
    server_gid: int
    least_uid: int
    group: str = ""
    """Members only, by their first group or another one; "" = everybody else."""


def admission(server_uid: int, least_uid: int, group: str) -> Admission:
    """For a server of this account. Raises KeyError when there is no such account."""
    return Admission(server_uid, pwd.getpwuid(server_uid).pw_gid, max(1, least_uid), group)


def own() -> Account:
    """The account of this process, even when the database does not know it (containers)."""
    uid = os.geteuid()
    try:
        return _account(pwd.getpwuid(uid))
    except KeyError:
        home = os.environ.get("HOME", "/")
        return Account(str(uid), uid, os.getegid(), home, "/bin/sh")


def wanted(name: str, mine: Account, admission: Optional[Admission]) -> Account:
    """The account for a launch; "" = the runner's own, if it serves that. Raises OSError."""
    if admission is None and name in ("", mine.name):
        return mine
    if not name:
        raise _refusal("-", "uid 0")
    try:
        found = _account(pwd.getpwnam(name))
    except (KeyError, ValueError) as error:
        raise FileNotFoundError(errno.ENOENT, "no such account", name) from error
    why = "uid 0" if found.uid == 0 else ""
    if admission is not None:
        why = why or _objection(found, admission)
    elif mine.uid != 0:
        why = f"runner: {mine.name}"
    if why:
        raise _refusal(name, why)
    return found


def become(account: Account) -> None:
    """Drop to `account`: groups first, user last. Raises OSError; nothing to do for our own."""
    if account.uid == os.geteuid():
        return
    os.initgroups(account.name, account.gid)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)


def _objection(account: Account, admission: Admission) -> str:
    """Why a runner of many accounts does not become this one; "" = it does."""
    if account.uid < admission.least_uid:
        return f"uid {account.uid} < {admission.least_uid}"
    if account.uid == admission.server_uid:
        return "= server"
    if os.path.basename(account.shell) in _NO_SHELLS:
        return account.shell
    if admission.group and not _is_member(account, admission.group):
        return f"group {admission.group}"
    return ""


def _is_member(account: Account, group: str) -> bool:
    try:
        return grp.getgrnam(group).gr_gid in os.getgrouplist(account.name, account.gid)
    except KeyError:
        return False


def _refusal(name: str, why: str) -> PermissionError:
    return PermissionError(errno.EPERM, NOT_ALLOWED, f"{name} ({why})")


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(
        entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir or "/", entry.pw_shell or "/bin/sh"
    )
