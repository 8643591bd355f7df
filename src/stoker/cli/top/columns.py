"""Cells in aligned columns that fit a width, by terminal columns. Pure.

The last two columns share what the others leave: the first of them gets what it needs, up to its
part. All others are as wide as their widest cell.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.cli.screen import fit, width

from .painter import Line, Span

Row = Sequence[Span]
GAP = 2
LEAST = 6
"""Columns that a cell keeps when there is no room."""


def laid(
    rows: Sequence[Row], columns: int, *, indent: int = 0, gaps: Sequence[int] = ()
) -> list[Line]:
    """The rows as lines. `gaps`: blanks after the first columns, where they are not two."""
    if not rows:
        return []
    count = len(rows[0])
    sizes = [max(width(row[n][0]) for row in rows) for n in range(count)]
    between = [*gaps, *([GAP] * count)][: count - 1]
    left = columns - indent - sum(sizes[:-2]) - sum(between)
    sizes[-2:] = _shared(sizes[-2], sizes[-1], max(left, 2 * LEAST))
    return [_line(row, sizes, between, indent) for row in rows]


def _shared(first: int, second: int, room: int) -> tuple[int, int]:
    if first + second <= room:
        return first, second
    given = min(first, max(room * 2 // 5, room - second))
    return given, room - given


def _line(row: Row, sizes: Sequence[int], between: Sequence[int], indent: int) -> Line:
    spans: list[Span] = [(" " * indent, "")] if indent else []
    for (text, tint), size, gap in zip(row, sizes, [*between, 0], strict=True):
        shown = fit(text, size)
        spans += [(shown, tint), (" " * (size - width(shown) + gap), "")]
    return tuple(spans)
