"""The call `check_environment`: does it exist, does it activate, does its Python run?

Runs programs of the account, as the account, within a time limit. Nothing of a task is known
here, so that variables given to one (`-e`) play no part.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List, Mapping

from . import activate, envs
from .account import Account
from .command import encoded
from .environ import basis

_VERSION = b"import sys; print(sys.version)"
_MOST_NAMES_BYTES = 32 << 10
_MOST_WORDS = 300


def check(
    args: Mapping[str, str],
    account: Account,
    base: Mapping[str, str],
    *,
    is_own: bool,
    is_login: bool = False,
) -> Dict[str, Any]:
    """`code` "" with prefix, kind and Python's version, or why not. Raises TimeoutError."""
    until = time.monotonic() + float(args.get("limit_s", "10"))
    places = base if is_own else {}
    begins = basis(account, base, is_own=is_own, is_login=is_login)
    try:
        found = envs.find(args.get("environment", ""), account.home, places)
        env = {encoded(name): encoded(value) for name, value in begins.items()}
        env = activate.activated(found, env, frozenset())
        env = activate.sourced(found, env, frozenset(), until)
        python = _python(found, env, until)
    except envs.Unusable as why:
        return {
            "code": why.code,
            "detail": why.detail[: 10 * _MOST_WORDS],
            "names": _some(why.names),
        }
    return {
        "code": "",
        "prefix": envs.text(found.prefix),
        "kind": found.kind,
        "python": python,
    }


def _some(names: List[str]) -> List[str]:
    """As many as an answer may hold."""
    kept: List[str] = []
    room = _MOST_NAMES_BYTES
    for name in names:
        room -= len(json.dumps(name)) + 1
        if room < 0:
            break
        kept.append(name)
    return kept


def _python(found: envs.Environment, env: activate.Variables, until: float) -> str:
    """The version of its interpreter; "" when it has none, as an environment for R."""
    program = os.path.join(found.prefix, b"bin", b"python")
    if not os.path.exists(program):
        return ""
    code, said = activate.collect([program, b"-c", _VERSION], env, (1, 2), until)
    lines = said.decode("utf-8", "replace").strip().splitlines() or [""]
    if code:
        how = f"signal {-code}" if code < 0 else f"code {code}"
        why = lines[-1][:_MOST_WORDS] or how
        raise envs.Unusable(envs.BROKEN, f"{envs.text(found.prefix)}: bin/python: {why}")
    return (lines[-1].split() or [""])[0]
