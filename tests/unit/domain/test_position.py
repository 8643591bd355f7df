"""There is a place between any two, until there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.position import GAP, between, first_position

POSITIONS = st.integers(-(2**62), 2**62)


@given(POSITIONS, POSITIONS)
def test_between_is_strictly_between_or_there_is_no_room(low: int, high: int) -> None:
    found = between(low, high)

    if found is None:
        assert high - low < 2
    else:
        assert low < found < high


@given(POSITIONS)
def test_an_open_end_leaves_a_gap(position: int) -> None:
    assert between(None, position) == position - GAP
    assert between(position, None) == position + GAP


def test_an_empty_line_has_a_place_too() -> None:
    assert between(None, None) is not None


@pytest.mark.parametrize("id", [1, 2, 10**6])
def test_new_tasks_are_in_the_order_of_their_ids_with_room_between(id: int) -> None:
    assert first_position(id + 1) - first_position(id) == GAP
    assert first_position(2**31 - 1) < 2**63  # what a column holds


def test_many_can_move_to_one_place() -> None:
    low, high = first_position(1), first_position(2)
    moves = 0
    while (found := between(low, high)) is not None:
        high, moves = found, moves + 1

    assert moves == 32
