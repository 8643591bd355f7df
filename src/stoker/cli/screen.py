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
) -> list[str]:
    """Lines with aligned cells. The last cell is cut to fit `columns`, the others never are."""
    if not rows:
        return []
    sizes = [max(width(row[n]) for row in rows) for n in range(len(rows[0]))]
    taken = width(indent) + sum(size + 2 for size in sizes[:-1])
    lines = []
    for number, row in enumerate(rows):
        cells = [pad(cell, size) for cell, size in zip(row[:-1], sizes, strict=False)]
        last = row[-1] if columns is None else fit(row[-1], max(columns - taken, 10))
        cells.append(last)
        if number < len(colours):
            cells = [colour(cell, name) for cell, name in zip(cells, colours[number], strict=True)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
