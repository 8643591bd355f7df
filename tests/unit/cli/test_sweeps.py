"""How values of a sweep are typed, and what is shown of its elements."""

from __future__ import annotations

import pytest

from stoker.cli.sweeps import (
    Unreadable,
    describe_elements,
    element_title,
    made_of,
    read_values,
    write_values,
)
from tests.helpers.builders import a_spec

SWEEP = {"lr": ("1e-3", "1e-4"), "seed": ("0", "1", "2", "3", "4")}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1e-3,1e-4", ("1e-3", "1e-4")),
        ("0..4", ("0", "1", "2", "3", "4")),
        ("-2..2..2,9", ("-2", "0", "2", "9")),
        ("10..0..-5", ("10", "5", "0")),
        ("3..3", ("3",)),
        ("a\\,b,c\\\\,\\d", ("a,b", "c\\", "\\d")),
        ("1\\..3,../data,v1..2", ("1..3", "../data", "v1..2")),
        ("", ("",)),
        ("a,,b", ("a", "", "b")),
    ],
)
def test_values_as_they_are_typed(text: str, values: tuple[str, ...]) -> None:
    assert read_values(text) == values


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("4..0", "sweep.no_range"),
        ("0..4..0", "sweep.no_range"),
        ("0..4..-1", "sweep.no_range"),
        ("0..5000", "sweep.too_many"),
        ("0..999999999999999999", "sweep.too_many"),
        ("0.1..0.5", "sweep.not_whole"),
        ("01..10", "sweep.not_whole"),
        ("1..", "sweep.not_whole"),
    ],
)
def test_what_is_no_range(text: str, key: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read_values(text)
    assert refused.value.key == key


def test_numbers_that_follow_each_other_are_shown_as_a_range() -> None:
    assert write_values(("0", "1", "2", "7", "8", "x")) == "0..2,7,8,x"
    assert write_values(("-1", "0", "1", "01", "2")) == "-1..1,01,2"


def test_how_an_element_is_called() -> None:
    chosen = {"lr": "1e-3", "seed": "0"}
    named = a_spec(name="train", command=("python", "{lr}"), sweep=SWEEP)
    assert element_title(named, chosen) == "train lr=1e-3 seed=0"
    half = a_spec(name="train-{lr}", sweep=SWEEP)
    assert element_title(half, chosen) == "train-1e-3 seed=0"
    nameless = a_spec(command=("python", "--lr={lr}"), sweep=SWEEP)
    assert element_title(nameless, chosen) == "lr=1e-3 seed=0: python --lr=1e-3"


def test_what_would_run() -> None:
    spec = a_spec(command=("python", "--lr={lr}", "{seed}"), sweep=SWEEP, array="%4")
    assert list(describe_elements(spec)) == [
        "It would be 10 elements (lr x 2, seed x 5), at most 4 at a time:",
        "  _0  python --lr=1e-3 0",
        "  _1  python --lr=1e-3 1",
        "  _2  python --lr=1e-3 2",
        "  ... 6 more ...",
        "  _9  python --lr=1e-4 4",
    ]
    array = a_spec(command="echo $STOKER_ARRAY_INDEX", array="3,17")
    assert list(describe_elements(array)) == [
        "It would be an array of 2:",
        "  _3   STOKER_ARRAY_INDEX=3 echo $STOKER_ARRAY_INDEX",
        "  _17  STOKER_ARRAY_INDEX=17 echo $STOKER_ARRAY_INDEX",
    ]
    assert list(describe_elements(a_spec())) == []
    picked = a_spec(command=("x", "{lr}", "{seed}"), sweep=SWEEP, array="3,7-8")
    assert made_of(picked, 3) == "3 of 10 elements (lr x 2, seed x 5)"
