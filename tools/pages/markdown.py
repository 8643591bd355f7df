"""The little Markdown that the pages need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [_line(head), _line(["---"] * len(head))]
    return lines + [_line(row) for row in rows]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def names(words: Iterable[str]) -> str:
    listed = [f"`{word}`" for word in words]
    return ", ".join(listed[:-1]) + " and " + listed[-1]
