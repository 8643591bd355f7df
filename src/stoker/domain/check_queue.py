"""What a queue or a team may be called and say, beyond what types express. Pure.

Whether people, teams and nodes exist is another question: whoever keeps them answers it.
"""

from __future__ import annotations

import re
import unicodedata

from .errors import InvalidSpec
from .queue import QueueTerms

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
ENGINES = ("", "fleet")
"""What there is so far."""


def check_name(name: str, field: str = "name") -> None:
    """Of a queue, a team or a label."""
    if not NAME.fullmatch(name):
        raise InvalidSpec("bad_name", field=field, value=name[:80])


def check_queue(name: str, terms: QueueTerms) -> None:
    """Refuse what cannot be a queue."""
    check_name(name)
    check_about(terms.about)
    if terms.engine not in ENGINES:
        raise InvalidSpec("not_yet", field="engine")
    for label in terms.labels:
        check_name(label, "labels")
    default, longest = terms.default_limit_s, terms.longest_s
    if default is not None and longest is not None and default > longest:
        raise InvalidSpec(
            "limits_contradict", field="default_limit_s", default=default, longest=longest
        )


def check_about(about: str) -> None:
    """One line of text that a terminal can show."""
    if any(unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") for one in about):
        raise InvalidSpec("control_characters", field="about")
