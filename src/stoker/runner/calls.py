"""What a server may ask for beside its orders: a table of verbs, each done as the account; those of
AS_ROOT are done as root, because only root can, and touch nothing of the account's.

Every call is done by a process of its own that the forker forks and that becomes the account. It
hands its answer in over the runner's socket, under a ticket, and is ended by an alarm when it
takes too long: a home folder that hangs holds up nobody.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import Any, Callable, Dict

from . import account, envcheck, libc, login, logindefs, protocol
from .layout import SOCKET, socket_path
from .protocol import Answer
from .setting import Setting

VERBS: Dict[str, Callable[..., Dict[str, Any]]] = {"check_environment": envcheck.check}
AS_ROOT: Dict[str, Callable[..., Dict[str, Any]]] = {"login": login.check}
TIMEOUT, BUSY, UNKNOWN_VERB = "timeout", "busy", "unknown_verb"
MOST_BYTES = 64 << 10
"""Of a call, and of its answer."""


@dataclass(frozen=True)
class Errand:
    """What a process that becomes the account is sent to do."""

    ticket: int
    verb: str
    account: str
    args: Dict[str, str] = field(repr=False)  # a password may be among them
    limit_s: float

    def line(self) -> bytes:
        """As it travels to the forker."""
        return json.dumps(self.__dict__).encode("ascii")


def answer_as_owner(raw: bytes, setting: Setting) -> None:
    """In a process of its own: become the account, do it, answer, end."""
    errand = Errand(**json.loads(raw))
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect(socket_path(setting.dir_fd, SOCKET))  # while we still may
    os.setsid()
    libc.unblock_signals()
    signal.setitimer(signal.ITIMER_REAL, errand.limit_s + 1)  # its default ends us
    for fd in (0, 1, 2):  # what the account's programs print is not for the runner's log
        os.dup2(setting.null_fd, fd)
    answer = _as_root(errand, setting) if errand.verb in AS_ROOT else _as_owner(errand, setting)
    said = protocol.line(answer)
    if len(said) > MOST_BYTES:
        said = protocol.line(Answer(errand.ticket, error="the answer is too long"))
    link.sendall(said)


def _as_root(errand: Errand, setting: Setting) -> Answer:
    try:
        result = AS_ROOT[errand.verb](errand.args, setting.mine, setting.admission)
    except (OSError, ValueError):  # its words might quote what it was given
        return Answer(errand.ticket, error="failed")
    return Answer(errand.ticket, result)


def _as_owner(errand: Errand, setting: Setting) -> Answer:
    try:
        owner = account.wanted(errand.account, setting.mine, setting.admission)
        account.become(owner)
    except OSError as error:
        if error.strerror == account.NOT_ALLOWED:
            why = {"detail": str(error.filename)}
            return Answer(errand.ticket, why, error=account.NOT_ALLOWED)
        return Answer(errand.ticket, {"detail": errand.account}, error="account_unknown")
    return _done(errand, owner, setting)


def _done(errand: Errand, owner: account.Account, setting: Setting) -> Answer:
    is_login = setting.admission is not None
    base = logindefs.variables(owner) if is_login else setting.base
    is_own = owner.uid == setting.mine.uid
    args = {**errand.args, "limit_s": str(errand.limit_s)}
    try:
        result = VERBS[errand.verb](args, owner, base, is_own=is_own, is_login=is_login)
        return Answer(errand.ticket, result)
    except TimeoutError:
        return Answer(errand.ticket, error=TIMEOUT)
    except (OSError, ValueError) as error:
        return Answer(errand.ticket, error=str(error)[:200])
