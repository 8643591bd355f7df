"""Rows become answers: plain ones untouched, arrays with their counts, reasons in words."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from stoker.api.views import listed, why_view
from stoker.domain.key import TaskKey
from stoker.domain.node import Allocation, HeldGpu
from stoker.scheduler.explain import Estimate, Explanation, Holder, Place, Suggestion
from stoker.scheduler.fit import Reason
from stoker.wire import ArrayCounts, TaskView

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ROW = {
    "id": "17", "owner": "ana", "state": "QUEUED", "version": 1,
    "submitted_at": "2030-01-01T00:00:00Z", "attempts": 0, "started_at": None,
    "finished_at": None, "node": None, "gpu_ids": [], "outcome": None, "reason": None,
    "exit_code": None, "signal": None, "stopped_by": None, "origin": None, "array": None,
}  # fmt: skip
SPEC = '{"command":"x"}'


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def shown(asked: list[int] | None = None, counts: ArrayCounts | None = None, **row: Any) -> Any:
    def count(id: int) -> ArrayCounts | None:
        if asked is not None:
            asked.append(id)
        return counts

    (view,) = json.loads(
        msgspec.json.encode(listed([(compact(ROW | row), None, SPEC)], "en", count))
    )
    msgspec.convert(view, TaskView, strict=False)
    return view


def test_a_plain_row_is_passed_on_as_it_is() -> None:
    asked: list[int] = []
    assert shown(asked, origin="3") == ROW | {
        "origin": "3", "sweep": None, "message": None, "spec": {"command": "x"},
    }  # fmt: skip
    assert asked == []


def test_an_element_of_a_sweep_keeps_its_values() -> None:
    assert shown(id="17_3", sweep={"lr": '"sweep":null'})["sweep"] == {"lr": '"sweep":null'}
    assert shown(owner='"sweep":')["sweep"] is None


def test_an_array_that_has_not_ended_is_counted_now() -> None:
    asked: list[int] = []
    counts = ArrayCounts(size=10, waiting=3, live=4, succeeded=3)
    view = shown(asked, counts, array={"size": 10, "counts": None})
    assert view["array"] == msgspec.to_builtins(counts)
    assert asked == [17]


def test_an_array_that_has_ended_knows_its_counts() -> None:
    asked: list[int] = []
    kept = {"size": 10, "counts": {"succeeded": 7, "failed": 3}}
    view = shown(asked, None, state="FINISHED", array=kept)
    assert view["array"] == msgspec.to_builtins(ArrayCounts(size=10, succeeded=7, failed=3))
    assert asked == []


def test_an_array_that_ends_at_this_moment_is_no_fault() -> None:
    view = shown([], None, array={"size": 10, "counts": None})
    assert view["array"] == msgspec.to_builtins(ArrayCounts(size=10))


@pytest.mark.parametrize(
    "name",
    ['"array":{', '","array":{"size":1,"counts":null}', "\\", '\\"array":{"size":9', "{}}", '"'],
)
def test_nobody_can_be_called_an_array(name: str) -> None:
    asked: list[int] = []
    assert shown(asked, owner=name, node=name)["owner"] == name
    assert asked == []
    counts = ArrayCounts(size=2, live=2)
    view = shown(asked, counts, owner=name, array={"size": 2, "counts": None})
    assert (view["owner"], view["array"]["live"]) == (name, 2)


def test_an_explanation_in_words() -> None:
    told = why_view(
        Explanation(
            starts=None,
            reasons=(
                Reason("after_pending", {"task": TaskKey(12, 3), "when": "ok"}),
                Reason("not_before", {"at": NOW}),
            ),
            holders=(Holder(TaskKey(4), "bob", "a", (0, 2), NOW),),
            place=Place(3, False, 9),
            estimate=Estimate(NOW, Reason("estimate_limits", {})),
            suggestions=(Suggestion("try_fewer_gpus", {"gpus": 1}, {"gpus": 1}),),
        ),
        "en",
    )
    answer = json.loads(msgspec.json.encode(told))
    assert answer["reasons"][0] == {
        "code": "after_pending",
        "message": "Task 12_3 has to succeed first.",
        "values": {"task": "12_3", "when": "ok"},
    }
    assert answer["reasons"][1]["message"].count("2030-01-01T00:00:00Z") == 1
    assert answer["holders"] == [
        {
            "task": "4",
            "owner": "bob",
            "node": "a",
            "gpu_ids": [0, 2],
            "ends": "2030-01-01T00:00:00Z",
        }
    ]
    assert answer["place"] == {"ahead": 3, "more": False, "waiting": 9}
    assert answer["estimate"]["basis"]["code"] == "estimate_limits"
    assert answer["suggestions"][0]["options"] == {"gpus": 1}
    assert answer["starts"] is None


def test_where_it_starts() -> None:
    parts = (Allocation(node="a", gpus=(HeldGpu(1, "u"),)), Allocation(node="b"))
    told = why_view(Explanation(starts=parts, reasons=()), "en")
    assert told.starts is not None
    assert [(part.node, part.gpu_ids) for part in told.starts] == [("a", (1,)), ("b", ())]
