"""Finished tasks as a file: what was asked for, whole, or visibly cut."""

from __future__ import annotations

import csv
import http.client
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from stoker.api.export import PAGE
from stoker.api.table import COLUMNS
from stoker.client import Client, Refused, ServerUnreachable
from stoker.client.export import Export
from tests.helpers.api_server import ApiServer, serving
from tests.helpers.many import record_many

from .conftest import by_name


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """1: of ana; 2: an array that ran; 3: one that was cancelled after its beginning; 4: waits."""
    with serving(tmp_path_factory.mktemp("home"), by_name) as running:
        running.wait_for(running.submit(name="=first", gpus=1), "FINISHED")
        running.wait_for(running.submit(name="ran", array="0-2"), "FINISHED")
        id = running.submit(name="forever", array="1-5%2", gpus=1)
        running.until(lambda: running.task(id)["array"]["live"] == 2)
        running.request("POST", f"/tasks/{id}/cancel")
        running.wait_for(id, "FINISHED")
        running.submit(hold=True)
        yield running


def export(server: ApiServer, **query: Any) -> list[dict[str, Any]]:
    reply = server.request("GET", f"/tasks/export?{urlencode(query, doseq=True)}")
    assert reply.status == 200, reply.body
    if query.get("format") == "jsonl":
        assert reply.headers["Content-Type"] == "application/x-ndjson"
        return [json.loads(line) for line in reply.body.splitlines()]
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(reply.body.decode("utf-8-sig"), newline="")))


def ids(server: ApiServer, **query: Any) -> list[str]:
    return [row["id"] for row in export(server, **query)]


def test_whole_tasks_the_newest_first(filled: ApiServer) -> None:
    rows = export(filled)

    assert [row["id"] for row in rows] == ["3", "2", "1"]
    assert tuple(rows[0]) == COLUMNS
    assert rows[2]["name"] == "'=first"
    assert (rows[1]["elements"], rows[1]["succeeded"]) == ("3", "3")
    assert (rows[0]["elements"], rows[0]["cancelled"], rows[0]["succeeded"]) == ("5", "5", "0")
    same = export(filled, format="jsonl")
    assert [row["id"] for row in same] == ["3", "2", "1"]
    assert same[2]["name"] == "=first"


def test_every_element_also_those_that_never_began(filled: ApiServer) -> None:
    assert ids(filled, elements="true") == [
        "3_1", "3_2", "3_3", "3_4", "3_5", "2_0", "2_1", "2_2", "1",
    ]  # fmt: skip
    assert ids(filled, elements="true", outcome="succeeded") == ["2_0", "2_1", "2_2", "1"]
    assert ids(filled, elements="true", last=7) == ids(filled, elements="true")[:7]


def test_filters(filled: ApiServer) -> None:
    now = datetime.now(UTC)

    assert ids(filled, last=2) == ["3", "2"]
    assert ids(filled, outcome="cancelled") == ["3"]
    assert ids(filled, owner="ana", last=1) == ["3"]
    assert ids(filled, owner="nobody") == []
    assert ids(filled, since=(now - timedelta(hours=1)).isoformat()) == ["3", "2", "1"]
    assert ids(filled, since=(now + timedelta(hours=1)).isoformat()) == []
    third = filled.task("3")["finished_at"]
    assert ids(filled, until=third) == ["2", "1"]
    assert ids(filled, since=third) == ["3"]


def test_by_id(filled: ApiServer) -> None:
    assert ids(filled, id=["1", "3"]) == ["1", "3"]
    assert ids(filled, id=["2", "1"], elements="true") == ["2_0", "2_1", "2_2", "1"]
    assert ids(filled, id=["3_5", "2_1"]) == ["3_5", "2_1"]


