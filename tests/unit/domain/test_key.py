from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.key import PLAIN, TaskKey, parse_key


@given(st.integers(1, 10**17), st.one_of(st.just(PLAIN), st.integers(0, 10**17)))
def test_a_key_survives_its_text(id: int, element: int) -> None:
    assert parse_key(str(TaskKey(id, element))) == TaskKey(id, element)


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "1_", "_1", "1_-1", "01", "1_01", "1 ", "１", "1.0", "9" * 30, "x", "1_2_3"],
)
def test_what_is_not_a_key(text: str) -> None:
    assert parse_key(text) is None
