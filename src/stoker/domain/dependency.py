"""What a task waits for: the end of another one, whichever end, a good one or a bad one."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .key import TaskKey, parse_key
from .outcome import Outcome

When = Literal["ok", "any", "notok"]

_WHENS: dict[str, When] = {"ok": "ok", "any": "any", "notok": "notok"}


class Dependency(Struct, frozen=True):
    """One entry of the field `after`."""

    key: TaskKey
    when: When

    def text(self) -> str:
        return str(self.key) if self.when == "any" else f"{self.key}:{self.when}"


def parse_after(text: str) -> Dependency | None:
    """`12:ok`, `12:notok`, `17_3:any`, or `12` for any end; None when it is none of these."""
    task, colon, word = text.partition(":")
    key, when = parse_key(task), _WHENS.get(word) if colon else "any"
    return None if key is None or when is None else Dependency(key, when)


def comes_true(when: When, outcome: Outcome | Literal["deleted"] | None) -> bool | None:
    """Whether that end is what was waited for; None = it has not ended.

    A task that was deleted has ended, and nobody will ever know how.
    """
    if outcome is None:
        return None
    if when == "any":
        return True
    if outcome == "deleted":
        return False
    return (outcome == "succeeded") == (when == "ok")