@pytest.mark.parametrize(
    ("query", "status", "code", "field"),
    [
        ("id=4", 409, "not_finished", "id"),
        ("id=99", 404, "unknown_task", None),
        ("id=2_9", 404, "unknown_task", None),
        ("id=x", 404, "unknown_task", None),
        ("id=1&last=3", 422, "ids_without_filters", "id"),
        ("since=yesterday", 422, "bad_start_after", "since"),
        ("until=2026-11-01T00:00:00", 422, "time_zone_missing", "until"),
        ("column=nope", 422, "not_a_choice", "column[0]"),
        ("last=0", 422, "too_small", "last"),
        ("format=xml", 422, "not_a_choice", "format"),
    ],
)
def test_refusals(filled: ApiServer, query: str, status: int, code: str, field: str | None) -> None:
    reply = filled.request("GET", f"/tasks/export?{query}")

    assert (reply.status, reply.json["code"], reply.json.get("field")) == (status, code, field)


def test_only_some_columns_and_a_closing_line(filled: ApiServer) -> None:
    query = "format=csv&column=owner&column=id&column=owner&closing=true"
    reply = filled.request("GET", f"/tasks/export?{query}")

    assert reply.body.decode("utf-8-sig") == "owner,id\r\nana,3\r\nana,2\r\nana,1\r\n#rows 3\n"


def test_the_client_takes_the_closing_line_off(filled: ApiServer) -> None:
    with Client(filled.url, filled.token) as client:
        found = client.export(columns=["id"], since=datetime(2020, 1, 1, tzinfo=UTC))
        assert b"".join(found) == b"\xef\xbb\xbfid\r\n3\r\n2\r\n1\r\n"
        assert found.rows == 3
        empty = client.export(owner="nobody", format="jsonl")
        assert (b"".join(empty), empty.rows) == (b"", 0)
        with pytest.raises(Refused, match="has not finished"):
            client.export(["4"])


# ---- cut short


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("many")
    record_many(home, 4 * PAGE + 7)
    return home


def test_many_pages_are_all_there(many: Path) -> None:
    with serving(many) as server, Client(server.url, server.token) as client:
        found = client.export(format="jsonl", columns=["id"])
        told = [json.loads(line)["id"] for line in b"".join(found).splitlines()]

    assert told == [str(id) for id in range(4 * PAGE + 7, 0, -1)]
    assert found.rows == 4 * PAGE + 7


def test_others_are_answered_meanwhile(many: Path) -> None:
    with serving(many) as server, Client(server.url, server.token) as client:
        found = client.export(format="jsonl")
        next(found)
        for _ in range(20):
            assert server.request("GET", "/health").status == 200
        assert sum(len(piece) for piece in found) > 1_000_000
        assert found.rows == 4 * PAGE + 7


def test_a_server_that_ends_in_the_middle_is_noticed(many: Path) -> None:
    with serving(many) as server, Client(server.url, server.token) as client:
        plain = server.connect()
        plain.request("GET", "/api/v1/tasks/export?format=jsonl", headers=server.headers())
        response = plain.getresponse()
        response.read(1000)
        found = client.export(format="jsonl")
        next(found)
        server.stop()
        with pytest.raises(ServerUnreachable) as cut:
            list(found)
        assert cut.value.why == "cut"
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()
        plain.close()


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b"id\r\n1\r\n"],
        [b"id\r\n1\r\n#ro"],
        [b"id\r\n1\r\n#rows 1"],
        [b"id\r\n1,#rows 1\n"],
        [b"id\r\n#rows 1\n1\r\n"],
    ],
)
def test_a_polite_end_without_the_closing_line_is_cut_too(pieces: list[bytes]) -> None:
    """Some proxies end an answer well although the server did not."""
    with pytest.raises(ServerUnreachable):
        list(Export(iter(pieces), "http://x"))


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_the_closing_line_may_come_in_pieces(size: int) -> None:
    data = b"id\r\n" + b"12345678\r\n" * 10 + b"#rows 10\n"
    found = Export(iter([data[at : at + size] for at in range(0, len(data), size)]), "http://x")

    assert b"".join(found) == data[:-9]
    assert found.rows == 10
