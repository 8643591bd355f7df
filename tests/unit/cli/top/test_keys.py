"""Keys as terminals send them, also in pieces."""

from __future__ import annotations

import pytest

from stoker.cli.top.keys import Keys


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"jkq?", ["j", "k", "q", "?"]),
        (b"\x1b[A\x1b[B\x1bOA\x1bOB", ["up", "down", "up", "down"]),
        (b"\x1b[5~\x1b[6~ ", ["pageup", "pagedown", "pagedown"]),
        (b"\x1b[H\x1b[F\x1b[1~\x1b[4~", ["home", "end", "home", "end"]),
        (b"\x1b[1;5A", ["up"]),
        (b"\x1b[Z\x1b[15~", []),
        (b"\r\n", ["enter", "enter"]),
        ("训".encode(), ["训"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\x1bq", ["escape", "q"]),
    ],
)
def test_names(data: bytes, names: list[str]) -> None:
    assert Keys().feed(data) == names


def test_a_sequence_in_pieces_is_one_key() -> None:
    keys = Keys()
    assert [keys.feed(piece) for piece in (b"\x1b", b"[", b"6", b"~")] == [[], [], [], ["pagedown"]]
    assert keys.flush() == []


def test_nothing_after_it_was_the_escape_key() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.is_waiting
    assert keys.flush() == ["escape"]
    assert not keys.is_waiting
