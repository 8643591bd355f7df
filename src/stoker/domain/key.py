"""How a task is named: `17`, or `17_3` for element 3 of array 17. Inside: (id, element)."""

from __future__ import annotations

import re
from typing import NamedTuple

from typing_extensions import override

PLAIN = -1
"""The element of a plain task, and of an array as a whole."""

_KEY = re.compile(r"([1-9][0-9]{0,17})(?:_(0|[1-9][0-9]{0,17}))?", re.ASCII)


class TaskKey(NamedTuple):
    id: int
    element: int = PLAIN

    @override
    def __str__(self) -> str:
        return str(self.id) if self.element == PLAIN else f"{self.id}_{self.element}"


def parse_key(text: str) -> TaskKey | None:
    """The key in `text`, or None when it is not one."""
    found = _KEY.fullmatch(text)
    if found is None:
        return None
    return TaskKey(int(found[1]), PLAIN if found[2] is None else int(found[2]))
