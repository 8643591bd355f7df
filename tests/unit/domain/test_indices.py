"""Sets of indices behave like sets, and their text says what they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.indices import (
    HIGHEST_INDEX,
    MOST_ELEMENTS,
    ArraySpec,
    Indices,
    read_array,
)

NUMBERS = st.integers(0, 40)
SETS = st.sets(NUMBERS)


def sound(indices: Indices) -> bool:
    """Ranges are ascending, and no two of them could be one."""
    gaps = [b[0] - a[1] for a, b in zip(indices.ranges, indices.ranges[1:], strict=False)]
    return all(a <= b for a, b in indices.ranges) and all(gap > 1 for gap in gaps)


@given(SETS)
def test_it_is_the_set_it_was_made_of(model: set[int]) -> None:
    indices = Indices.only(*model)

    assert sound(indices)
    assert list(indices) == sorted(model)
    assert len(indices) == len(model)
    assert bool(indices) == bool(model)
    assert [index in indices for index in range(-1, 42)] == [i in model for i in range(-1, 42)]
    assert [indices.nth(number) for number in range(len(model))] == sorted(model)
    for number in (-1, len(model)):
        with pytest.raises(IndexError):
            indices.nth(number)


@given(SETS, NUMBERS)
def test_one_more_and_one_less(model: set[int], index: int) -> None:
    indices = Indices.only(*model)

    assert indices.without(index) == Indices.only(*model - {index})
    assert indices.also(index) == Indices.only(*model | {index})


@given(SETS, SETS)
def test_what_is_left_of_one_without_the_other(model: set[int], other: set[int]) -> None:
    left = Indices.only(*model).minus(Indices.only(*other))

    assert left == Indices.only(*model - other)
    assert sound(left)


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 5))))
def test_ranges_may_overlap_and_come_in_any_order(parts: list[tuple[int, int]]) -> None:
    indices = Indices.of_ranges((first, first + more) for first, more in parts)

    assert sound(indices)
    assert set(indices) == {n for first, more in parts for n in range(first, first + more + 1)}


def test_what_is_no_number_is_in_no_set() -> None:
    assert "3" not in Indices.only(3)
    assert None not in Indices.only(3)


@given(st.sets(st.integers(0, HIGHEST_INDEX), min_size=1), st.none() | st.integers(1, 10**9))
def test_an_array_survives_its_text(model: set[int], cap: int | None) -> None:
    array = ArraySpec(Indices.only(*model), cap)

    assert read_array(array.text()) == array


@pytest.mark.parametrize(
    ("text", "ranges", "cap"),
    [
        ("0", ((0, 0),), None),
        ("0-9%4", ((0, 9),), 4),
        ("1,3,5-7", ((1, 1), (3, 3), (5, 7)), None),
        ("5-7,1,6,8", ((1, 1), (5, 8)), None),
        ("3-3", ((3, 3),), None),
        ("1000000000", ((10**9, 10**9),), None),
        ("0-999999", ((0, 999_999),), None),
    ],
)
def test_what_an_array_says(
    text: str, ranges: tuple[tuple[int, int], ...], cap: int | None
) -> None:
    assert read_array(text) == ArraySpec(Indices(ranges), cap)


@pytest.mark.parametrize(
    "text",
    ["", "-1", "1-", "9-0", "a", "1,,2", "1,", "0-9%0", "0-9%", "0-9%-1", "01", "0-9:2", " 1", "1\n",
     "１", "1000000001", "99999999999", "0-9%4%4"],
)  # fmt: skip
def test_what_is_no_array(text: str) -> None:
    assert read_array(text) is None


def test_a_million_elements_and_no_more() -> None:
    array = read_array("0-999999")
    assert array is not None
    assert len(array.indices) == MOST_ELEMENTS

    for more in ("0-1000000", "0-999999,1000001"):  # read all the same; `checks` refuses it
        beyond = read_array(more)
        assert beyond is not None
        assert len(beyond.indices) == MOST_ELEMENTS + 1


def test_a_long_list_is_read_too() -> None:
    text = ",".join(str(2 * number) for number in range(3000)) + "%7"
    array = read_array(text)
    assert array is not None
    assert (len(array.indices), array.cap, array.text()) == (3000, 7, text)
