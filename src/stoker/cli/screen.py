"""Text on a terminal: how wide it is, how it fits, and what must not reach it.

Chinese and other wide characters count two columns. Control characters from tasks, nodes and
people are shown as escapes, so that a task's name cannot move the cursor, set the window's title or
turn the line around. Colour only on a terminal, and never with NO_COLOR.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Sequence

COLOURS = {
    "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "dim": "2", "bold": "1",
}  # fmt: skip

# C0, DEL, C1, marks that reorder text, line separators, and bytes that were no UTF-8
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
LEAST_LAST = 10
"""Columns that the last cell of a row keeps, however narrow it is."""
_CLOSING = "，。；：！？、）】》”’,.;:!?)]"
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def clean(text: str) -> str:
    """`text` on one line, with everything a terminal would act on shown as an escape."""
    return _UNSAFE.sub(lambda found: _NAMED.get(found[0]) or _escape(found[0]), text)


def width(text: str) -> int:
    """Columns that `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def fit(text: str, columns: int) -> str:
    """`text` cut to at most so many columns, with an ellipsis when something is missing."""
    if width(text) <= columns:
        return text
    kept, used = [], 1
    for character in text:
        used += _columns(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept) + "…" if columns > 0 else ""


def wrap(text: str, columns: int | None) -> list[str]:
    """`text` in lines of at most so many columns, broken at blanks where there are some; what
    is continued keeps the indent. With None nobody looks at it on a terminal: one line."""
    if columns is None or width(text) <= columns:
        return [text]
    indent = " " * min(len(text) - len(text.lstrip(" ")), columns // 3)
    lines, line, used = [], "", 0
    for character in text:
        size = _columns(character)
        if used + size > columns and line != indent:
            kept, rest = _broken(line, character)
            if width(indent + rest) + size > columns:
                kept, rest = line, ""
            lines.append(kept)
            line = indent + rest
            used = width(line)
        if character != " " or line != indent or not lines:
            line, used = line + character, used + size
    return [*lines, line]


def pad(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))


def colour(text: str, name: str) -> str:
    """`text` in a colour, where colours are wanted."""
    if not name or not is_terminal() or os.environ.get("NO_COLOR") or _is_old_console():
        return text
    return f"\x1b[{COLOURS[name]}m{text}\x1b[0m"


def _is_old_console() -> bool:
    """Windows' own console shows colours as rubbish; Windows Terminal and Git Bash say who they are."""
    return os.name == "nt" and not (os.environ.get("WT_SESSION") or os.environ.get("TERM"))


def is_terminal() -> bool:
    return sys.stdout.isatty()


def terminal_width() -> int | None:
    """Columns to fit into; None when nobody looks at it on a terminal."""
    if not is_terminal():
        return None
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80


def table(
    rows: Sequence[Sequence[str]],
    *,
    colours: Sequence[Sequence[str]] = (),
    columns: int | None = None,
    indent: str = "",
    wrapped: bool = False,
) -> list[str]:
    """Lines with aligned cells. The last cell is cut to fit `columns`, or goes on below itself
    when `wrapped`; the others never are."""
    if not rows:
        return []
    sizes = [max(width(row[n]) for row in rows) for n in range(len(rows[0]))]
    taken = width(indent) + sum(size + 2 for size in sizes[:-1])
    lines = []
    for number, row in enumerate(rows):
        cells = [pad(cell, size) for cell, size in zip(row[:-1], sizes, strict=False)]
        room = None if columns is None else max(columns - taken, LEAST_LAST)
        last, *more = wrap(row[-1], room) if wrapped else [_cut(row[-1], room)]
        tints = colours[number] if number < len(colours) else [""] * len(row)
        dressed = [colour(cell, name) for cell, name in zip([*cells, last], tints, strict=True)]
        lines.append((indent + "  ".join(dressed)).rstrip())
        lines += [" " * taken + colour(piece, tints[-1]) for piece in more]
    return lines


def _cut(text: str, columns: int | None) -> str:
    return text if columns is None else fit(text, columns)


def _broken(line: str, following: str) -> tuple[str, str]:
    """A full line at its last blank, if that is not too far away; closing marks stay with what
    they close."""
    if following == " ":
        return line, ""
    at = line.rfind(" ")
    if at > len(line) // 2:
        return line[:at].rstrip(" "), line[at + 1 :]
    return (line[:-1], line[-1:]) if following in _CLOSING and len(line) > 1 else (line, "")


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
