"""Instants and rows: what is stored comes back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.event import EVENTS, Event, Held, Released, Requeued, StopRequested
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import apply
from stoker.domain.outcome import End
from stoker.store import codec
from stoker.store.tables import attempts, tasks
from tests.helpers.builders import a_spec, a_task, at, ended, placed, started, submitted


@given(st.integers(0, 7_258_118_400_000_000))
def test_an_instant_until_2200_is_exact_to_the_microsecond(us: int) -> None:
    moment = codec.EPOCH + timedelta(microseconds=us)

    assert codec.from_us(us) == moment
    assert codec.to_us(moment) == us


def test_a_row_has_a_value_for_each_column() -> None:
    task = a_task()

    assert len(codec.row_of_task(task, 1)) == len(tasks.columns) == codec.TASK_WIDTH - 1
    assert len(codec.row_of_attempt(TaskKey(1), 1, placed())) == len(attempts.columns)


def test_a_task_survives_its_row() -> None:
    task = apply(apply(apply(a_task(gpus=2), placed("a1", 0, 3)), started()), ended())

    assert codec.task_of_row(codec.row_of_task(task, 1), task.spec) == task


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
]


@pytest.mark.parametrize("event", SOME, ids=lambda event: type(event).__name__)
def test_an_event_survives_its_columns(event: Event) -> None:
    spec = codec.encode(event.spec) if hasattr(event, "spec") else None
    body = codec.body_of(event)

    assert codec.event_of(type(event).__name__, codec.to_us(event.at), body, spec) == event
    assert '"spec"' not in body


def test_every_kind_of_event_is_among_them() -> None:
    assert {type(event) for event in SOME} == set(EVENTS)
