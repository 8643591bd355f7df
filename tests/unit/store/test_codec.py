"""Instants and rows: what is stored comes back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.event import (
    EVENTS,
    Deleted,
    Edited,
    Ended,
    Event,
    Held,
    LimitExtended,
    Moved,
    Released,
    Requeued,
    StopRequested,
    Submitted,
    Waived,
)
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import Task, apply, unfold
from stoker.domain.outcome import End
from stoker.store import codec
from stoker.store.tables import attempts, tasks
from tests.helpers.builders import (
    a_spec,
    a_task,
    an_element,
    at,
    ended,
    placed,
    started,
    submitted,
)


def replay_on(task: Task, *events: Event) -> Task:
    for event in events:
        task = apply(task, event)
    return task


@given(st.integers(0, 7_258_118_400_000_000))
def test_an_instant_until_2200_is_exact_to_the_microsecond(us: int) -> None:
    moment = codec.EPOCH + timedelta(microseconds=us)

    assert codec.from_us(us) == moment
    assert codec.to_us(moment) == us


def test_a_row_has_a_value_for_each_column() -> None:
    task = a_task()

    assert len(codec.row_of_task(task, 1)) == len(tasks.columns) == codec.TASK_WIDTH - 1
    assert len(codec.row_of_attempt(TaskKey(1), 1, placed())) == len(attempts.columns)


CANCELLED = End(outcome="cancelled", reason="cancelled")
LIVES: dict[str, Task] = {
    "finished": replay_on(a_task(gpus=2), placed("a1", 0, 3), started(), ended()),
    "paused": replay_on(
        a_task(),
        placed(),
        Requeued(at=at(2), attempt="a1", not_before=at(9.000001), retry=True),
        Waived(at=at(3), by="ana"),
    ),
    "array": a_task(17, array="0-9,12"),
    "ended array": replay_on(
        a_task(17, array="0-9"), Ended(at=at(3), end=CANCELLED, counts={"cancelled": 10})
    ),
    "element": an_element(a_task(17, array="0-9"), 3, placed())[0],
    "resubmitted": structs.replace(a_task(), origin="12"),
}


@pytest.mark.parametrize("task", LIVES.values(), ids=LIVES)
def test_a_task_survives_its_row(task: Task) -> None:
    assert codec.task_of_row(codec.row_of_task(task, 1), task.spec) == task


@pytest.mark.parametrize(
    ("life", "array"),
    [
        ("finished", None),
        ("element", None),
        ("array", {"size": 11, "counts": None}),
        ("ended array", {"size": 10, "counts": {"cancelled": 10}}),
    ],
)
def test_an_array_shows_its_size_and_how_its_elements_ended(life: str, array: Any) -> None:
    assert msgspec.json.decode(codec.shown(LIVES[life]))["array"] == array


def test_a_row_shows_its_origin() -> None:
    assert msgspec.json.decode(codec.shown(LIVES["resubmitted"]))["origin"] == "12"


@pytest.mark.parametrize("hold", [False, True])
def test_a_new_task_is_shown_as_any_other(hold: bool) -> None:
    task = a_task(12, hold=hold)

    quick = codec.shown_at_first(task.id, task.owner, task.state, task.submitted_at)

    assert quick == codec.shown(task)


SOME: list[Event] = [
    submitted(a_spec(env={"A": "ä"})),
    Held(at=at(1), by="ana"),
    Released(at=at(1), by="ana"),
    placed("a1", 0, 1),
    started(),
    StopRequested(at=at(2), by="bob", cause="requeue"),
    Requeued(at=at(3), attempt="a1"),
    Requeued(at=at(3), attempt="a1", end=End(outcome="lost", reason="rebooted", detail="\0")),
    ended(),
    ended(None),
    Submitted(at=at(1), owner="ana", spec=a_spec(), position=2**40, origin="17_3"),
    unfold(a_task(17, array="0-3", hold=True), 3, at(1)),
    Edited(at=at(1), by="ana", spec=a_spec(name="x")),
    Moved(at=at(1), by="ana", position=-(2**40)),
    LimitExtended(at=at(1), by="ana", time_limit_s=7200),
    LimitExtended(at=at(1), by="ana", time_limit_s=None),
    Waived(at=at(1), by="ana"),
    Requeued(at=at(3), attempt="a1", not_before=at(9.000001), retry=True),
    Ended(at=at(3), end=CANCELLED, counts={"cancelled": 10}),
    Deleted(at=at(1), by="ana"),
]


@pytest.mark.parametrize("event", SOME, ids=lambda event: type(event).__name__)
def test_an_event_survives_its_columns(event: Event) -> None:
    spec = codec.encode(event.spec) if hasattr(event, "spec") else None
    body = codec.body_of(event)

    assert codec.event_of(type(event).__name__, codec.to_us(event.at), body, spec) == event
    assert '"spec"' not in body


def test_every_kind_of_event_is_among_them() -> None:
    assert {type(event) for event in SOME} == set(EVENTS)
