"""The environment of a command. Pure: built from the launch, the account and the runner's own.

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
    launch: Launch, account: Account, base: Mapping[str, str], *, is_own: bool
) -> Dict[str, str]:
    """Everything the command sees."""
    inherited = _FROM_SYSTEM + (_FROM_OWNER if is_own else ())
    env = {
        name: value for name, value in base.items() if name in inherited or name.startswith("LC_")
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
    env.update(launch.env)
    cards = ",".join(str(gpu.index) for gpu in launch.gpus)
    env.update(
        {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": cards,
            "NVIDIA_VISIBLE_DEVICES": cards,
            "STOKER_TASK_ID": launch.task,
            MARKER: part_key(launch.attempt, launch.rank),
            "STOKER_NODE": launch.node,
            "STOKER_GPU_IDS": cards,
        }
    )
    return env


def _is_utf8(env: Mapping[str, str]) -> bool:
    names = (env.get("LC_ALL", ""), env.get("LANG", ""))
    return any(name.lower().replace("-", "").endswith("utf8") for name in names)
