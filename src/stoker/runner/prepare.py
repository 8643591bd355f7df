"""What can be done for a part before its supervisor exists, in the forker.

Parsing, encoding and formatting happen here because a fresh process pays for every page that it
touches. Nothing here does I/O or looks up another account: the forker must never hang.
"""

from __future__ import annotations

import errno
import json
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional

from . import command, logfile, protocol
from .account import Account
from .environ import environment
from .protocol import Launch, part_key

FORMAT = 1
"""Of records; stands in every claim."""


@dataclass(frozen=True)
class Command:
    """What is executed."""

    argv: List[bytes]
    script: Optional[bytes]
    """A text that goes to a file whose path is the last argument."""
    env: Dict[bytes, bytes]


@dataclass(frozen=True)
class Prepared:
    """A launch, ready to be supervised."""

    launch: Launch
    key: str
    claim: bytes
    """The claim line's JSON up to the supervisor's own fields."""
    header: bytes
    """The first line of our own log."""
    command: Optional[Command]
    """None when it runs as another account, which only its own process looks up."""
    failure: Optional[OSError]
    """Why there can be no command."""


def prepare(
    raw: bytes, mine: Account, boot_id: str, base: Mapping[str, str], *, serves_many: bool = False
) -> Prepared:
    """Raises ValueError for a line that is not a launch."""
    launch = protocol.read(raw)
    if not isinstance(launch, Launch):
        raise ValueError(f"not a launch: {type(launch).__name__}")
    made: Optional[Command] = None
    failure: Optional[OSError] = None
    if not serves_many and launch.account in ("", mine.name):
        try:
            made = make_command(launch, mine, base, is_own=True)
        except OSError as error:
            failure = error
    return Prepared(
        launch=launch,
        key=part_key(launch.attempt, launch.rank),
        claim=json.dumps(_claim(launch, mine, boot_id)).encode("ascii")[:-1],
        header=logfile.header(launch, time.time()),
        command=made,
        failure=failure,
    )


def make_command(
    launch: Launch,
    account: Account,
    base: Mapping[str, str],
    *,
    is_own: bool,
    is_login: bool = False,
) -> Command:
    """Arguments and environment as exact bytes. Raises OSError for what cannot be executed."""
    argv, script = command.arguments(launch, account)
    env = environment(launch, account, base, is_own=is_own, is_login=is_login)
    for name in env:
        if not name or "=" in name:
            raise OSError(errno.EINVAL, f"not a name of a variable: {name!r}")
    return Command(argv, script, {command.encoded(k): command.encoded(v) for k, v in env.items()})


def _claim(launch: Launch, mine: Account, boot_id: str) -> Dict[str, Any]:
    fields: Dict[str, Any] = {
        "line": "claim",
        "format": FORMAT,
        "boot": boot_id,
        "uid": mine.uid,
        "epoch": launch.epoch,
        "number": launch.number,
        "task": launch.task,
        "gpus": [gpu.uuid for gpu in launch.gpus],
        "whose": launch.whose,
        "limit": launch.time_limit_s,
    }
    if launch.account:
        fields["account"] = launch.account
    if launch.stdout or launch.stderr != "merge":
        fields.update(workdir=launch.workdir, stdout=launch.stdout, stderr=launch.stderr)
    return fields
