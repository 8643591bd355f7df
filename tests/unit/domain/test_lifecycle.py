"""The table, and what it must never allow."""

from __future__ import annotations

import itertools

import pytest

from stoker.domain.errors import InvalidTransition
from stoker.domain.event import (
    EVENTS,
    Deleted,
    Edited,
    Ended,
    Event,
    Held,
    Moved,
    Released,
    Requeued,
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
    WAITS_FOR,
    State,
    Task,
    apply,
    begin,
    replay,
    unfold,
)
from stoker.domain.outcome import End
from tests.helpers.builders import (
    NOON,
    a_spec,
    a_task,
    an_element,
    at,
    ended,
    placed,
    started,
    submitted,
)

KEY = TaskKey(1)
LOST = End(outcome="lost", reason="rebooted")
CANCELLED = End(outcome="cancelled", reason="cancelled")


def test_a_task_runs_to_its_end() -> None:
    task = replay(KEY, [submitted(), placed("a1", 0, 2), started(), ended()])

    assert task.state is State.FINISHED
    assert task.version == 4
    assert (task.attempt, task.attempts, task.node, task.gpu_ids) == ("a1", 1, "node-a", (0, 2))
    assert (task.submitted_at, task.started_at, task.finished_at) == (NOON, at(2), at(3))
    assert task.end is not None
    assert task.end.outcome == "succeeded"


def test_a_held_task_waits_for_a_person() -> None:
    task = begin(KEY, submitted(a_spec(hold=True)))

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
        "Unfolded": unfold(a_task(2, array="0-3"), 0, NOON), "Deleted": Deleted(at=NOON, by="a"),
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


def test_beginnings_and_what_is_left_of_a_task_are_never_applied() -> None:
    for state, event in itertools.product(State, (Submitted, Unfolded, Deleted)):
        assert (state, event) not in TRANSITIONS


# ---- waiting


@pytest.mark.parametrize("hold", [False, True])
def test_an_edit_replaces_the_spec_and_changes_no_state(hold: bool) -> None:
    task = a_task(name="old", hold=hold)

    edited = apply(task, Edited(at=at(1), by="ana", spec=a_spec(name="new", hold=not hold)))

    assert (edited.state, edited.version) == (task.state, 2)
    assert (edited.spec.name, edited.position) == ("new", task.position)


@pytest.mark.parametrize("hold", [False, True])
def test_a_move_changes_the_position_only(hold: bool) -> None:
    task = a_task(hold=hold)

    moved = apply(task, Moved(at=at(1), by="ana", position=-5))

    assert (moved.state, moved.position, moved.spec) == (task.state, -5, task.spec)


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize(("after", "anyway"), [(("7:ok",), True), (("8:ok",), False), ((), False)])
def test_what_was_waived_holds_until_it_waits_for_something_else(
    hold: bool, after: tuple[str, ...], anyway: bool
) -> None:
    task = apply(a_task(after=("7:ok",), hold=hold), Waived(at=at(1), by="ana"))
    assert task.anyway

    edited = apply(task, Edited(at=at(2), by="ana", spec=a_spec(after=after)))

    assert edited.anyway is anyway


def test_a_task_that_keeps_not_running_is_counted_until_it_runs() -> None:
    task = a_task()
    for number in (1, 2, 3):
        task = apply(task, placed(f"a{number}"))
        task = apply(task, Requeued(at=at(2), attempt=f"a{number}", not_before=at(9)))
        assert (task.never_ran, task.retried, task.not_before) == (number, 0, at(9))

    again = apply(task, placed("a4"))
    assert (again.not_before, again.never_ran) == (None, 3)
    assert apply(again, started("a4")).never_ran == 0
    assert apply(again, Requeued(at=at(3), attempt="a4", end=LOST)).never_ran == 0


def test_retries_are_counted() -> None:
    task = a_task()
    for number, retry in ((1, True), (2, False), (3, True)):
        task = replay_on(task, placed(f"a{number}"), started(f"a{number}"))
        task = apply(task, Requeued(at=at(4), attempt=f"a{number}", end=LOST, retry=retry))

    assert (task.retried, task.attempts, task.never_ran) == (2, 3, 0)


@pytest.mark.parametrize(
    "event",
    [Edited(at=at(3), by="ana", spec=a_spec(name="x")), Released(at=at(3), by="ana")],
    ids=["edited", "released"],
)
def test_a_person_s_word_ends_the_pause(event: Event) -> None:
    task = replay_on(a_task(), placed("a1"), Requeued(at=at(2), attempt="a1", not_before=at(9)))
    if isinstance(event, Released):
        task = apply(task, Held(at=at(2), by="ana"))

    assert task.not_before == at(9)
    assert apply(task, event).not_before is None


