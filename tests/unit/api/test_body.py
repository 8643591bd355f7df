"""Bodies are exact: no conversion, no unknown field, no byte that is not UTF-8."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.body import ClientGone, completed, decode, read_body
from stoker.api.errors import Refused, status_of
from stoker.domain.errors import InvalidSpec
from stoker.wire import Batch, Submission
from stoker.wire_access import LoginWish, MyWish, TokenWish

SUBMISSION = msgspec.json.Decoder(Submission)
BATCH = msgspec.json.Decoder(Batch)
JSON_TYPE = [(b"content-type", b"application/json")]


def refusal(body: bytes, decoder: msgspec.json.Decoder[Any] = SUBMISSION) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as refused:
        decode(body, decoder)
    return refused.value


def test_a_complete_body_is_taken_exactly() -> None:
    taken = decode('{"command": ["echo", "炼丹 \\" $(x)"], "gpus": 2}'.encode(), SUBMISSION)
    assert taken.command == ("echo", '炼丹 " $(x)')
    assert taken.gpus == 2


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ('"gpus": "2"', "wrong_type", "gpus"),
        ('"gpus": 2.0', "wrong_type", "gpus"),
        ('"gpus": true', "wrong_type", "gpus"),
        ('"gpus": null', "wrong_type", "gpus"),
        ('"gpus": -1', "too_small", "gpus"),
        ('"gpus": 1025', "too_large", "gpus"),
        ('"gpus": 1e400', "out_of_range", "gpus"),
        ('"urgent": 1', "wrong_type", "urgent"),
        ('"urgent": "true"', "wrong_type", "urgent"),
        ('"gpu_ids": [0, "1"]', "wrong_type", "gpu_ids[1]"),
        ('"env": {"A": 1}', "wrong_type", "env"),
        ('"mode": "fast"', "not_a_choice", "mode"),
        (f'"name": "{"x" * 201}"', "too_long", "name"),
        ('"gpu": 1', "unknown_field", "gpu"),
    ],
)
def test_a_wrong_field_is_named(fields: str, code: str, field: str) -> None:
    refused = refusal(f'{{"command": "true", {fields}}}'.encode())
    assert (refused.code, refused.field, status_of(refused)) == (code, field, 422)


def test_in_a_batch_the_task_is_named_too() -> None:
    refused = refusal(b'{"tasks": [{"command": "a"}, {"command": "b", "gpus": "2"}]}', BATCH)
    assert (refused.code, refused.field) == ("wrong_type", "tasks[1].gpus")
    assert refusal(b'{"tasks": []}', BATCH).field == "tasks"
    assert refusal(b"{}", BATCH).code == "missing_field"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"{]", b'{"command": "a"} x', b"nul", b'{"command": "\x01"}', b'{"command": "\\ud800"}',
        b'{"command": "\\udc00"}', b"\xef\xbb\xbf{}", b"'command'",
    ],
)  # fmt: skip
def test_what_is_not_json(body: bytes) -> None:
    refused = refusal(body)
    assert refused.code in ("not_json", "json_ends_early")
    assert status_of(refused) == 400


def test_bytes_that_are_not_utf8_are_pointed_at() -> None:
    body = '{"name": "é", "command": "'.encode() + b"ab\xff" + b'"}'
    refused = refusal(body)
    assert (refused.code, status_of(refused)) == ("not_utf8", 400)
    assert refused.values == {"offset": body.index(b"\xff")}


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"x"'])
def test_json_that_is_no_object(body: bytes) -> None:
    refused = refusal(body)
    assert (refused.code, refused.field, status_of(refused)) == ("wrong_type", "", 422)


@given(st.binary(max_size=300))
def test_any_bytes_are_taken_or_refused(body: bytes) -> None:
    code = ""
    try:
        decode(body, SUBMISSION)
    except InvalidSpec as refused:
        code = refused.code
    assert code != "invalid"


async def feed(
    pieces: Iterable[bytes], headers: list[tuple[bytes, bytes]], most: int, *, gone: bool = False
) -> bytes:
    messages: list[Any] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    if gone:
        messages.append({"type": "http.disconnect"})
    else:
        messages[-1]["more_body"] = False
    queue = iter(messages)

    async def receive() -> Any:
        return next(queue)

    scope: Any = {"headers": headers}
    return await read_body(scope, receive, most)


async def test_a_body_in_pieces_is_joined() -> None:
    assert await feed([b"ab", b"", b"c"], JSON_TYPE, 3) == b"abc"
    assert (
        await feed([b"abc"], [(b"content-type", b"Application/JSON; charset=utf-8")], 3) == b"abc"
    )


@pytest.mark.parametrize("pieces", [[b"abcd"], [b"ab", b"cd"], [b"ab", b"cd", b"ef"]])
async def test_a_body_over_the_limit_is_refused(pieces: list[bytes]) -> None:
    with pytest.raises(Refused) as refused:
        await feed(pieces, JSON_TYPE, 3)
    assert (refused.value.code, status_of(refused.value)) == ("body_too_large", 413)


@pytest.mark.parametrize("length", [b"4", b"9" * 400])
async def test_an_announced_length_over_the_limit_is_refused_unread(length: bytes) -> None:
    with pytest.raises(Refused, match="body_too_large"):
        await feed([b"abc"], [*JSON_TYPE, (b"content-length", length)], 3)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-type", b"text/plain")],
        [(b"content-type", b"application/jsonp")],
        [(b"content-type", b"multipart/form-data; boundary=application/json")],
        [*JSON_TYPE, (b"content-encoding", b"gzip")],
    ],
)
async def test_a_body_must_say_that_it_is_json(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Refused) as refused:
        await feed([b"{}"], headers, 3)
    assert status_of(refused.value) == 415


async def test_a_client_that_leaves_is_noticed() -> None:
    with pytest.raises(ClientGone):
        await feed([b"ab"], JSON_TYPE, 10, gone=True)


@pytest.mark.parametrize(
    ("kind", "body", "choices"),
    [
        (LoginWish, b'{"kind": "x"}', "token, session"),
        (MyWish, b'{"language": "fr"}', '"", en, zh'),
        (MyWish, b'{"notify": ["failed", "x"]}', "started, finished, failed, waiting, limit"),
        (
            TokenWish,
            b'{"label": "x", "scopes": ["x"]}',
            "tasks:read, tasks:write, account, admin",
        ),
        (Batch, b'{"tasks": [{"command": "x", "mode": "x"}]}', "exclusive, shared, reuse"),
    ],
)
def test_a_word_that_is_none_of_a_few_is_told_which(kind: Any, body: bytes, choices: str) -> None:
    refused = refusal(body, msgspec.json.Decoder(kind))
    assert refused.code == "not_a_choice"
    assert sorted(str(refused.values["choices"]).split(", ")) == sorted(choices.split(", "))


USUAL = {"gpus": 1, "name": "usual"}


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ({"command": "x"}, {"command": "x", "gpus": 1, "name": "usual"}),
        ({"command": "x", "gpus": 0}, {"command": "x", "gpus": 0, "name": "usual"}),
        ({"command": "x", "gpus": None}, {"command": "x", "gpus": None, "name": "usual"}),
        ({"tasks": [{"gpus": 2}, 3]}, {"tasks": [{"gpus": 2, "name": "usual"}, 3]}),
        ([1], [1]),
    ],
)
def test_what_is_not_said_is_as_usual(said: Any, whole: Any) -> None:
    assert msgspec.json.decode(completed(msgspec.json.encode(said), USUAL)) == whole


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"command": "\xff"}', b'{"x": 1} '])
def test_nothing_usual_or_nothing_readable_is_left_as_it_is(body: bytes) -> None:
    assert completed(body, {}) == body
    if body != b'{"x": 1} ':
        assert completed(body, USUAL) == body
