"""Any history the table allows keeps the promises of a task's life."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.event import (
    Ended,
    Event,
    Held,
    Placed,
    Released,
    Requeued,
    Started,
    StopRequested,
)
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import LIVE, TRANSITIONS, State, apply, replay, submit
from stoker.domain.outcome import End
from tests.helpers.builders import LIFE, NOON, a_spec, an_allocation, submitted

KEY = TaskKey(1)
LOST = End(outcome="lost", reason="rebooted")


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """A random walk along the table."""
    first = submitted(a_spec(hold=draw(st.booleans())))
    task = submit(KEY, first)
    events: list[Event] = [first]
    for number in range(draw(st.integers(0, 25))):
        kinds = [
            event
            for (state, event) in TRANSITIONS
            if state is task.state
            and not (event is Requeued and state is State.STOPPING and task.stop_cause != "requeue")
        ]
        if not kinds:
            break
        kind = draw(st.sampled_from(kinds))
        attempt = task.attempt if task.state in LIVE else None
        event: Event
        if kind is Placed:
            event = Placed(
                at=NOON, attempt=f"a{number}", allocation=an_allocation("node-a", 0),
                incarnation=LIFE, launch_number=number, epoch=1,
            )  # fmt: skip
        elif kind is Started:
            event = Started(at=NOON, attempt=attempt or "")
        elif kind is StopRequested:
            cause = draw(st.sampled_from(["cancel", "requeue"]))
            event = StopRequested(at=NOON, by="ana", cause=cause)
        elif kind is Requeued:
            end = draw(st.sampled_from([None, LOST]))
            event = Requeued(at=NOON, attempt=attempt or "", end=end)
        elif kind is Ended:
            event = Ended(at=NOON, attempt=attempt, end=LOST)
        elif kind is Held:
            event = Held(at=NOON, by="ana")
        else:
            event = Released(at=NOON, by="ana")
        task = apply(task, event)
        events.append(event)
    return events


@given(histories())
def test_replay_is_the_same_as_living_it(events: list[Event]) -> None:
    task = replay(KEY, events)

    assert task.version == len(events)
    assert task.attempts == sum(isinstance(event, Placed) for event in events)
    assert (task.end is not None) == (task.state is State.FINISHED)
    assert replay(KEY, events) == task


@given(histories())
def test_each_attempt_starts_at_most_once_and_only_the_current_one(events: list[Event]) -> None:
    current, begun = None, set()
    for event in events:
        if isinstance(event, Placed):
            current = event.attempt
        if isinstance(event, Started):
            assert event.attempt == current
            assert event.attempt not in begun
            begun.add(event.attempt)


@given(histories())
def test_a_person_s_stop_is_final(events: list[Event]) -> None:
    stopped = False
    for event in events:
        assert not (stopped and isinstance(event, Requeued | Placed | Started))
        if isinstance(event, StopRequested):
            stopped = event.cause == "cancel"


@given(histories())
def test_cards_are_held_exactly_while_an_attempt_lives(events: list[Event]) -> None:
    task = replay(KEY, events)

    if task.state in LIVE:
        assert task.gpu_ids == (0,)
        assert task.attempt is not None
    if task.state in (State.QUEUED, State.HELD):
        assert task.gpu_ids == ()
        assert task.node is None
