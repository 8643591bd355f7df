"""`stoker --help`: every command under a heading, so that a newcomer finds his way."""

from __future__ import annotations

from collections.abc import Sequence

from .command import heading
from .say import words
from .screen import pad, width

HEADINGS: dict[str, tuple[str, ...]] = {
    "tasks": ("submit", "cancel", "edit", "extend", "resubmit", "requeue", "delete"),
    "line": ("hold", "release", "move"),
    "watch": ("ls", "top", "show", "why", "logs", "wait", "share", "nodes", "notify", "server-log"),
    "people": ("login", "logout", "me", "passwd", "token", "user"),
    "machine": ("up", "down", "drain", "resume", "service", "config", "upgrade-check"),
    "lab": ("queue", "team", "quota", "pause", "announce", "settings", "audit"),
    "records": ("backup", "restore", "db", "export", "reset"),
    "more": ("completion", "version", "help"),
}
"""What belongs together, in this order; `more` also takes what nobody has put anywhere."""


def overview(known: Sequence[str]) -> list[str]:
    """The help of the program itself, for the commands there are."""
    size = max(map(width, known))
    lines = [words("help.stoker")]
    for name, commands in grouped(known).items():
        lines += ["", heading(f"help.heading.{name}")]
        lines += [f"  {pad(one, size)}  {words(f'help.{one}')}" for one in commands]
    return [*lines, "", words("help.stoker.more")]


def grouped(known: Sequence[str]) -> dict[str, list[str]]:
    """The commands there are, by heading."""
    found = {name: [one for one in all if one in known] for name, all in HEADINGS.items()}
    placed = {one for some in found.values() for one in some}
    found["more"] += [one for one in known if one not in placed]
    return {name: commands for name, commands in found.items() if commands}
