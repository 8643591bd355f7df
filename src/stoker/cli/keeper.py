"""`up` run by root: a small process of root's that stays, beside a server that has no privilege.

It makes the server's account if there is none, prepares the state folder, starts root's runner and
then the server, as that account and without any capability, for good. It stays to start the runner
again should it die, and ends with the server; the runner and the tasks go on. Nothing here speaks
HTTP or reads what people send.
What root executes or trusts (the runner's program, the spool, the settings) is root's; the state
folder is sticky, so that the server's account can remove or replace none of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import click

from stoker.config import FILE, ROOTS_HOME, Settings
from stoker.domain.errors import AppError
from stoker.engines.fleet.spawn import for_runner, spawn
from stoker.runner import build

from .alive import has_runner, server_pid

ROOTS = frozenset((FILE, "spool", "runner", "runner.log", "server.log", "server.log.1"))
"""Names in the state folder that stay root's."""
OPEN_MODE, CLOSED_MODE = 0o1770, 0o700
"""With the server's group; and to nobody but root, while root changes things in there."""
LOOK_S = 1.0
AGAIN_S = 2.0
"""Between two starts of a runner that does not stay."""
ASKED_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PASSED_ON = frozenset(
    (
        "PATH", "TZ", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "PYTHONPATH", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "SUDO_USER", "COLUMNS", "TERM", "NO_COLOR", "http_proxy", "https_proxy", "no_proxy",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    )
)  # fmt: skip
"""Of root's environment, to the server; beside STOKER_*."""

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_MOST_CAPABILITIES = 64
_NOT_EXECUTED = 127


def prepare(settings: Settings) -> pwd.struct_passwd:
    """Account and state folder, as they must be. May be repeated. Raises AppError."""
    account, home = server_account(settings.server_account), settings.home
    hand_over(home, account)
    check_reach(account, [str(home), sys.executable, os.__file__, __file__, click.__file__])
    return account


def keep(settings: Settings, typed: Sequence[str]) -> int:
    """Until the server has ended; its exit code. Raises AppError for what cannot be."""
    account, home = prepare(settings), settings.home
    program = build.build(home / "runner")
    arguments = ["--node", settings.node_name, "--simulate-gpus", str(settings.simulate_gpus)]
    arguments += ["--server-uid", str(account.pw_uid), "--least-uid", str(settings.least_uid)]
    arguments += ["--allowed-group", settings.allowed_group]
    environ = for_runner(os.environ)
    signal.pthread_sigmask(signal.SIG_BLOCK, (*ASKED_TO_END, signal.SIGCHLD))

    def start(*extra: str) -> None:
        spawn(program, home / "spool", [*arguments, *extra], environ)

    is_standby = "--standby" in typed
    if not is_standby:
        start("--replace")  # it may be of another version, or for another group
    server = _start_server(account, home, typed)
    return _watch(server, home, start, is_standby=is_standby)


def server_account(name: str) -> pwd.struct_passwd:
    """The account, made if it is absent. Raises AppError."""
    with contextlib.suppress(KeyError):
        found = pwd.getpwnam(name)
        if found.pw_uid == 0:
            raise AppError("server_account_root", field="server_account", name=name)
        return found
    shell = next((s for s in ("/usr/sbin/nologin", "/sbin/nologin") if os.path.exists(s)), "")
    command = ["useradd", "--system", "--user-group", "--no-create-home"]
    command += ["--home-dir", str(ROOTS_HOME), "--shell", shell or "/bin/false", name]
    try:
        done = subprocess.run(  # noqa: S603 - exact arguments, no shell
            command, capture_output=True, text=True, errors="replace", check=False
        )
        why = done.stderr.strip() if done.returncode else ""
    except OSError as error:
        why = f"useradd: {error.strerror}"
    try:
        return pwd.getpwnam(name)
    except KeyError:
        said = why or "useradd"
        raise AppError("no_server_account", field="server_account", name=name, why=said) from None


def hand_over(home: Path, account: pwd.struct_passwd) -> None:
    """Make the state folder one that the server's account works in and root's things are safe in."""
    try:
        home.mkdir(mode=CLOSED_MODE, parents=True, exist_ok=True)
        status = home.stat()
    except OSError as error:
        raise AppError("home_unusable", path=str(home), why=error.strerror) from error
    if status.st_uid != 0:
        raise AppError("home_not_roots", path=str(home))
    for name in ("spool", "runner"):
        with contextlib.suppress(FileExistsError):
            (home / name).mkdir(mode=0o700)
        _refuse_strange(home / name, stat.S_ISDIR)
    for name in ROOTS - {"spool", "runner"}:
        _refuse_strange(home / name, stat.S_ISREG)
    for name in (FILE, "server.log"):  # the server reads them too
        with contextlib.suppress(FileNotFoundError):
            os.chown(home / name, 0, account.pw_gid, follow_symlinks=False)
            (home / name).chmod(0o640)
    _give(home, account)
    os.chown(home, 0, account.pw_gid)
    home.chmod(OPEN_MODE)


