"""The table, and what it must never allow."""

from __future__ import annotations

import itertools

import pytest

from stoker.domain.errors import InvalidTransition
from stoker.domain.event import EVENTS, Event, Held, Released, Requeued, StopRequested, Submitted
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import (
    LIVE,
    TRANSITIONS,
    WAITING,
    WAITS_FOR,
    State,
    apply,
    replay,
    submit,
)
from stoker.domain.outcome import End
from tests.helpers.builders import NOON, a_spec, a_task, at, ended, placed, started, submitted

KEY = TaskKey(1)


def test_a_task_runs_to_its_end() -> None:
    task = replay(KEY, [submitted(), placed("a1", 0, 2), started(), ended()])

    assert task.state is State.FINISHED
    assert task.version == 4
    assert (task.attempt, task.attempts, task.node, task.gpu_ids) == ("a1", 1, "node-a", (0, 2))
    assert (task.submitted_at, task.started_at, task.finished_at) == (NOON, at(2), at(3))
    assert task.end is not None
    assert task.end.outcome == "succeeded"


def test_a_held_task_waits_for_a_person() -> None:
    task = submit(KEY, submitted(a_spec(hold=True)))

    assert task.state is State.HELD
    assert apply(task, Released(at=NOON, by="ana")).state is State.QUEUED


def test_finished_never_changes() -> None:
    for event in EVENTS:
        assert (State.FINISHED, event) not in TRANSITIONS


def test_every_state_can_end_and_is_described() -> None:
    reached = {State.HELD, State.QUEUED} | set(TRANSITIONS.values())

    assert reached == set(State) == set(WAITS_FOR)
    assert {State.FINISHED} | WAITING | LIVE == set(State)


@pytest.mark.parametrize("event", [started("old"), ended("old"), Requeued(at=NOON, attempt="old")])
def test_news_of_another_attempt_is_refused(event: object) -> None:
    task = apply(a_task(), placed("a1"))

    with pytest.raises(InvalidTransition):
        apply(task, event)  # type: ignore[arg-type]


def test_a_stopped_task_never_comes_back() -> None:
    stopping = replay(KEY, [submitted(), placed(), started(), StopRequested(at=at(3), by="ana")])

    with pytest.raises(InvalidTransition):
        apply(stopping, Requeued(at=at(4), attempt="a1"))
    with pytest.raises(InvalidTransition):
        apply(
            stopping, Requeued(at=at(4), attempt="a1", end=End(outcome="lost", reason="rebooted"))
        )


def test_a_requeue_brings_it_back_without_its_cards() -> None:
    stop = StopRequested(at=at(3), by="ana", cause="requeue")
    task = replay(
        KEY, [submitted(), placed("a1", 0), started(), stop, Requeued(at=at(4), attempt="a1")]
    )

    assert task.state is State.QUEUED
    assert (task.node, task.gpu_ids, task.started_at, task.stop_cause) == (None, (), None, None)
    assert apply(task, placed("a2", 1)).attempts == 2


def test_who_cancelled_is_kept() -> None:
    task = replay(
        KEY,
        [submitted(), placed(), started(), StopRequested(at=at(3), by="ben"),
         ended(outcome="cancelled", reason="cancelled")],
    )  # fmt: skip

    assert task.stopped_by == "ben"


def test_what_the_table_does_not_name_is_refused_with_its_story() -> None:
    queued = a_task()
    samples: dict[str, Event] = {
        "Placed": placed(), "Started": started(), "Ended": ended(None),
        "Held": Held(at=NOON, by="a"), "Released": Released(at=NOON, by="a"),
        "StopRequested": StopRequested(at=NOON, by="a"),
        "Requeued": Requeued(at=NOON, attempt="a1"), "Submitted": submitted(),
    }  # fmt: skip
    for event in EVENTS:
        if (State.QUEUED, event) not in TRANSITIONS:
            with pytest.raises(InvalidTransition) as caught:
                apply(queued, samples[event.__name__])
            assert caught.value.values["task"] == "1"


def test_replay_needs_a_beginning() -> None:
    with pytest.raises(InvalidTransition):
        replay(KEY, [])
    with pytest.raises(InvalidTransition):
        replay(KEY, [placed()])


def test_submitted_is_only_a_beginning() -> None:
    for state, event in itertools.product(State, (Submitted,)):
        assert (state, event) not in TRANSITIONS
