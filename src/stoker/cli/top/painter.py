"""Lines on a terminal with as few bytes as it takes: only what differs from the last frame is sent.

Pure: frames in, text out. A frame is a list of lines, a line a list of spans (text and tint), cut
by columns; a wide character is never split. Works on anything that knows cursor addressing and
erase-to-end-of-line.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from stoker.cli.screen import COLOURS, width

Span = tuple[str, str]
"""Text, and its tint: a name of COLOURS or ''."""
Line = Sequence[Span]
Cell = tuple[str, str]
"""A character with its marks and tint; ('', '') is the second half of a wide one."""

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J"
"""The other screen, no cursor, no wrapping at the edge."""
LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
MOST_SCROLLED, LEAST_KEPT = 20, 3
"""Lines that are moved at once, and lines that must stay so that it is worth it."""
_HALF: Cell = ("", "")
_BLANK: Cell = (" ", "")
_SELECTORS = "\ufe0e\ufe0f"


class Painter:
    """Knows what the terminal shows."""

    def __init__(self, coloured: bool) -> None:
        self._coloured = coloured
        self._shown: list[list[Cell]] = []
        self._size = (0, 0)

    def forget(self) -> None:
        """Something else has drawn there: everything is sent next time."""
        self._size = (0, 0)

    def paint(self, lines: Sequence[Line], columns: int, rows: int) -> str:
        """What to send so that the terminal shows these lines; '' when it does."""
        wanted = [cells(line, columns) for line in lines[:rows]]
        wanted += [[] for _ in range(rows - len(wanted))]
        parts = []
        if self._size != (columns, rows):
            parts.append("\x1b[0m\x1b[H\x1b[2J")
            self._shown, self._size = [[] for _ in range(rows)], (columns, rows)
        parts.append(self._scroll(wanted))
        for row, (old, new) in enumerate(zip(self._shown, wanted, strict=True)):
            if old != new:
                parts.append(self._change(row, old, new))
        self._shown = wanted
        return "".join(parts)

    def _scroll(self, wanted: list[list[Cell]]) -> str:
        """If what is between the first and the last line has only moved up, the terminal moves it."""
        old, new = self._shown[1:-1], wanted[1:-1]
        if old == new or not any(old):
            return ""
        for step in range(1, min(MOST_SCROLLED, len(old) - LEAST_KEPT) + 1):
            if old[step:] == new[:-step]:
                self._shown[1:-1] = [*old[step:], *([] for _ in range(step))]
                bottom = len(old) + 1
                return f"\x1b[2;{bottom}r\x1b[{bottom}H" + "\n" * step + "\x1b[r"
        return ""

    def _change(self, row: int, old: list[Cell], new: list[Cell]) -> str:
        """One line, from its first difference to its last."""
        begin = _common(old, new)
        while begin > 0 and begin < len(new) and new[begin] == _HALF:
            begin -= 1
        while begin > 0 and begin < len(old) and old[begin] == _HALF:
            begin -= 1
        shorter = len(new) < len(old)
        end = len(new)
        if len(old) == len(new):
            while end > begin and old[end - 1] == new[end - 1]:
                end -= 1
            while end < len(new) and _HALF in (old[end], new[end]):
                end += 1
        text = dressed(new[begin:end], self._coloured)
        return f"\x1b[{row + 1};{begin + 1}H{text}" + ("\x1b[K" if shorter else "")


def dressed(some: Sequence[Cell], coloured: bool) -> str:
    """Cells as text, with the sequences that colour it."""
    if not coloured:
        return "".join(text for text, _ in some)
    parts, tint = [], ""
    for text, wanted in some:
        if text not in ("", " ") and wanted != tint:  # a blank looks the same in every tint
            parts.append(f"\x1b[0;{COLOURS[wanted]}m" if wanted else "\x1b[0m")
            tint = wanted
        parts.append(text)
    return "".join(parts) + ("\x1b[0m" if tint else "")


def cells(line: Line, columns: int) -> list[Cell]:
    """A line as the terminal's columns, cut where it ends, without blanks at its end."""
    made: list[Cell] = []
    for text, tint in line:
        for character in text:
            size = width(character)
            if size == 0:
                _mark(made, character)
                continue
            if len(made) + size > columns:
                return _without_blanks(made)
            made.append((character, "" if character == " " else tint))
            if size == 2:
                made.append(_HALF)
    return _without_blanks(made)


def _mark(made: list[Cell], character: str) -> None:
    """Accents go with the character before. Joiners and selectors of emoji are left out: they
    make one picture of several, whose width every terminal sees differently."""
    if not made or unicodedata.category(character) == "Cf" or character in _SELECTORS:
        return
    at = -2 if made[-1] == _HALF else -1
    made[at] = (made[at][0] + character, made[at][1])


def _without_blanks(made: list[Cell]) -> list[Cell]:
    while made and made[-1] == _BLANK:
        made.pop()
    return made


def _common(old: Sequence[Cell], new: Sequence[Cell]) -> int:
    for at, (one, other) in enumerate(zip(old, new, strict=False)):
        if one != other:
            return at
    return min(len(old), len(new))
