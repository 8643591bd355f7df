"""/etc/pam.d/stoker: by which rules the system's passwords are checked for log-ins to Stoker.

Written once, by `stoker service install`, and the admin's own from then on. It refers to the rules
that the distribution has for all programs, so LDAP and the like come with them.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path("/etc/pam.d")
NAME = "stoker"
_HEAD = "# Who may log in to Stoker with the password of a unix account. Yours to change.\n"


def pam_text(folder: Path = FOLDER) -> str | None:
    """The file for this system; None where nobody knows how it is done there."""
    if (folder / "common-auth").exists():  # Debian and its kin
        return f"{_HEAD}@include common-auth\n@include common-account\n"
    for rules in ("password-auth", "system-auth"):  # Fedora and its kin, Arch
        if (folder / rules).exists():
            return f"{_HEAD}auth     include {rules}\naccount  include {rules}\n"
    return None


def write_pam_file(folder: Path = FOLDER) -> Path | None:
    """The file, if it had to be made."""
    path, text = folder / NAME, pam_text(folder)
    if text is None or path.exists():
        return None
    beside = folder / f".{NAME}.part"
    beside.write_text(text, "utf-8")
    beside.chmod(0o644)
    beside.replace(path)
    return path