def close_to_server(home: Path) -> None:
    """Before root changes records in there: nobody else is at work in it. The next `up` opens it."""
    if os.geteuid() == 0 and home.is_dir():
        status = home.stat()
        if status.st_uid == 0 and status.st_mode & 0o7777 == OPEN_MODE:
            home.chmod(CLOSED_MODE)


def check_reach(account: pwd.struct_passwd, paths: Sequence[str]) -> None:
    """Whether the server could run at all. Raises AppError with the path that it cannot reach."""
    pid = os.fork()
    if pid == 0:
        code = len(paths)
        with contextlib.suppress(BaseException):
            _become(account)
            read = (n for n, path in enumerate(paths) if not os.access(path, os.R_OK))
            code = next(read, 255)
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 255:
        path = paths[min(max(code, 0), len(paths) - 1)]
        raise AppError("server_cannot_reach", path=path, name=account.pw_name)


def _refuse_strange(path: Path, is_kind: Callable[[int], bool]) -> None:
    """What stands where root's own must: a link, or somebody else's."""
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        if status.st_uid != 0 or not is_kind(status.st_mode) or status.st_mode & 0o022:
            raise AppError("not_roots", path=str(path))


def _give(home: Path, account: pwd.struct_passwd) -> None:
    """What root has left in there (a restore, a time as one person's) becomes the server's.

    Only what is root's now, which the server's account could not have put there or move away.
    """
    for entry in list(os.scandir(home)):
        status = entry.stat(follow_symlinks=False)
        if entry.name in ROOTS or status.st_uid != 0:
            continue
        if entry.is_dir(follow_symlinks=False):
            for _, folders, files, fd in os.fwalk(entry.path, topdown=False):
                for name in (*folders, *files):
                    inner = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    if inner.st_uid == 0 and (stat.S_ISDIR(inner.st_mode) or inner.st_nlink == 1):
                        os.chown(name, *account[2:4], dir_fd=fd, follow_symlinks=False)
        elif status.st_nlink > 1:
            continue
        os.chown(entry.path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def _start_server(account: pwd.struct_passwd, home: Path, typed: Sequence[str]) -> int:
    keeper = os.getpid()
    environ = dict(_passed_on(os.environ))
    environ |= {"HOME": str(home), "STOKER_HOME": str(home), "STOKER_ONE_PERSON": "0"}
    environ |= {"USER": account.pw_name, "LOGNAME": account.pw_name}
    command = [sys.executable, "-m", "stoker", "up", *typed]
    pid = os.fork()
    if pid:
        return pid
    try:
        _become_server(account, keeper, command, environ)
    except BaseException as error:
        os.write(2, f"the server did not start: {error}\n".encode())
    finally:
        os._exit(_NOT_EXECUTED)


def _become_server(
    account: pwd.struct_passwd, keeper: int, command: list[str], environ: dict[str, str]
) -> NoReturn:
    os.setsid()  # Ctrl-C reaches root's process, which passes it on
    os.chdir("/")
    os.umask(0o077)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in range(_MOST_CAPABILITIES):  # those that the kernel does not know are refused
        prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _become(account)
    if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != keeper:
        raise OSError("who started it is gone")
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execve(command[0], command, environ)  # noqa: S606 - ourselves


def _become(account: pwd.struct_passwd) -> None:
    os.initgroups(account.pw_name, account.pw_gid)
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)


def _passed_on(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environ.items():
        if name in PASSED_ON or name.startswith("STOKER_"):
            yield name, value


def _watch(server: int, home: Path, start: Callable[..., None], *, is_standby: bool) -> int:
    """A standby's runner is that of the server before it, and is replaced when it takes over."""
    is_ending, again = False, time.monotonic() + AGAIN_S
    while True:
        heard = signal.sigtimedwait((*ASKED_TO_END, signal.SIGCHLD), LOOK_S)
        if heard is not None and heard.si_signo in ASKED_TO_END:
            is_ending = True
            os.kill(server, signal.SIGTERM)  # ours and not reaped: nobody else has that number
        code = _ended(server)
        if code is not None:
            return code
        takes_over = is_standby and server_pid(home) == server
        if takes_over or (not is_ending and time.monotonic() >= again and not has_runner(home)):
            again = time.monotonic() + AGAIN_S
            start(*(["--replace"] if takes_over else []))
            is_standby = is_standby and not takes_over


def _ended(server: int) -> int | None:
    """The server's exit code once it has one; runners that ended are only reaped."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == server:
                code = os.waitstatus_to_exitcode(found[1])
                return 128 - code if code < 0 else code
    return None
