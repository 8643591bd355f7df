"""Why something waits, as a person reads it: in the terminal's zone, and a thousand nodes in a line.

The server's sentences are in UTC and one per node. Those with a time in them are made again here
from code and values, unless this version does not know the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stoker.text import knows, many, message
from stoker.wire import SuggestionView, WaitReason

from .say import language, words
from .screen import clean
from .shown import clock

MOST_APART = 3
"""So many nodes are told one by one; more of them share a sentence."""
INSTANTS = ("at", "since")


def told(reasons: Sequence[WaitReason]) -> list[str]:
    """Every reason as a sentence, those first that are about no node."""
    lines = [sentence(reason) for reason in reasons if "node" not in reason.values]
    for same in _by_code([reason for reason in reasons if "node" in reason.values]):
        lines.extend(_same(same))
    return list(dict.fromkeys(lines))


def sentence(reason: WaitReason | SuggestionView) -> str:
    """One reason, as the server says it, with times as the clock on the wall shows them."""
    local = {name: _local(reason.values.get(name)) for name in INSTANTS}
    times = {name: shown for name, shown in local.items() if shown is not None}
    if not times or not knows(reason.code, language()):
        return clean(reason.message)
    return clean(message(reason.code, reason.values | times, language()))


def _by_code(reasons: Sequence[WaitReason]) -> list[list[WaitReason]]:
    groups: dict[str, list[WaitReason]] = {}
    for reason in reasons:
        groups.setdefault(reason.code, []).append(reason)
    return list(groups.values())


def _same(reasons: list[WaitReason]) -> list[str]:
    """The same reason on some nodes."""
    if len(reasons) > MOST_APART:
        best = max(reasons, key=_free)
        names = [str(reason.values["node"]) for reason in reasons[:MOST_APART]]
        names.append(words("list_more", count=len(reasons) - len(names)))
        more = {"count": len(reasons), "nodes": ", ".join(names)}
        line = many(reasons[0].code, best.values | more, language())
        if line is not None:
            return [clean(line)]
    lines = [sentence(reason) for reason in reasons[:MOST_APART]]
    left = len(reasons) - len(lines)
    return [*lines, words("list_more", count=left)] if left else lines


def _free(reason: WaitReason) -> int:
    free = reason.values.get("free")
    return free if isinstance(free, int) else 0


def _local(value: object) -> str | None:
    try:
        return clock(datetime.fromisoformat(value)) if isinstance(value, str) else None
    except ValueError:
        return None
