"""Why a task waits, in a few words that fit into a column. Pure.

The first reason that is about no node wins (a person, another task, a time); of several nodes the
one that comes nearest speaks for all. A code that this version has no short words for is said in
the server's own sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.cli.reasons import sentence
from stoker.cli.say import language, words
from stoker.text import knows_phrase
from stoker.wire import WaitReason

INSTANTS = ("at", "since")


def short(reasons: Sequence[WaitReason]) -> str:
    """One phrase; '' when nobody said why."""
    if not reasons:
        return ""
    main = next((reason for reason in reasons if "node" not in reason.values), None)
    main = main or max(reasons, key=_nearness)
    key = f"top.why.{main.code}"
    if not knows_phrase(key, language()):
        return sentence(main)
    return words(key, **{name: _shown(name, value) for name, value in main.values.items()})


def _nearness(reason: WaitReason) -> int:
    free = reason.values.get("free")
    return free if isinstance(free, int) else -1


def _shown(name: str, value: object) -> object:
    """Today's times without the date: there is little room."""
    if name not in INSTANTS or not isinstance(value, str):
        return value
    try:
        at = datetime.fromisoformat(value).astimezone()
    except ValueError:
        return value
    today = datetime.now().astimezone().date()
    return at.strftime("%H:%M" if at.date() == today else "%m-%d %H:%M")
