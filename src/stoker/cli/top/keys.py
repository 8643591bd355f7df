"""Bytes from a terminal as names of keys. Pure.

A sequence may arrive in pieces: what could still become one is kept until more comes, or until
`flush` says that nothing will.
"""

from __future__ import annotations

import re

_SEQUENCES = {
    "A": "up", "B": "down", "H": "home", "F": "end",
    "1~": "home", "4~": "end", "5~": "pageup", "6~": "pagedown", "7~": "home", "8~": "end",
}  # fmt: skip
_CONTROLS = {"\r": "enter", "\n": "enter", "\x02": "pageup", "\x06": "pagedown", " ": "pagedown"}
_SEQUENCE = re.compile(r"\x1b[\[O]([0-9;]*)([A-Za-z~])")
_UNFINISHED = re.compile(r"\x1b(?:[\[O][0-9;]*)?\Z")


class Keys:
    """Feed it what was read."""

    def __init__(self) -> None:
        self._held = ""

    @property
    def is_waiting(self) -> bool:
        return bool(self._held)

    def feed(self, data: bytes) -> list[str]:
        text = self._held + data.decode("utf-8", "replace")
        self._held = ""
        names = []
        at = 0
        while at < len(text):
            found = _SEQUENCE.match(text, at)
            if found is not None:
                names.append(_named(found))
                at = found.end()
            elif _UNFINISHED.match(text, at):
                self._held = text[at:]
                break
            else:
                character = text[at]
                names.append(
                    "escape" if character == "\x1b" else _CONTROLS.get(character, character)
                )
                at += 1
        return [name for name in names if name]

    def flush(self) -> list[str]:
        """Nothing more comes: what was kept was the Escape key."""
        held, self._held = self._held, ""
        return ["escape"] if held else []


def _named(found: re.Match[str]) -> str:
    """A modifier (`1;5A`) changes nothing."""
    if found[2] == "~":
        return _SEQUENCES.get(found[1].partition(";")[0] + "~", "")
    return _SEQUENCES.get(found[2], "")