def test_only_an_edit_forgets_how_often_it_never_ran() -> None:
    task = replay_on(a_task(), placed("a1"), Requeued(at=at(2), attempt="a1"))

    assert apply(task, Moved(at=at(3), by="ana", position=1)).never_ran == 1
    assert apply(task, Edited(at=at(3), by="ana", spec=a_spec())).never_ran == 0


def test_a_resubmitted_task_remembers_its_origin() -> None:
    first = Submitted(at=NOON, owner="ana", spec=a_spec(), position=1, origin="17_3")

    assert begin(KEY, first).origin == "17_3"


# ---- arrays


def test_an_array_is_never_placed() -> None:
    with pytest.raises(InvalidTransition):
        apply(a_task(array="0-3"), placed())


@pytest.mark.parametrize("hold", [False, True])
def test_only_an_array_is_stopped_while_it_waits(hold: bool) -> None:
    stop = StopRequested(at=at(1), by="ana")
    with pytest.raises(InvalidTransition):
        apply(a_task(hold=hold), stop)

    stopping = apply(a_task(array="0-3", hold=hold), stop)

    assert (stopping.state, stopping.stopped_by) == (State.STOPPING, "ana")
    done = apply(stopping, Ended(at=at(2), end=CANCELLED, counts={"cancelled": 4}))
    assert (done.state, done.counts, done.stopped_by) == (State.FINISHED, {"cancelled": 4}, "ana")


def test_a_stopping_array_can_only_end() -> None:
    stopping = replay_on(a_task(array="0-3"), StopRequested(at=at(1), by="ana", cause="requeue"))
    events: list[Event] = [
        Requeued(at=at(2), attempt=""), Released(at=at(2), by="a"), Held(at=at(2), by="a"),
        Edited(at=at(2), by="a", spec=a_spec()), ended("a1"),
    ]  # fmt: skip
    for event in events:
        with pytest.raises(InvalidTransition):
            apply(stopping, event)


def test_an_array_without_anything_left_ends_where_it_is() -> None:
    end = End(outcome="failed", reason="elements_failed", detail="1 of 2")

    done = apply(
        a_task(array="0-1"), Ended(at=at(3), end=end, counts={"succeeded": 1, "failed": 1})
    )

    assert (done.state, done.attempt) == (State.FINISHED, None)


def test_an_element_begins_as_its_array_waits() -> None:
    array = replay_on(
        a_task(17, array="0-3", name="n", after=("7:ok",)),
        Waived(at=at(1), by="ana"),
        Moved(at=at(1), by="ana", position=99),
    )

    task, _ = an_element(array, 3)

    assert str(task.key) == "17_3"
    assert (task.state, task.version, task.owner) == (State.QUEUED, 1, "ana")
    assert (task.spec, task.position, task.submitted_at) == (array.spec, 99, NOON)
    assert task.anyway
    assert (array.is_array, task.is_array, a_task().is_array) == (True, False, False)


def test_an_element_of_a_held_array_is_held() -> None:
    task, _ = an_element(a_task(17, array="0-3", hold=True), 0)
    assert task.state is State.HELD

    released = apply(a_task(17, array="0-3", hold=True), Released(at=at(1), by="ana"))
    task, _ = an_element(released, 0)
    assert task.state is State.QUEUED


@pytest.mark.parametrize(
    ("array", "element"),
    [
        (a_task(17, array="0-3"), 4),
        (a_task(17, array="0-3"), -1),
        (a_task(17), 0),
        (apply(a_task(17, array="0-3"), StopRequested(at=at(1), by="ana")), 0),
        (apply(a_task(17, array="0-3"), Ended(at=at(1), end=CANCELLED)), 0),
    ],
    ids=["no such element", "the array itself", "no array", "stopping", "ended"],
)
def test_what_cannot_be_unfolded(array: Task, element: int) -> None:
    with pytest.raises(InvalidTransition):
        unfold(array, element, at(1))


def test_elements_are_unfolded_and_others_submitted() -> None:
    with pytest.raises(InvalidTransition):
        begin(TaskKey(17), unfold(a_task(17, array="0-3"), 0, NOON))
    with pytest.raises(InvalidTransition):
        begin(TaskKey(17, 0), submitted())


def replay_on(task: Task, *events: Event) -> Task:
    for event in events:
        task = apply(task, event)
    return task
