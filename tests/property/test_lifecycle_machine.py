"""Any history the table allows keeps the promises of a task's life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.event import (
    Edited,
    Ended,
    Event,
    Held,
    LimitExtended,
    Moved,
    Placed,
    Released,
    Requeued,
    Started,
    StopRequested,
    Submitted,
    Unfolded,
    Waived,
)
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import (
    LIVE,
    TRANSITIONS,
    WAITING,
    State,
    Task,
    apply,
    begin,
    replay,
    unfold,
)
from stoker.domain.outcome import End
from tests.helpers.builders import LIFE, NOON, a_spec, a_task, an_allocation, at, submitted

LOST = End(outcome="lost", reason="rebooted")
AFTERS = st.sampled_from([(), ("7:ok",), ("8",)])
SWEEP: dict[str, Any] = {"sweep": {"lr": ("1", "2"), "seed": ("0", "1", "2", "3", "4")}}
ELEMENTS: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{"array": "0-9"}, SWEEP])
"""Ten elements, said in two ways."""


def plain(draw: st.DrawFn) -> tuple[TaskKey, Submitted]:
    spec = a_spec(hold=draw(st.booleans()), after=draw(AFTERS))
    return TaskKey(1), submitted(spec)


def an_array(draw: st.DrawFn) -> tuple[TaskKey, Submitted]:
    spec = a_spec(hold=draw(st.booleans()), after=draw(AFTERS), **draw(ELEMENTS))
    return TaskKey(1), submitted(spec)


def an_element(draw: st.DrawFn) -> tuple[TaskKey, Unfolded]:
    array = a_task(1, hold=draw(st.booleans()), **draw(ELEMENTS))
    return TaskKey(1, 3), unfold(array, 3, at(1))


def possible(task: Task, kind: type[Event]) -> bool:
    """What the table alone does not say."""
    if kind is Requeued and task.state is State.STOPPING:
        return task.stop_cause == "requeue" and not task.is_array
    if kind is Placed:
        return not task.is_array
    if kind is StopRequested and task.state in WAITING:
        return task.is_array
    if kind is StopRequested and task.state is State.STOPPING:
        return task.stop_cause == "requeue"
    if kind is LimitExtended and task.state is State.STOPPING:
        return task.stop_cause == "requeue"
    return True


def an_event(draw: st.DrawFn, task: Task, kind: type[Event], number: int) -> Event:
    attempt = task.attempt if task.state in LIVE else None
    makers: dict[type[Event], Callable[[], Event]] = {
        Placed: lambda: Placed(
            at=NOON, attempt=f"a{number}", allocation=an_allocation("node-a", 0),
            incarnation=LIFE, launch_number=number, epoch=1,
        ),
        Started: lambda: Started(at=NOON, attempt=attempt or ""),
        StopRequested: lambda: StopRequested(
            at=NOON, by="ana",
            cause=draw(st.sampled_from(["cancel"] if task.stop_cause else ["cancel", "requeue"])),
        ),
        Requeued: lambda: Requeued(
            at=NOON, attempt=attempt or "", end=draw(st.sampled_from([None, LOST])),
            not_before=draw(st.sampled_from([None, at(60)])), retry=draw(st.booleans()),
        ),
        Ended: lambda: Ended(
            at=NOON, attempt=attempt, end=LOST, counts={"lost": 10} if task.is_array else None
        ),
        Held: lambda: Held(at=NOON, by="ana"),
        Released: lambda: Released(at=NOON, by="ana"),
        Edited: lambda: Edited(
            at=NOON,
            by="ana",
            spec=structs.replace(task.spec, name=f"n{number}", after=draw(AFTERS)),
        ),
        Moved: lambda: Moved(at=NOON, by="ana", position=draw(st.integers(-5, 5))),
        LimitExtended: lambda: LimitExtended(
            at=NOON, by="ana", time_limit_s=draw(st.sampled_from([None, 60, 3600]))
        ),
        Waived: lambda: Waived(at=NOON, by="ana"),
    }  # fmt: skip
    return makers[kind]()


@st.composite
def histories(draw: st.DrawFn) -> tuple[TaskKey, list[Event]]:
    """A random walk along the table, of any kind of task."""
    beginnings: list[Callable[[st.DrawFn], tuple[TaskKey, Submitted | Unfolded]]] = [
        plain,
        an_array,
        an_element,
    ]
    key, first = draw(st.sampled_from(beginnings))(draw)
    task = begin(key, first)
    events: list[Event] = [first]
    for number in range(draw(st.integers(0, 25))):
        kinds = [
            kind for state, kind in TRANSITIONS if state is task.state and possible(task, kind)
        ]
        if not kinds:
            break
        event = an_event(draw, task, draw(st.sampled_from(kinds)), number)
        task = apply(task, event)
        events.append(event)
    return key, events


def lives(key: TaskKey, events: list[Event]) -> list[Task]:
    """The task after each of its events."""
    return [replay(key, events[:count]) for count in range(1, len(events) + 1)]


@given(histories())
def test_replay_is_the_same_as_living_it(life: tuple[TaskKey, list[Event]]) -> None:
    key, events = life
    task = replay(key, events)

    assert task.version == len(events)
    assert task.attempts == sum(isinstance(event, Placed) for event in events)
    assert task.retried == sum(isinstance(event, Requeued) and event.retry for event in events)
    assert (task.end is not None) == (task.state is State.FINISHED)
    assert replay(key, events) == task


@given(histories())
def test_each_attempt_starts_at_most_once_and_only_the_current_one(
    life: tuple[TaskKey, list[Event]],
) -> None:
    current, begun = None, set()
    for event in life[1]:
        if isinstance(event, Placed):
            current = event.attempt
        if isinstance(event, Started):
            assert event.attempt == current
            assert event.attempt not in begun
            begun.add(event.attempt)


@given(histories())
def test_a_person_s_stop_is_final(life: tuple[TaskKey, list[Event]]) -> None:
    stopped = False
    for event in life[1]:
        assert not (stopped and isinstance(event, Requeued | Placed | Started))
        if isinstance(event, StopRequested):
            stopped = event.cause == "cancel"


@given(histories())
def test_cards_are_held_exactly_while_an_attempt_lives(life: tuple[TaskKey, list[Event]]) -> None:
    task = replay(*life)

    if task.state in LIVE and not task.is_array:
        assert task.gpu_ids == (0,)
        assert task.attempt is not None
    if task.state in (State.QUEUED, State.HELD) or task.is_array:
        assert task.gpu_ids == ()
        assert task.node is None


@given(histories())
def test_an_array_has_no_attempt_and_an_element_is_no_array(
    life: tuple[TaskKey, list[Event]],
) -> None:
    for task in lives(*life):
        if task.is_array:
            assert (task.attempt, task.attempts, task.started_at) == (None, 0, None)
        if task.element >= 0:
            assert not task.is_array


@given(histories())
def test_waiting_is_said_only_of_what_waits(life: tuple[TaskKey, list[Event]]) -> None:
    """A pause, and the count of attempts that never ran, are those since it last ran."""
    _, events = life
    for task, event in zip(lives(*life), events, strict=True):
        if task.state in LIVE - {State.STOPPING}:
            assert task.not_before is None
        if isinstance(event, Started | Edited):
            assert task.never_ran == 0
        if isinstance(event, Requeued):
            assert task.not_before == event.not_before
            assert (task.never_ran > 0) == (event.end is None)


@given(histories())
def test_only_edits_change_the_spec_and_only_moves_the_position(
    life: tuple[TaskKey, list[Event]],
) -> None:
    _, events = life
    steps = lives(*life)
    for before, after, event in zip(steps, steps[1:], events[1:], strict=False):
        assert (before.spec == after.spec) or isinstance(event, Edited | LimitExtended)
        if isinstance(event, LimitExtended):
            limited = structs.replace(before.spec, time_limit_s=event.time_limit_s)
            assert after.spec == limited
        assert (before.position == after.position) or isinstance(event, Moved)
        assert (before.anyway == after.anyway) or isinstance(event, Edited | Waived)
        if isinstance(event, Edited | Moved | Waived | LimitExtended):
            assert after.state is before.state
