"""Finished tasks as a table: nothing is lost between a task and its cell, nothing becomes a formula."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.table import (
    BOM,
    COLUMNS,
    FORMULA,
    Item,
    csv_head,
    csv_rows,
    item_of,
    json_lines,
    never_began,
)
from stoker.domain.event import Ended
from stoker.domain.lifecycle import Task
from stoker.domain.outcome import End
from stoker.store.codec import encode, shown, to_us, why
from stoker.store.finished import FinishedRow
from tests.helpers.builders import a_spec, at, ended, new, placed, started

DOCS = Path(__file__).resolve().parents[3] / "docs" / "howto" / "export.md"


def item(task: Task, ran_s: float = 0, held_s: float = 0) -> Item:
    assert task.finished_at is not None
    return item_of(
        FinishedRow(
            task.key,
            to_us(task.finished_at),
            shown(task),
            why(task),
            encode(task.end),
            encode(task.spec),
            int(ran_s * 1e6),
            int(held_s * 1e6),
        )
    )


def a_finished(**fields: Any) -> Item:
    return item(new(7, a_spec(**fields), placed("a1", 0, 2), started(), ended()).task, 1.5, 3.0)


def read(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def table_of(*items: Item) -> list[dict[str, str]]:
    return read(csv_head(COLUMNS) + csv_rows(items, COLUMNS, "en"))


def test_every_column_of_a_task() -> None:
    (row,) = table_of(a_finished(name="训练, 一", gpus=2, command=("python", "a b.py"), queue="q"))

    assert row == {
        "id": "7", "name": "训练, 一", "owner": "ana", "state": "FINISHED", "outcome": "succeeded",
        "reason": "exit_zero", "exit_code": "0", "submitted": "2026-11-15T12:00:00.000Z",
        "started": "2026-11-15T12:00:02.000Z", "finished": "2026-11-15T12:00:03.000Z",
        "waited_s": "2", "ran_s": "1.5", "node": "node-a", "gpus": "2", "gpu_ids": "0 2",
        "gpu_hours": "0.000833", "queue": "q", "command": "python 'a b.py'", "workdir": "/tmp",
        "attempts": "1", "origin": "", "signal": "", "stopped_by": "", "message": "It ended well.",
        "cpu_s": "", "max_rss_mib": "", "description": "", "elements": "", "succeeded": "",
        "failed": "", "cancelled": "", "timed_out": "", "lost": "",
    }  # fmt: skip


def test_json_lines_keep_types() -> None:
    told = json.loads(json_lines([a_finished(gpus=2)], COLUMNS, "zh"))

    assert list(told) == list(COLUMNS)
    assert (told["exit_code"], told["gpu_ids"], told["origin"]) == (0, [0, 2], None)
    assert told["message"] == "运行完成。"


def test_an_array_has_counts_and_its_elements_may_never_have_begun() -> None:
    end = End(outcome="cancelled", reason="cancelled")
    counts = {"succeeded": 2, "cancelled": 3}
    over = Ended(at=at(9), end=end, by="bob", counts=counts)
    array = item(new(3, a_spec(array="0-4"), over).task)

    whole, element = table_of(array, never_began(array, 3, 4))

    assert (whole["elements"], whole["succeeded"], whole["cancelled"], whole["lost"]) == (
        "5", "2", "3", "0",
    )  # fmt: skip
    assert (whole["waited_s"], whole["attempts"]) == ("", "")
    assert (element["id"], element["outcome"], element["elements"]) == ("3_4", "cancelled", "")
    assert (element["message"], element["ran_s"]) == (whole["message"], "0")


@pytest.mark.parametrize("first", FORMULA)
def test_nothing_becomes_a_formula(first: str) -> None:
    typed = f"{first}cmd|' /C calc'!A1"
    (row,) = table_of(a_finished(name=typed, description=typed, command=typed, queue=typed))

    assert [row[name] for name in ("name", "description", "command", "queue")] == [f"'{typed}"] * 4


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_any_text_comes_back(text: str) -> None:
    items = [a_finished(name="first"), a_finished(name=text), a_finished(name="last")]

    rows = table_of(*items)

    assert [row["name"].removeprefix("'") for row in rows] == [
        "first", text.removeprefix("'"), "last",
    ]  # fmt: skip
    lines = json_lines(items, ("name",), "en").split(b"\n")
    assert json.loads(lines[1]) == {"name": text}
    assert len(lines) == 4


def test_the_file_begins_with_the_mark_of_utf8_and_the_names_asked_for() -> None:
    assert csv_head(("name", "id")) == BOM + b"name,id\r\n"
    assert csv_rows([a_finished(name="x")], ("name", "id"), "en") == b"x,7\r\n"


def test_the_docs_have_every_column_in_order() -> None:
    named = re.findall(r"^\| `([a-z_]+)` \|", DOCS.read_text("utf-8"), re.MULTILINE)

    assert tuple(named) == COLUMNS
