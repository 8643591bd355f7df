"""What activating an environment does to the variables of a command.

As `conda activate` and a virtual environment's own `activate` do it, without a `.bashrc` and
without running conda. A conda environment may have scripts (`etc/conda/activate.d/*.sh`): they
are sourced by a shell that is given nothing but their paths and hands back its variables. The
command's own arguments never pass through that shell.

What the person said (`-e`) and what identifies the attempt stays as it is (`kept`), but for PATH:
there the environment's programs come first.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from typing import AbstractSet, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .command import encoded
from .envs import BROKEN, CONDA, Environment, Unusable, text

_SHELLS = (b"/bin/bash", b"/usr/bin/bash", b"/bin/sh")
_SOURCE = b"""stoker_source() { . "$1"; }
for stoker_script in "$@"; do stoker_source "$stoker_script"; set +eu; done
exec /usr/bin/env -0 >&3
"""
_VARIABLES_FD = 3
_SHELLS_OWN = (b"_", b"PWD", b"OLDPWD", b"SHLVL")
"""What a shell sets for itself, and no script means to say."""
_STARTUP = (b"BASH_ENV", b"ENV")
"""Files that a shell would read by itself."""
_UNSET = b"***unset***"
"""conda's word for a variable that is taken away."""
_POLL_S = 0.05
_MOST_BYTES = 4 << 20
_NOT_EXECUTED = 127

Variables = Dict[bytes, bytes]


def activated(
    found: Environment, env: Mapping[bytes, bytes], kept: AbstractSet[bytes]
) -> Variables:
    """`env` with the environment active in it, its scripts apart."""
    bin = os.path.join(found.prefix, b"bin")
    result = dict(env)
    result[b"PATH"] = b":".join(filter(None, (bin, env.get(b"PATH", b""))))
    changes: Dict[bytes, Optional[bytes]]
    if found.kind == CONDA:
        changes = {
            b"CONDA_PREFIX": found.prefix,
            b"CONDA_DEFAULT_ENV": found.name,
            b"CONDA_SHLVL": b"1",
            b"CONDA_PROMPT_MODIFIER": b"(" + found.name + b") ",
            **_conda_variables(found.prefix),
        }
    else:
        changes = {b"VIRTUAL_ENV": found.prefix, b"PYTHONHOME": None}
    for name, value in changes.items():
        if name in kept or name == b"PATH":
            continue
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def scripts(found: Environment) -> List[bytes]:
    """What has to be sourced, in conda's order."""
    folder = os.path.join(found.prefix, b"etc", b"conda", b"activate.d")
    if found.kind != CONDA or not os.path.isdir(folder):
        return []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(b".sh"))
    except OSError as error:
        raise Unusable(BROKEN, f"{text(folder)}: {error.strerror}") from error
    return [os.path.join(folder, name) for name in names]


def sourced(
    found: Environment, env: Variables, kept: AbstractSet[bytes], until: Optional[float] = None
) -> Variables:
    """`env` after the environment's scripts. What they print goes where our output goes.

    Raises Unusable when they end the shell, TimeoutError when they have not ended at `until`.
    """
    paths = scripts(found)
    if not paths:
        return env
    shell = next((path for path in _SHELLS if os.path.exists(path)), _SHELLS[-1])
    argv = [shell, b"-c", _SOURCE, b"stoker", *paths]
    given = {name: value for name, value in env.items() if name not in _STARTUP}
    code, said = collect(argv, given, (_VARIABLES_FD,), until)
    pairs = (entry.partition(b"=") for entry in said.split(b"\0"))
    after = {name: value for name, equals, value in pairs if name and equals}
    if code or b"PATH" not in after:
        raise Unusable(BROKEN, f"{text(found.prefix)}: its activate.d scripts fail (code {code})")
    mine = (kept | {*_SHELLS_OWN, *_STARTUP}) - {b"PATH"}
    result = {name: value for name, value in after.items() if name not in mine}
    result.update((name, value) for name, value in env.items() if name in mine)
    return result


def collect(
    argv: Sequence[bytes],
    env: Mapping[bytes, bytes],
    fds: Sequence[int],
    until: Optional[float] = None,
) -> Tuple[int, bytes]:
    """Run a program to its end: its exit code (-n: killed by signal n), and what it wrote to `fds`.

    Waits for the program, not for what it may have left behind. For a process with one thread.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            for fd in fds:
                os.dup2(writer, fd)
                os.set_inheritable(fd, True)  # dup2 to itself changes nothing
            os.execve(argv[0], list(argv), dict(env))
        os._exit(_NOT_EXECUTED)
    os.close(writer)
    try:
        return _read_to_end(pid, reader, until)
    finally:
        os.close(reader)


def _read_to_end(pid: int, reader: int, until: Optional[float]) -> Tuple[int, bytes]:
    said = bytearray()
    status: Optional[int] = None
    while True:
        # Once it has ended everything it wrote is there, though others may hold the pipe open.
        wait_s = 0.0 if status is not None else _POLL_S
        if select.select([reader], [], [], wait_s)[0]:
            data = os.read(reader, 1 << 16)
            said += data[: _MOST_BYTES - len(said)]
            if data:
                continue
            if status is None:
                status = _wait(pid, until)
        if status is not None:
            return status, bytes(said)
        ended, code = os.waitpid(pid, os.WNOHANG)
        if ended:
            status = _code(code)
        elif until is not None and time.monotonic() > until:
            _end(pid)


def _wait(pid: int, until: Optional[float]) -> int:
    """It has closed its end of the pipe, and will end soon."""
    while True:
        ended, code = os.waitpid(pid, os.WNOHANG if until is not None else 0)
        if ended:
            return _code(code)
        if until is not None and time.monotonic() > until:
            _end(pid)
        time.sleep(0.002)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)  # not reaped: it is ours
    os.waitpid(pid, 0)
    raise TimeoutError


def _code(status: int) -> int:
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _conda_variables(prefix: bytes) -> Dict[bytes, Optional[bytes]]:
    """Variables that packages and the person (`conda env config vars set`) gave it."""
    found: Dict[bytes, Optional[bytes]] = {}
    folder = os.path.join(prefix, b"etc", b"conda", b"env_vars.d")
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            found.update(_variables(_json(os.path.join(folder, name))))
    state = _json(os.path.join(prefix, b"conda-meta", b"state"))
    found.update(_variables(state.get("env_vars") if isinstance(state, dict) else None))
    return found


def _variables(body: Any) -> Dict[bytes, Optional[bytes]]:
    found: Dict[bytes, Optional[bytes]] = {}
    for name, value in body.items() if isinstance(body, dict) else ():
        with contextlib.suppress(OSError):  # a NUL
            key, word = encoded(str(name)), encoded(str(value))
            if key and b"=" not in key:
                found[key] = None if word == _UNSET else word
    return found


def _json(path: bytes) -> Any:
    """What a small file holds; {} when it cannot be read or is not JSON, as conda does it."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read(1 << 20))
    except (OSError, ValueError):
        return {}
