"""What is sent makes the terminal show the lines, whatever it showed before, and is little."""

from __future__ import annotations

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.cli.screen import COLOURS
from stoker.cli.top.painter import Line, Painter, cells, dressed

COLUMNS, ROWS = 20, 8
SPANS = st.tuples(st.text(alphabet="ab 训练🚀é|", max_size=12), st.sampled_from(["", *COLOURS]))
FRAMES = st.lists(st.lists(st.lists(SPANS, max_size=4), max_size=ROWS), min_size=1, max_size=6)


def shown(screen: pyte.Screen) -> list[str]:
    return [line.rstrip() for line in screen.display]


def wanted(lines: list[list[tuple[str, str]]]) -> list[str]:
    text = [dressed(cells(line, COLUMNS), False) for line in lines]
    return text + [""] * (ROWS - len(text))


@settings(max_examples=300, deadline=None)
@given(FRAMES)
def test_the_terminal_shows_the_last_frame(frames: list[list[list[tuple[str, str]]]]) -> None:
    screen = pyte.Screen(COLUMNS, ROWS)
    stream, painter = pyte.Stream(screen), Painter(coloured=True)
    for lines in frames:
        stream.feed(painter.paint(lines, COLUMNS, ROWS))
        assert shown(screen) == wanted(lines)
        assert painter.paint(lines, COLUMNS, ROWS) == ""


@settings(max_examples=100, deadline=None)
@given(st.lists(SPANS, max_size=4), st.lists(SPANS, max_size=4))
def test_colours_are_right_too(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> None:
    def screen(*frames: Line) -> dict[int, tuple[str, str, bool]]:
        made = pyte.Screen(COLUMNS, ROWS)
        stream, painter = pyte.Stream(made), Painter(coloured=True)
        for line in frames:
            stream.feed(painter.paint([line], COLUMNS, ROWS))
        row = made.buffer[0]
        return {
            n: (row[n].data, row[n].fg, row[n].bold) for n in range(COLUMNS) if row[n].data.strip()
        }

    assert screen(before, after) == screen(after)


def test_only_what_differs_is_sent() -> None:
    painter = Painter(coloured=False)
    line = [("Stoker  2 running", "bold"), ("   12:34:56", "")]
    painter.paint([line], 80, 24)
    assert painter.paint([[line[0], ("   12:34:58", "")]], 80, 24) == "\x1b[1;28H8"
    assert painter.paint([[("Stoker", "bold")]], 80, 24) == "\x1b[1;7H\x1b[K"


def test_a_log_that_grows_is_moved_up_by_the_terminal() -> None:
    screen = pyte.Screen(80, 12)
    stream, painter = pyte.Stream(screen), Painter(coloured=False)

    def frame(last: int) -> list[Line]:
        body = [((f"{n} {'log line ' * 7}", ""),) for n in range(last - 10, last)]
        return [(("head", ""),), *body, (("keys", ""),)]

    stream.feed(painter.paint(frame(10), 80, 12))
    for last in (11, 12, 15):
        sent = painter.paint(frame(last), 80, 12)
        stream.feed(sent)
        assert screen.display[1].startswith(f"{last - 10} log")
        assert screen.display[10].startswith(f"{last - 1} log")
        assert (screen.display[0].strip(), screen.display[11].strip()) == ("head", "keys")
        assert len(sent) < 330  # the new lines, not the ten


def test_another_size_or_screen_draws_everything() -> None:
    painter = Painter(coloured=False)
    line = [("abc", "")]
    painter.paint([line], 80, 24)
    assert "abc" in painter.paint([line], 81, 24)
    painter.forget()
    assert "abc" in painter.paint([line], 81, 24)


def test_marks_stay_with_their_character_and_joiners_go() -> None:
    assert cells([("e\u0301", ""), ("训\u0301", "")], 9)[0] == ("e\u0301", "")
    assert dressed(cells([("👩\u200d💻❤\ufe0f", "")], 9), False) == "👩💻❤"
    assert cells([("\u0301训", "")], 1) == []
