"""The command's process, from fork to exec (PROTOCOL 3.4).

It begins nothing before its supervisor's byte: end of file instead of it means that the supervisor
is dead and the child line may be missing, so it leaves without exec. Paths the owner named are
opened, and his environment is looked for and activated, after becoming the owner. What fails is reported through a pipe that exec closes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from typing import Dict, List, NoReturn, Optional, Tuple

from . import account, activate, command, envs, libc, logindefs, program
from .cgroup import Group
from .environ import identity
from .prepare import Command, Prepared, make_command
from .protocol import Launch
from .setting import Setting

NOT_BEGUN = 125
"""Exit code of a child that never got to exec."""
_UMASK = 0o022


class Child:
    """One process before its exec. `log` is our own log, if a stream goes there."""

    def __init__(
        self, prepared: Prepared, setting: Setting, group: Group, log: Optional[int]
    ) -> None:
        self._prepared = prepared
        self._setting = setting
        self._group = group
        self._log = log
        self._step = "exec"
        self._head: Optional[bytes] = None

    def run(self, go: int, report: int) -> NoReturn:
        """Never returns: exec, or exit without having begun."""
        try:
            if os.read(go, 1):
                self._begin()
        except OSError as error:
            self._report(report, error)
        except envs.Unusable as refusal:
            self._report(report, OSError(errno.ENOENT, refusal.code, refusal.detail))
        except Exception as error:
            self._report(report, OSError(errno.EINVAL, str(error)))
        finally:
            os._exit(NOT_BEGUN)

    def _begin(self) -> None:
        os.setsid()
        libc.unblock_signals()
        os.umask(_UMASK if self._setting.admission is None else logindefs.umask(_UMASK))
        self._step = "cgroup"
        self._group.join()
        made, owner = self._command()
        argv = made.argv
        if made.script is not None:
            argv = [
                *argv,
                command.place(made.script, self._setting.spool, self._prepared.key, owner),
            ]
        self._step = "account"
        if owner.uid != self._setting.mine.uid:
            if self._log is not None:
                # `echo > /dev/stderr` opens the log anew, and must be allowed to.
                os.fchown(self._log, owner.uid, owner.gid)
            account.become(owner)
        launch = self._prepared.launch
        self._step = "workdir"
        os.chdir(command.encoded(launch.workdir or owner.home))
        self._connect(launch)
        env = made.env
        if launch.environment not in envs.NONE:
            self._step = "environment"
            env = self._activated(launch, owner, env)
        self._step = "exec"
        try:
            _execute(argv, env)
        except OSError:
            self._head = _head(launch, argv[0], env[b"PATH"])
            raise

    def _activated(
        self, launch: Launch, owner: account.Account, env: Dict[bytes, bytes]
    ) -> Dict[bytes, bytes]:
        """`env` with the environment that was asked for. Raises envs.Unusable."""
        is_own = owner.uid == self._setting.mine.uid
        places = {**(self._setting.base if is_own else {}), **launch.env}
        found = envs.find(launch.environment, owner.home, places)
        kept = frozenset(map(command.encoded, (*launch.env, *identity(launch))))
        return activate.sourced(found, activate.activated(found, env, kept), kept)

    def _command(self) -> Tuple[Command, account.Account]:
        """What to execute, and as whom."""
        prepared = self._prepared
        mine = self._setting.mine
        self._step = "exec"
        if prepared.failure is not None:
            raise prepared.failure
        if prepared.command is not None:
            return prepared.command, mine
        self._step = "account"
        admission = self._setting.admission
        owner = account.wanted(prepared.launch.account, mine, admission)
        self._step = "exec"
        if admission is not None:
            base = logindefs.variables(owner)
            made = make_command(prepared.launch, owner, base, is_own=False, is_login=True)
        else:
            is_own = owner.uid == mine.uid
            made = make_command(prepared.launch, owner, self._setting.base, is_own=is_own)
        return made, owner

    def _connect(self, launch: Launch) -> None:
        """Put the descriptors 0, 1 and 2 in place."""
        self._step = "stdout"
        out = self._output(launch.stdout)
        self._step = "stderr"
        is_same = launch.stderr == "merge" or _same(launch.stderr, launch.stdout)
        err = out if is_same else self._output(launch.stderr)
        os.dup2(self._setting.null_fd, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)

    def _output(self, wish: str) -> int:
        """The descriptor for one stream."""
        if wish == "discard":
            return self._setting.null_fd
        if not wish:
            assert self._log is not None
            return self._log
        path = command.encoded(command.file_of(wish))
        # O_APPEND also for a fresh file: the command may open it a second time. O_NONBLOCK so
        # that a FIFO without a reader is an error, not a silent wait.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path, flags if wish.startswith("+") else flags | os.O_TRUNC, 0o666)
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        return fd

    def _report(self, pipe: int, error: OSError) -> None:
        name = error.filename
        fields = {
            "step": self._step,
            "errno": error.errno or 0,
            "text": error.strerror or str(error),
            "file": os.fsdecode(name) if isinstance(name, (str, bytes)) else "",
            "head": None if self._head is None else self._head.decode("latin-1"),
        }
        with contextlib.suppress(OSError):
            os.write(pipe, json.dumps(fields).encode("ascii"))


def _same(one: str, other: str) -> bool:
    paths = [os.path.normpath(command.file_of(wish)) for wish in (one, other) if wish]
    return len(paths) == 2 and paths[0] == paths[1]


def _execute(argv: List[bytes], env: Dict[bytes, bytes]) -> NoReturn:
    """Look for the program as a shell does, in the command's own PATH."""
    name = argv[0]
    if b"/" in name:
        os.execve(name, argv, env)
    refused: List[OSError] = []
    for folder in env[b"PATH"].split(b":"):
        _try(os.path.join(folder or b".", name), argv, env, refused)
    # A file that is there but may not be run says more than folders without one.
    if refused:
        raise refused[0]
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(name))


def _try(path: bytes, argv: List[bytes], env: Dict[bytes, bytes], refused: List[OSError]) -> None:
    try:
        os.execve(path, argv, env)
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError as error:
        refused.append(error)


def _head(launch: Launch, name: bytes, path: bytes) -> Optional[bytes]:
    """How the thing that exec refused begins."""
    if launch.shell.startswith("#!"):
        return command.encoded(launch.shell)[:256]
    return program.head(os.fsdecode(name), os.fsdecode(path))
