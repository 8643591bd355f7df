"""The unix account that a command runs as, and how a process becomes it.

Looking up a name may ask the network (LDAP): only the command's own process and log readers do
it, never the runner's loop or a supervisor. After `become` there is no way back.
"""

from __future__ import annotations

import errno
import os
import pwd
from dataclasses import dataclass


@dataclass(frozen=True)
class Account:
    """What the password database says of an account."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str


def own() -> Account:
    """The account of this process, even when the database does not know it (containers)."""
    uid = os.geteuid()
    try:
        return _account(pwd.getpwuid(uid))
    except KeyError:
        home = os.environ.get("HOME", "/")
        return Account(str(uid), uid, os.getegid(), home, "/bin/sh")


def wanted(name: str, mine: Account) -> Account:
    """The account for a launch; "" = the runner's own. Raises OSError."""
    if name in ("", mine.name):
        return mine
    try:
        found = _account(pwd.getpwnam(name))
    except (KeyError, ValueError) as error:
        raise FileNotFoundError(errno.ENOENT, "no such account", name) from error
    if found.uid == 0:
        raise PermissionError(errno.EPERM, "commands do not run as root", name)
    return found


def become(account: Account) -> None:
    """Drop to `account`: groups first, user last. Raises OSError; nothing to do for our own."""
    if account.uid == os.geteuid():
        return
    os.initgroups(account.name, account.gid)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(
        entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir or "/", entry.pw_shell or "/bin/sh"
    )
