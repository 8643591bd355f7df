"""Why a part did not start or did not succeed: a stable code and the word it is about.

Pure: an error number or the tail of the output in, (code, detail) out; `text/` writes the
sentence. ("", "") = there is nothing better to say than the exit code. Only the output of a
failed part is looked at, and never that of one that was killed from outside.
"""

from __future__ import annotations

import errno
import re
import signal as signals
from typing import Optional, Tuple

from . import transcript
from .account import NOT_ALLOWED
from .protocol import Launch

REASONS = (
    "command_not_found",  # no such program; detail: the word
    "use_shell",  # shell words where exact arguments were meant; detail: the word
    "not_executable",  # no execute bit, or a folder; detail: the file
    "no_interpreter_line",  # a script without #!; detail: the file
    "interpreter_missing",  # its #! line names a missing program; detail: that, or the script
    "windows_line_ends",  # CR LF line ends; detail: the word in front of the CR, or ""
    "argument_list_too_long",  # E2BIG; detail: ""
    "folder_missing",  # no such working folder; detail: the folder
    "folder_denied",  # working folder not accessible; detail: the folder and the system's words
    "stdout_not_writable",  # detail: the path and the system's words
    "stderr_not_writable",  # likewise
    "account_unknown",  # no such unix account on the node; detail: its name
    "account_not_allowed",  # one that the node does not run commands as; detail: its name and why
    "environment_missing",  # no such conda or virtual environment; detail: its name or folder
    "environment_ambiguous",  # several have that name; detail: their folders
    "not_an_environment",  # a folder that is neither; detail: the folder
    "environment_broken",  # it cannot be activated; detail: the folder, and why
    "start_failed",  # anything else before exec; detail: the system's words
    "file_missing",  # Python was given a file that is not there; detail: its path
    "module_missing",  # Python finds no such module; detail: its name
    "memory_limit",  # killed at its own memory limit; detail: the limit in MiB
    "host_memory",  # the node had no memory left for it; detail: the amount asked for, or ""
    "gpu_memory",  # no GPU memory left; detail: the amount asked for, or ""
    "disk_full",  # detail: the path, or ""
    "disk_quota",  # detail: the path, or ""
    "permission_denied",  # detail: the path, or ""
    "killed_by_signal",  # detail: the signal's name
)

Reason = Tuple[str, str]

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_DENIED = (errno.EPERM, errno.EACCES)
_EXEC = {
    errno.EACCES: "not_executable",
    errno.ENOEXEC: "no_interpreter_line",
    errno.EPERM: "permission_denied",
}
_SHELL_SIGNS = re.compile(
    r"[\s;|&<>$`*]|^\w+=|^~"
    r"|^(?:\.|\[\[|alias|case|cd|eval|export|for|function|if|module|set|source|ulimit|while)$"
)
# What a shell reports as 128 + n. Other codes above 128 are a program's own.
_FATAL = frozenset(
    (
        "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE",
        "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGXCPU",
        "SIGXFSZ", "SIGSYS",
    )
)  # fmt: skip
_SELF_INFLICTED = ("SIGABRT", "SIGBUS")
"""Ends of a program that gave up by itself: it may have said why."""


def explain_start(
    step: str, error: OSError, launch: Launch, head: Optional[bytes] = None
) -> Reason:
    """Why a part never came to exec. `step`: cgroup, account, workdir, stdout, stderr,
    environment, exec.

    `head` is what `program.head` read of the program that exec refused; None = it is not there
    or not readable. Without it a missing interpreter looks like a missing command.
    """
    if step == "account":
        return _explain_account(error, launch.account)
    if step == "workdir":
        return _explain_folder(error, launch.workdir)
    if step in ("stdout", "stderr"):
        path = launch.stdout if step == "stdout" else launch.stderr
        return _explain_output(f"{step}_not_writable", error, path)
    if step == "environment" and error.strerror in REASONS:  # found by envs.py
        return str(error.strerror), str(error.filename or "")
    if step == "exec":
        return _explain_exec(error, launch, head)
    return "start_failed", f"{step}: {_words(error)}"


def explain_exit(
    code: Optional[int], signal: Optional[int], tail: bytes, oom_kills: int, launch: Launch
) -> Reason:
    """Why a part that ran did not succeed; ("", "") for one that did."""
    if code == 0 and signal is None:
        return "", ""
    if oom_kills > 0:
        return (
            ("memory_limit", str(launch.memory_mib)) if launch.memory_mib else ("host_memory", "")
        )
    name = _signal_name(signal if signal is not None else (code or 0) - 128)
    if signal is not None or name in _FATAL:
        found = transcript.exhaustion(tail) if name in _SELF_INFLICTED else None
        return found or ("killed_by_signal", name)
    if code in (126, 127):
        # A shell's output may have gone to a file of the owner's; its code still tells.
        silent = "command_not_found" if code == 127 else "not_executable"
        return transcript.shell_cause(code, tail) or (silent if launch.shell else "", "")
    return transcript.cause(tail) or ("", "")


def _explain_account(error: OSError, account: str) -> Reason:
    if error.strerror == NOT_ALLOWED:
        return NOT_ALLOWED, str(error.filename)
    if error.errno in _DENIED:
        return "permission_denied", account
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return "start_failed", f"{account}: {_words(error)}"
    return "account_unknown", account


def _explain_folder(error: OSError, folder: str) -> Reason:
    if error.errno in _ABSENT:
        return "folder_missing", folder
    return "folder_denied", f"{folder}: {_words(error)}"


def _explain_output(otherwise: str, error: OSError, path: str) -> Reason:
    path = path[1:] if path.startswith("+") else path
    if error.errno == errno.ENOSPC:
        return "disk_full", path
    if error.errno == errno.EDQUOT:
        return "disk_quota", path
    return otherwise, f"{path}: {_words(error)}"


def _explain_exec(error: OSError, launch: Launch, head: Optional[bytes]) -> Reason:
    word = launch.argv[0] if launch.argv else str(error.filename or "")
    if error.errno in _ABSENT:
        if head is not None and head.startswith(b"#!"):
            return _explain_interpreter(head)
        is_line = bool(launch.argv) and _SHELL_SIGNS.search(word)
        return ("use_shell" if is_line else "command_not_found"), word
    if error.errno == errno.E2BIG:
        return "argument_list_too_long", ""
    if error.errno == errno.ENOMEM:
        return "host_memory", ""
    is_binary = head is not None and head.startswith(b"\x7fELF")
    if error.errno in _EXEC and not (is_binary and error.errno == errno.ENOEXEC):
        return _EXEC[error.errno], word
    return "start_failed", f"{word}: {_words(error)}"


def _explain_interpreter(head: bytes) -> Reason:
    line = head[2:].split(b"\n", 1)[0].decode("utf-8", "replace")
    interpreter = (line.split() or [""])[0]
    return ("windows_line_ends" if line.endswith("\r") else "interpreter_missing"), interpreter


def _words(error: OSError) -> str:
    return error.strerror or str(error)


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"SIG{number}"
