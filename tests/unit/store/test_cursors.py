"""Cursors are opaque and come from outside: anything else than our own is refused by name."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from stoker.domain.errors import InvalidSpec
from stoker.store.paging import Paging, Query, Sort, cursor_after
from stoker.store.statements import LISTED

PAGING = Paging(sqlite.dialect(paramstyle="qmark"))
ROW: tuple[Any, ...] = (17, -1, *("x",) * (len(LISTED) - 2))


def b64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize("sort", ["id", "submitted"])
@pytest.mark.parametrize("descending", [True, False])
def test_a_cursor_says_where_its_page_ended(sort: Sort, descending: bool) -> None:
    query = Query(sort=sort, descending=descending, limit=3)
    cursor = cursor_after(query, ROW)

    _, parameters = PAGING.statement(
        Query(sort=sort, descending=descending, limit=3, cursor=cursor)
    )

    assert parameters == (17, 4)


def test_among_elements_a_cursor_says_which_one() -> None:
    cursor = cursor_after(Query(elements=True), (17, 3, *ROW[2:]))

    _, parameters = PAGING.statement(Query(elements=True, cursor=cursor))

    assert parameters == (17, 3, 17, 3, 51)  # tasks and elements are walked apart


def test_a_cursor_has_the_key_of_its_order() -> None:
    cursor = cursor_after(Query(sort="position"), (*ROW, 99))

    _, parameters = PAGING.statement(Query(sort="position", cursor=cursor))

    assert parameters == (99, 17, 51)


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "é",
        "====",
        b64("null"),
        b64("{}"),
        b64('["id",true]'),
        b64('["id",true,[1]]'),
        b64('["id",true,[1,2,3]]'),
        b64('["id",true,["1",2]]'),
        b64('["id",true,[1,2],5]'),
        b64('["id",true,[9223372036854775808,1]]'),
        b64('["id",true,[1e400,1]]'),
        b64('["owner",true,[1,2]]'),
        cursor_after(Query(sort="submitted"), ROW),
        cursor_after(Query(descending=False), ROW),
    ],
)
def test_a_cursor_that_is_not_ours_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        PAGING.statement(Query(cursor=cursor))

    assert (refused.value.code, refused.value.field) == ("bad_cursor", "cursor")


@given(st.text(min_size=1))
def test_no_text_makes_it_stumble(text: str) -> None:
    with suppress(InvalidSpec):
        PAGING.statement(Query(cursor=text))
