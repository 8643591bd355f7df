"""A task's output on a terminal: text and colour pass, everything else a terminal obeys does not.

Titles, clipboard writes (OSC 52), hyperlinks, device control strings, cursor movement, 8-bit
controls: all removed, also when a sequence arrives in pieces. Carriage return and backspace stay:
progress bars live by them. Output that is not for a terminal never comes here.
"""

from __future__ import annotations

import codecs
import re

MOST_HELD = 4096
"""An unfinished sequence longer than this is none."""

_SEQUENCE = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]*m)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS
    r"|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\`-~]"  # the rest of ESC
    r"|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"  # single controls
)
_UNFINISHED = re.compile(
    r"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x90-\x9f]*\x1b?|[ -/]*)"
    r"|\x9b[0-?]*[ -/]*|[\x90\x98\x9d-\x9f][^\x07\x1b\x90-\x9f]*\x1b?)\Z"
)


class Harmless:
    """Bytes in, text for a terminal out. Feed it the pieces in order, then `end()`."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._coloured = False

    def feed(self, data: bytes) -> str:
        text = self._held + self._decoder.decode(data)
        self._held = ""
        unfinished = _UNFINISHED.search(text, max(0, len(text) - MOST_HELD))
        if unfinished is not None:
            text, self._held = text[: unfinished.start()], text[unfinished.start() :]
        return _SEQUENCE.sub(self._replace, text)

    def end(self) -> str:
        """What was held back, and colours off if any were on."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        return _SEQUENCE.sub(self._replace, text) + ("\x1b[0m" if self._coloured else "")

    def _replace(self, found: re.Match[str]) -> str:
        if found["colour"] is None:
            return ""
        self._coloured = True
        return found[0]
