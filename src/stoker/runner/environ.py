"""The environment of a command. Pure: built from the launch, the account and the runner's own, or
from what a log-in gives the account (`logindefs`) and then nothing of the runner's.

What identifies the attempt and names its GPUs is set last and cannot be overridden. Strings may
carry arbitrary bytes (surrogateescape), as arguments do.
"""

from __future__ import annotations

from typing import Dict, Mapping

from .account import Account
from .protocol import MARKER, Launch, part_key

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FROM_SYSTEM = ("TZ", "LANG")
_FROM_OWNER = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "XDG_RUNTIME_DIR")
"""Only when the command runs as the account that started the runner."""


def environment(
    launch: Launch,
    account: Account,
    base: Mapping[str, str],
    *,
    is_own: bool,
    is_login: bool = False,
) -> Dict[str, str]:
    """Everything the command sees, before an environment of its own is activated."""
    begins = basis(account, base, is_own=is_own, is_login=is_login)
    return {**begins, **launch.env, **identity(launch)}


def basis(
    account: Account, base: Mapping[str, str], *, is_own: bool, is_login: bool = False
) -> Dict[str, str]:
    """What every command of an account begins with. `is_login`: all of `base` is the account's."""
    inherited = _FROM_SYSTEM + (_FROM_OWNER if is_own else ())
    env = {
        name: value
        for name, value in base.items()
        if is_login or name in inherited or name.startswith("LC_")
    }
    env.setdefault("PATH", _SYSTEM_PATH)
    if not _is_utf8(env):
        env["LANG"] = "C.UTF-8"
        env.pop("LC_ALL", None)  # it would win over LANG
    env.update(
        HOME=account.home,
        USER=account.name,
        LOGNAME=account.name,
        SHELL=account.shell,
        PYTHONUNBUFFERED="1",
    )
    return env


def identity(launch: Launch) -> Dict[str, str]:
    """What says which attempt it is and which cards it holds: nothing overrides it."""
    cards = ",".join(str(gpu.index) for gpu in launch.gpus)
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": cards,
        "NVIDIA_VISIBLE_DEVICES": cards,
        "STOKER_TASK_ID": launch.task,
        MARKER: part_key(launch.attempt, launch.rank),
        "STOKER_NODE": launch.node,
        "STOKER_GPU_IDS": cards,
    }


def _is_utf8(env: Mapping[str, str]) -> bool:
    names = (env.get("LC_ALL", ""), env.get("LANG", ""))
    return any(name.lower().replace("-", "").endswith("utf8") for name in names)
