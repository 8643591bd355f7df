"""The systemd unit of the server, as text. Pure.

What stands in it and what must not is a matter of the tasks: the runner is a child of the server,
and they are its children, so whatever is set for the service holds for them as well.
"""

from __future__ import annotations

import re
from typing import NamedTuple

NAME = "stoker.service"
IO_CLASSES = ("best-effort", "idle")
_UNUSABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


class Unit(NamedTuple):
    """What differs between one service and another."""

    python: str
    home: str
    is_system: bool
    """Of the whole machine; else of one account."""
    nice: int = 0
    io_class: str = ""

    @property
    def flaw(self) -> str:
        """The path that no unit can hold; "" = there is none."""
        if "$" in self.python:  # systemd would put a variable in its place
            return self.python
        return next((path for path in (self.python, self.home) if _UNUSABLE.search(path)), "")


def unit_text(unit: Unit) -> str:
    """The whole file."""
    return _TEMPLATE.format(
        manager="systemctl" if unit.is_system else "systemctl --user",
        network=_NETWORK if unit.is_system else "",
        home=_quoted(f"STOKER_HOME={unit.home}"),
        python=_quoted(unit.python),
        priority=_priority(unit),
        target="multi-user.target" if unit.is_system else "default.target",
    )


def cron_line(python: str, home: str) -> str:
    """The same for machines without systemd: a line for `crontab -e`."""
    import shlex

    line = f"STOKER_HOME={shlex.quote(home)} {shlex.quote(python)} -m stoker up --detach"
    return "@reboot " + line.replace("%", r"\%")  # to cron a bare one is a line end


def _quoted(text: str) -> str:
    """One word for systemd, which knows escapes as in C, and %-specifiers."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _priority(unit: Unit) -> str:
    lines = []
    if unit.nice:
        lines += [f"Nice={unit.nice}", "LimitNICE=+0"]
    if unit.io_class:
        lines.append(f"IOSchedulingClass={unit.io_class}")
    return "\n".join([_PRIORITY, *lines, ""]) if lines else _NO_PRIORITY


_NETWORK = """\
Wants=network-online.target
After=network-online.target
"""

_PRIORITY = """\
# Of the server. The runner takes it back for itself and the tasks: always for disks, and for the processor where it is root
# or LimitNICE is granted. Where it is not, tasks are as nice as the server.
"""

_NO_PRIORITY = """\
# No Nice= and no IOSchedulingClass= unless asked for (--nice, --io-class): tasks would inherit them where the runner may not
# take them back.
"""

_TEMPLATE = """\
# Stoker's server. Written by `stoker service install`, which replaces it; your own changes go into
# `{manager} edit stoker`.

[Unit]
Description=Stoker, GPU tasks
{network}# It never gives up: the pauses below grow instead.
StartLimitIntervalSec=0

[Service]
Type=exec
Environment={home}
ExecStart={python} -m stoker up

# Stopping and restarting ends the server only. The runner, the supervisors and the tasks go on, and the next server
# knows them again; with another mode a restart would kill everybody's training.
KillMode=process
TimeoutStopSec=30

# A server that was ended on purpose exits 0 and stays down.
Restart=on-failure
RestartSec=5
# From systemd 254 on; older ones say that they ignore these two.
RestartSteps=6
RestartMaxDelaySec=120

# One task that is killed for want of memory must not stop the service; tasks may have as many processes as they like; the
# runner makes control groups below its own.
OOMPolicy=continue
TasksMax=infinity
Delegate=yes
# The second number is the system's own: tasks may raise their limit as everywhere else.
LimitNOFILE=65536:524288
# For the server's files. Tasks begin with 022 whatever stands here.
UMask=0077

{priority}
# Not here, because tasks inherit it and would break:
#   PrivateTmp=, ProtectHome=, ProtectSystem=, ReadOnlyPaths=   they read and write the users' files
#   PrivateDevices=, DevicePolicy=, DeviceAllow=, ProtectClock=  they need /dev/nvidia*
#   NoNewPrivileges=, RestrictSUIDSGID=, and what implies them   sudo, ping, containers, changing to the owner of a task
#   SystemCallFilter=, LockPersonality=, RestrictRealtime=       these imply NoNewPrivileges for a plain account
#   RestrictNamespaces=, PrivateUsers=, ProtectControlGroups=    containers, and the runner's own control groups
#   MemoryDenyWriteExecute=                                      every just-in-time compiler: PyTorch, JAX, Numba
#   ProtectKernelModules=, ProtectKernelTunables=                the driver's own helper loads its module on first use

[Install]
WantedBy={target}
"""
