"""Columns, cutting, tables, and what must not reach a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.cli import screen
from stoker.cli.screen import clean, fit, pad, table, width, wrap


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("训练", 4),
        ("训a练", 5),
        ("\u00e9", 1),
        ("e\u0301", 1),
        ("ｆｕｌｌ", 8),
        ("ﾊﾝ", 2),
        ("한글", 4),
        ("🚀", 2),
        ("a\u200bb", 2),
        ("…", 1),
    ],
)
def test_width(text: str, columns: int) -> None:
    assert width(text) == columns


@given(st.text(), st.integers(min_value=0, max_value=30))
def test_what_fits_is_never_wider(text: str, columns: int) -> None:
    cut = fit(text, columns)
    assert width(cut) <= max(columns, 0) or cut == text
    if width(text) <= columns:
        assert cut == text


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [("abcdef", 4, "abc…"), ("训练模型", 5, "训练…"), ("训练模型", 4, "训…"), ("abc", 3, "abc")],
)
def test_cutting(text: str, columns: int, cut: str) -> None:
    assert fit(text, columns) == cut


def test_columns_align_with_wide_characters() -> None:
    lines = table([["编号", "任务", "x"], ["1", "abc", "y"], ["22", "训练", "z"]])
    assert len({width(line[: re.search("[xyz]$", line).start()]) for line in lines}) == 1  # type: ignore[union-attr]


def test_only_the_last_cell_is_cut() -> None:
    assert table([["a", "b" * 50]], columns=20) == ["a  " + "b" * 16 + "…"]
    assert table([["a", "b" * 50]]) == ["a  " + "b" * 50]


def test_padding_counts_columns() -> None:
    assert width(pad("训", 6)) == 6


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain 训练", "plain 训练"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\udcff", "\\udcff"),
        ("\x00\x7f", "\\x00\\x7f"),
        ("a\u2028b", "a\\u2028b"),
    ],
)
def test_nothing_that_a_terminal_obeys_is_left(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text(st.characters()))
def test_cleaned_text_is_one_harmless_line(text: str) -> None:
    cleaned = clean(text)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", cleaned)
    cleaned.encode()


def test_no_colour_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "is_terminal", lambda: False)
    assert screen.colour("x", "red") == "x"
    assert screen.terminal_width() is None


def test_no_colour_when_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "is_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert screen.colour("x", "red") == "x"
    monkeypatch.delenv("NO_COLOR")
    assert screen.colour("x", "red") == "\x1b[31mx\x1b[0m"


def test_the_terminal_may_say_how_wide_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "123")
    assert screen.terminal_width() == 123


@given(st.text(alphabet="ab 训，é\u0301🚀", max_size=60), st.integers(min_value=2, max_value=20))
def test_wrapping_loses_nothing_but_blanks(text: str, columns: int) -> None:
    lines = wrap(text, columns)
    assert all(width(line) <= columns for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_wrapping_at_blanks_and_not_before_a_closing_mark() -> None:
    assert wrap("Needs 2 of the 4 GPUs on lab1", 12) == ["Needs 2 of", "the 4 GPUs", "on lab1"]
    assert wrap("  held by  root and others", 14) == ["  held by", "  root and", "  others"]
    assert wrap("运行未成功，再试。", 10) == ["运行未成", "功，再试。"]
    assert wrap("long " * 50, None) == ["long " * 50]


def test_a_long_last_cell_goes_on_below_itself() -> None:
    rows = [["why", "Needs 2 of the 4 GPUs on lab1"], ["in line", "first of 1"]]
    assert table(rows, columns=24, indent="  ", wrapped=True) == [
        "  why      Needs 2 of",
        "           the 4 GPUs on",
        "           lab1",
        "  in line  first of 1",
    ]
    assert len(table(rows, columns=None, wrapped=True)) == 2
