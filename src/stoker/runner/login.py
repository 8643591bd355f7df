"""The call `login`: is this the password of that unix account, and may it be used? Asks PAM.

Done as root, the only call that is: a plain process can check its own account's password only. Who
may not run tasks here may not log in either, and is refused before any password is looked at, so
that nobody can try root's. A name that is unknown takes as long as a wrong password. The password
is in no argument, note or dump.
"""

from __future__ import annotations

import resource
import time
from typing import Any, Dict, List, Mapping, Optional

from . import libc, pam
from .account import Account, Admission, wanted

OK, WRONG, LOCKED, EXPIRED = "", "wrong_password", "account_locked", "account_expired"
NO_ACCOUNT, NOT_ALLOWED, UNAVAILABLE = "no_account", "not_allowed", "pam_unavailable"
SHADOW = "/etc/shadow"

_SHOWN = {
    pam.SUCCESS: OK,
    pam.AUTH_ERR: WRONG,
    pam.MAXTRIES: WRONG,
    pam.PERM_DENIED: LOCKED,
    pam.USER_UNKNOWN: NO_ACCOUNT,
    pam.ACCT_EXPIRED: EXPIRED,
}
_EXPIRED = (pam.ACCT_EXPIRED, pam.NEW_AUTHTOK_REQD, pam.AUTHTOK_EXPIRED)
_DAY_S = 86400


def check(args: Mapping[str, str], mine: Account, admission: Optional[Admission]) -> Dict[str, Any]:
    """`ok`, or a `code` that says why not."""
    if admission is None:  # one account is served, and nobody logs in
        return {"code": UNAVAILABLE}
    libc.forbid_dumps()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    name = args.get("account", "")
    password = args.get("password", "").encode("utf-8", "surrogateescape")
    if b"\0" in password or "\0" in name:
        return {"code": WRONG}
    is_known = True
    try:
        name = wanted(name, mine, admission).name
    except FileNotFoundError:
        is_known = False
    except OSError:
        return {"code": NOT_ALLOWED}
    try:
        shown, usable = pam.check(name, password)
    except OSError:
        return {"code": UNAVAILABLE}
    if not is_known:
        return {"code": NO_ACCOUNT}
    code = _SHOWN.get(shown, UNAVAILABLE)
    if code == WRONG and _is_locked(_shadow(name)):
        code = LOCKED
    elif usable:
        # Debian's rules answer for every refusal alike.
        code = EXPIRED if usable in _EXPIRED or _is_expired(_shadow(name)) else LOCKED
    return {"code": code} if code else {"ok": True}


def _shadow(name: str) -> List[bytes]:
    """The account's fields there; none for one that is kept elsewhere."""
    try:
        with open(SHADOW, "rb") as file:
            for line in file:
                fields = line.rstrip(b"\n").split(b":")
                if fields[0] == name.encode("utf-8", "surrogateescape"):
                    return fields
    except OSError:
        pass
    return []


def _is_locked(fields: List[bytes]) -> bool:
    """PAM calls a locked password a wrong one; `passwd -l` has put a `!` before it."""
    return len(fields) > 1 and fields[1][:1] in (b"!", b"*")


def _is_expired(fields: List[bytes]) -> bool:
    last = fields[7] if len(fields) > 7 else b""
    return last.isdigit() and time.time() >= int(last) * _DAY_S
