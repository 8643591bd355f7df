"""A corpus of escape sequences: only text and colour reach the terminal, however it is cut."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.cli.harmless import Harmless

CORPUS = [
    (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    (b"\x1b[1;38;5;200mx\x1b[m", "\x1b[1;38;5;200mx\x1b[m"),
    (b"\x1b[38:2::1:2:3mx", "\x1b[38:2::1:2:3mx"),
    (b"\x1b]0;my title\x07text", "text"),
    (b"\x1b]2;my title\x1b\\text", "text"),
    (b"\x1b]52;c;ZXZpbA==\x07text", "text"),
    (b"\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"),
    (b"\x1bPq#0;2;0;0;0~\x1b\\text", "text"),
    (b"\x1b^private\x1b\\text", "text"),
    (b"\x1b_app\x1b\\text", "text"),
    (b"\x1bXstring\x1b\\text", "text"),
    (b"\x1b[2J\x1b[H\x1b[10;10Htext", "text"),
    (b"\x1b[?1049htext\x1b[?25l", "text"),
    (b"\x1b[6n\x1b[c\x1b[>0ctext", "text"),
    (b"\x1b[?1mtext", "text"),
    (b"\x1b[>4;2mtext", "text"),
    (b"\x1bctext\x1b7\x1b8", "text"),
    (b"\x1b(0text\x1b(B", "text"),
    (b"\x1b#8text", "text"),
    ("\x9b2Jtext".encode(), "text"),
    ("\x9d0;title\x9ctext".encode(), "text"),
    ("\x90q\x9ctext".encode(), "text"),
    (b"bell\x07 back\x08space", "bell back\x08space"),
    (b"50 %\r51 %\r\n\tdone\n", "50 %\r51 %\r\n\tdone\n"),
    (b"\x0e\x0f\x0b\x0c\x05text\x7f", "text"),
    (b"\x1b\x1b[31m", "\x1b[31m"),
    (b"\x1b]0;never ends", "]0;never ends"),
    (b"\xff\xfe\x80text", "\ufffd\ufffd\ufffdtext"),
    ("训练 \U0001f680".encode(), "训练 \U0001f680"),
]
COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
CONTROLS = re.compile("[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def shown(pieces: list[bytes]) -> str:
    harmless = Harmless()
    text = "".join(harmless.feed(piece) for piece in pieces) + harmless.end()
    return text.removesuffix("\x1b[0m") if not pieces[-1].endswith(b"\x1b[0m") else text[:-4]


@pytest.mark.parametrize(("data", "text"), CORPUS)
def test_only_text_and_colour_pass(data: bytes, text: str) -> None:
    assert shown([data]) == text


@pytest.mark.parametrize(("data", "text"), CORPUS)
def test_a_sequence_in_pieces_is_still_one(data: bytes, text: str) -> None:
    for cut in range(1, len(data)):
        assert shown([data[:cut], data[cut:]]) == text
    assert shown([data[n : n + 1] for n in range(len(data))]) == text


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_control_reaches_the_terminal(pieces: list[bytes]) -> None:
    harmless = Harmless()
    text = "".join(harmless.feed(piece) for piece in pieces) + harmless.end()
    assert not CONTROLS.search(COLOUR.sub("", text))


def test_colours_are_switched_off_at_the_end() -> None:
    harmless = Harmless()
    harmless.feed(b"\x1b[31mred for ever")
    assert harmless.end() == "\x1b[0m"
    assert Harmless().end() == ""


@pytest.mark.parametrize("unit", ["\x9d", "\x1b]", "\x1b[", "\x1b", "\x90x", "\x1b[0;", "\x1b "])
def test_hostile_output_costs_no_more_than_other_output(unit: str) -> None:
    began = time.process_time()
    harmless = Harmless()
    for _ in range(4):
        harmless.feed((unit * 65536).encode())
    harmless.end()
    assert time.process_time() - began < 5
