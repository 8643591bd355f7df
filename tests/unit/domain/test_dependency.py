"""What a task waits for, in words, and when it has come true."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.dependency import Dependency, When, comes_true, parse_after
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.outcome import Outcome


@given(
    st.integers(1, 10**17),
    st.just(PLAIN) | st.integers(0, 10**9),
    st.sampled_from(get_args(When)),
)
def test_a_dependency_survives_its_text(id: int, element: int, when: When) -> None:
    dependency = Dependency(TaskKey(id, element), when)

    assert parse_after(dependency.text()) == dependency


@pytest.mark.parametrize(
    ("text", "key", "when"),
    [
        ("12", TaskKey(12), "any"),
        ("12:any", TaskKey(12), "any"),
        ("12:ok", TaskKey(12), "ok"),
        ("12:notok", TaskKey(12), "notok"),
        ("17_3:ok", TaskKey(17, 3), "ok"),
    ],
)
def test_what_an_entry_says(text: str, key: TaskKey, when: When) -> None:
    assert parse_after(text) == Dependency(key, when)


@pytest.mark.parametrize(
    "text",
    ["", "0", "ok", ":ok", "12:", "12:OK", "12:ok ", "12:ok:ok", "12 :ok", "12:done", "x:ok"],
)
def test_what_is_no_entry(text: str) -> None:
    assert parse_after(text) is None


GOOD, BAD = ("succeeded",), ("failed", "cancelled", "timed_out", "lost")


def test_the_table_knows_every_outcome() -> None:
    assert set(GOOD + BAD) == set(get_args(Outcome))


@pytest.mark.parametrize(
    ("outcomes", "ok", "any_", "notok"),
    [
        ((None,), None, None, None),
        (GOOD, True, True, False),
        (BAD, False, True, True),
        (("deleted",), False, True, False),
    ],
)
def test_when_it_comes_true(
    outcomes: tuple[Any, ...], ok: bool | None, any_: bool | None, notok: bool | None
) -> None:
    for outcome in outcomes:
        found = [comes_true(when, outcome) for when in ("ok", "any", "notok")]
        assert found == [ok, any_, notok]


def test_equal_ones_are_one() -> None:
    assert len({parse_after("12"), parse_after("12:any"), parse_after("12:ok")}) == 2
