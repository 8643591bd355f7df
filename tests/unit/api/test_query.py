"""Query strings are taken exactly as declared, or refused by name."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from stoker.api.query import MOST_INTEGER, NoQuery, Query, parse_integer, parse_query
from stoker.domain.errors import InvalidSpec


class Sample(Query, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    offset: Annotated[int, Meta(ge=-MOST_INTEGER, le=MOST_INTEGER)] = 0
    state: Annotated[tuple[Literal["HELD", "QUEUED"], ...], Meta(max_length=3)] = ()
    sort: Literal["new", "old"] = "new"
    name: Annotated[str, Meta(min_length=1, max_length=10)] | None = None
    after: Annotated[int, Meta(ge=0)] | None = None
    anyway: bool = False


def test_nothing_given_is_the_defaults() -> None:
    assert parse_query(b"", Sample) == Sample()
    assert parse_query(b"&&", Sample) == Sample()


def test_everything_given() -> None:
    raw = b"limit=7&offset=-3&state=HELD&state=QUEUED&sort=old&name=a%20b%2B+c&after=9"
    raw += b"&anyway=true"
    assert parse_query(raw, Sample) == Sample(
        limit=7,
        offset=-3,
        state=("HELD", "QUEUED"),
        sort="old",
        name="a b+ c",
        after=9,
        anyway=True,
    )
    assert parse_query(b"anyway=false", Sample) == Sample()


@pytest.mark.parametrize(
    ("raw", "code", "field"),
    [
        (b"limit=0", "too_small", "limit"),
        (b"limit=501", "too_large", "limit"),
        (b"limit=-1", "too_small", "limit"),
        (b"limit=abc", "wrong_type", "limit"),
        (b"limit=1.0", "wrong_type", "limit"),
        (b"limit=%201", "wrong_type", "limit"),
        (b"limit=1_0", "wrong_type", "limit"),
        (b"limit=null", "wrong_type", "limit"),
        (b"after=null", "wrong_type", "after"),
        (b"limit=true", "wrong_type", "limit"),
        (b"limit=", "wrong_type", "limit"),
        (b"anyway=", "wrong_type", "anyway"),
        (b"anyway=1", "wrong_type", "anyway"),
        (b"anyway=True", "wrong_type", "anyway"),
        (b"anyway=yes", "wrong_type", "anyway"),
        (b"anyway=true&anyway=true", "repeated_parameter", "anyway"),
        (b"limit", "wrong_type", "limit"),
        ("limit=٣".encode(), "wrong_type", "limit"),
        (b"limit=" + b"9" * 5000, "too_large", "limit"),
        (b"offset=-" + b"9" * 5000, "too_small", "offset"),
        (b"limit=1&limit=1", "repeated_parameter", "limit"),
        (b"state=held", "not_a_choice", "state[0]"),
        (b"state=HELD&state=", "not_a_choice", "state[1]"),
        (b"state=HELD&state=HELD&state=HELD&state=HELD", "too_many", "state"),
        (b"sort=random", "not_a_choice", "sort"),
        (b"name=", "too_short", "name"),
        (b"name=12345678901", "too_long", "name"),
        (b"name=%00", "nul", "name"),
        (b"name=a%ff", "not_utf8", "name"),
        (b"name=\xff", "not_utf8", "name"),
        (b"%ff=1", "not_utf8", ""),
        (b"Limit=1", "unknown_parameter", "Limit"),
        (b"token=x", "unknown_parameter", "token"),
        (b"=1", "unknown_parameter", ""),
    ],
)
def test_refused_by_name(raw: bytes, code: str, field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_query(raw, Sample)
    assert (refused.value.code, refused.value.field) == (code, field)


def test_a_refused_choice_says_what_there_is() -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_query(b"state=x", Sample)
    assert refused.value.values == {"value": "x", "choices": "HELD, QUEUED"}


def test_a_route_without_parameters_takes_none() -> None:
    assert parse_query(b"", NoQuery) == NoQuery()
    with pytest.raises(InvalidSpec, match="unknown_parameter"):
        parse_query(b"x=1", NoQuery)


@given(st.binary(max_size=200))
def test_any_bytes_are_taken_or_refused(raw: bytes) -> None:
    code = ""
    try:
        assert isinstance(parse_query(raw, Sample), Sample)
    except InvalidSpec as refused:
        code = refused.code
    assert code != "invalid"


@pytest.mark.parametrize(
    ("text", "code"),
    [("x", "wrong_type"), ("", "wrong_type"), ("-1", "too_small"), ("9" * 5000, "too_large")],
)
def test_a_number_in_a_header(text: str, code: str) -> None:
    assert parse_integer("17", field="Last-Event-ID") == 17
    with pytest.raises(InvalidSpec) as refused:
        parse_integer(text, field="Last-Event-ID")
    assert (refused.value.code, refused.value.field) == (code, "Last-Event-ID")
