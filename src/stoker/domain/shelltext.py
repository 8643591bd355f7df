"""Values put into text that a POSIX shell will read, so that none can break the line.

A value arrives as exactly itself wherever `{name}` stands: outside quotes, in double or in single
quotes. Where nobody but a shell can tell (here-documents, backquotes, `$'...'`, `$(...)` within
double quotes, and all that follows them) only values of plain characters can be put in; `hard`
names the others, so that they can be refused beforehand. `${name}` and `\\{name}` are the shell's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

PLACE = re.compile(r"(?<!\$)\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh"})

_PLAIN = re.compile(r"[A-Za-z0-9_./:+%-]+", re.ASCII)
"""No shell sees anything in these."""
_WORDS = frozenset(
    {
        "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "foreach", "function",
        "if", "in", "repeat", "select", "then", "time", "until", "while",
    }
)  # fmt: skip
"""Quoted, they are words like others."""
_IN_VARIABLE = re.compile(r"\$\w*\Z")
_LOOK_BACK = 256
_CLOSE = {"double": '"', "single": "'"}
_TOKENS = {
    "plain": r"\\.|(?<![^\s;&|()])#|<<<|<<|\$'|[`'\"]",
    "double": r"\\.|\$\{\w*\}|\$\{|\$\(|[`\"]",
    "single": r"'",
    "comment": r"\n",
    "hard": r"(?!)",
}
_TOKEN = {
    state: re.compile(f"{tokens}|{PLACE.pattern}", re.DOTALL) for state, tokens in _TOKENS.items()
}
_NEXT = {
    ("plain", "'"): "single",
    ("plain", '"'): "double",
    ("plain", "#"): "comment",
    ("plain", "<<"): "hard",
    ("plain", "$'"): "hard",
    ("plain", "`"): "hard",
    ("double", '"'): "plain",
    ("double", "`"): "hard",
    ("double", "${"): "hard",
    ("double", "$("): "hard",
    ("single", "'"): "plain",
    ("comment", "\n"): "plain",
}


class Place(NamedTuple):
    """A `{name}` in the text, and what a shell takes the characters around it for."""

    start: int
    end: int
    name: str
    state: str


def places(text: str) -> Iterator[Place]:
    """Every `{name}`, whatever its name."""
    state, at = "plain", 0
    while (found := _TOKEN[state].search(text, at)) is not None:
        at = found.end()
        if found["name"] is not None:
            yield Place(found.start(), at, found["name"], state)
        else:
            state = _NEXT.get((state, found[0]), state)


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with these values for their names. None of them has control characters."""
    parts, at = [], 0
    for place in places(text):
        if place.name in values:
            parts += [text[at : place.start], _word(text, place, values[place.name])]
            at = place.end
    return "".join(parts) + text[at:]


def hard(text: str) -> set[str]:
    """Names that stand where only plain values can be put in."""
    return {place.name for place in places(text) if place.state == "hard"}


def is_plain(value: str) -> bool:
    """Whether it can be put in anywhere."""
    return _PLAIN.fullmatch(value) is not None


def is_shell_text(text: str) -> bool:
    """Whether a POSIX shell reads it: a script may name another interpreter."""
    if not text.startswith("#!"):
        return True
    line = text[2:].partition("\n")[0]
    return any(word.rpartition("/")[2] in SHELLS for word in line.split())


def fill_exact(text: str, value_of: Callable[[str], str | None]) -> str:
    """`text`, which no shell reads, with the values there are."""

    def put(found: re.Match[str]) -> str:
        value = value_of(found["name"])
        return found[0] if value is None else value

    return PLACE.sub(put, text)


def _word(text: str, place: Place, value: str) -> str:
    if place.state in ("hard", "comment"):
        return value
    quoted = "'" + value.replace("'", "'\"'\"'") + "'"
    if place.state == "plain":
        return value if _may_stand_bare(text, place, value) else quoted
    bare = place.state == "single" or not _ends_in_variable(text, place)
    close = _CLOSE[place.state]
    return value if bare and is_plain(value) else f"{close}{quoted}{close}"


def _may_stand_bare(text: str, place: Place, value: str) -> bool:
    """A number before `>` would be a descriptor, and `$x{lr}` another variable."""
    following = text[place.end : place.end + 1]
    return (
        is_plain(value)
        and value not in _WORDS
        and following not in ("<", ">")
        and not _ends_in_variable(text, place)
    )


def _ends_in_variable(text: str, place: Place) -> bool:
    return _IN_VARIABLE.search(text[max(0, place.start - _LOOK_BACK) : place.start]) is not None
