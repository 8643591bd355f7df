"""What a log-in gives an account here: variables, search path, umask. Nothing of the runner's own.

Read from the files that `login` and pam_env read, each time anew: an admin changes them while the
runner is at work. A file that is missing or makes no sense counts as empty.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable

from .account import Account

DEFINITIONS = "/etc/login.defs"
ENVIRONMENT = "/etc/environment"
LOCALES = ("/etc/locale.conf", "/etc/default/locale")
RUNTIME = "/run/user"
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*?)\s*")
_MOST_BYTES = 64 << 10


def variables(account: Account) -> Dict[str, str]:
    """What its commands begin with, before HOME and the like."""
    found: Dict[str, str] = {}
    for path in LOCALES:
        given = assignments(_lines(path))
        found.update({k: v for k, v in given.items() if k == "LANG" or k.startswith("LC_")})
    found.update(assignments(_lines(ENVIRONMENT)))
    path = definition("ENV_PATH", _lines(DEFINITIONS))
    found.setdefault("PATH", path[5:] if path.startswith("PATH=") else path or _PATH)
    runtime = f"{RUNTIME}/{account.uid}"
    if _belongs_to(runtime, account.uid):
        found["XDG_RUNTIME_DIR"] = runtime
    return found


def umask(otherwise: int) -> int:
    """What UMASK of login.defs says."""
    said = definition("UMASK", _lines(DEFINITIONS))
    try:
        return int(said, 8) & 0o777
    except ValueError:
        return otherwise


def assignments(lines: Iterable[str]) -> Dict[str, str]:
    """NAME=value, with or without quotes, as pam_env reads it: nothing is expanded."""
    found = {}
    for line in lines:
        match = _ASSIGNMENT.fullmatch(line)  # a comment is none
        if match:
            name, value = match.groups()
            if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            found[name] = value
    return found


def definition(name: str, lines: Iterable[str]) -> str:
    """The value of a name in login.defs; "" when there is none."""
    for line in lines:
        words = line.split(None, 1)
        if len(words) == 2 and words[0] == name:
            return words[1].strip().strip('"')
    return ""


def _lines(path: str) -> Iterable[str]:
    try:
        with open(path, "rb") as file:
            raw = file.read(_MOST_BYTES)
    except OSError:
        return ()
    return [
        line for line in raw.decode("utf-8", "surrogateescape").splitlines() if "\0" not in line
    ]


def _belongs_to(folder: str, uid: int) -> bool:
    try:
        return os.stat(folder).st_uid == uid
    except OSError:
        return False
