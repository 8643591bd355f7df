"""What the API reads: whole, ready for the wire, from one moment."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.domain.event import Edited, Ended, StopRequested
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.outcome import End
from stoker.domain.task import TaskSpec
from stoker.store.paging import Query
from stoker.store.recorder import SqlStore
from tests.helpers.builders import a_spec, at, element, ended, move, new, placed, started


async def test_a_waiting_and_a_finished_task_are_shown_whole(store: SqlStore) -> None:
    spec = a_spec(name="训练", gpus=2)
    stop = StopRequested(at=at(2), by="bob")
    await store.record([new(1, spec), new(2, spec, placed("a1", 0, 3), started(), stop, ended())])

    (done, waits), cursor = store.readers.page(Query())

    assert cursor is None
    shown, why, text = waits
    assert msgspec.json.decode(text, type=TaskSpec) == spec
    assert why is None
    nothing = dict.fromkeys(
        (
            "started_at",
            "finished_at",
            "node",
            "outcome",
            "reason",
            "exit_code",
            "signal",
            "stopped_by",
            "origin",
            "array",
        )
    )
    assert msgspec.json.decode(shown) == nothing | {
        "id": "1", "owner": "ana", "state": "QUEUED", "version": 1, "attempts": 0, "gpu_ids": [],
        "submitted_at": iso(0),
    }  # fmt: skip
    shown, why, text = done
    assert msgspec.json.decode(shown) == {
        "id": "2", "owner": "ana", "state": "FINISHED", "version": 5, "attempts": 1,
        "submitted_at": iso(0), "started_at": iso(2), "finished_at": iso(3), "node": "node-a",
        "gpu_ids": [0, 3], "outcome": "succeeded", "reason": "exit_zero", "exit_code": 0,
        "signal": None, "stopped_by": "bob", "origin": None, "array": None,
    }  # fmt: skip
    assert why is not None
    assert msgspec.json.decode(why) == ["exit_zero", "", 0, None, "bob", None]
    found = store.readers.detail(TaskKey(2))
    assert found is not None
    assert found[0] == done


def iso(seconds: float) -> str:
    return str(msgspec.to_builtins(at(seconds)))


async def test_an_element_of_an_array_has_its_own_name(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9", env={"TOKEN": "secret"}))
    await store.record([array])
    await store.record([element(array.task, 3, ended(None, "cancelled", "cancelled"))])

    rows, _ = store.readers.page(Query(elements=True, descending=False))

    assert [msgspec.json.decode(shown)["id"] for shown, *_ in rows] == ["17", "17_3"]
    assert [msgspec.json.decode(spec, type=TaskSpec) for *_, spec in rows] == [array.task.spec] * 2
    told = store.readers.events_after(0, 10)
    assert [(event.task, event.event) for event in told] == [
        ("17", "Submitted"),
        ("17_3", "Unfolded"),
        ("17_3", "Ended"),
    ]
    assert "secret" not in repr(told)
    found = store.readers.detail(TaskKey(17, 3))
    assert found is not None
    assert found[0] == rows[1]


async def test_an_array_is_shown_with_its_size_and_its_counts(store: SqlStore) -> None:
    array = new(17, a_spec(array="0-9,20"))
    await store.record([array])
    (((shown, *_),), _) = store.readers.page(Query())
    assert msgspec.json.decode(shown)["array"] == {"size": 11, "counts": None}

    end = End(outcome="cancelled", reason="cancelled")
    over = Ended(at=at(3), end=end, counts={"cancelled": 11})
    await store.record([move(array.task, over)])

    (((shown, *_),), _) = store.readers.page(Query())
    assert msgspec.json.decode(shown)["array"] == {"size": 11, "counts": {"cancelled": 11}}


async def test_an_edit_is_shown(store: SqlStore) -> None:
    task = new(1, a_spec(name="old"))
    await store.record([task])
    await store.record(
        [move(task.task, Edited(at=at(1), by="ana", spec=a_spec(name="new", array="0-9")))]
    )

    (((shown, _, spec),), _) = store.readers.page(Query(name="new"))

    assert msgspec.json.decode(spec)["name"] == "new"
    assert msgspec.json.decode(shown)["array"] == {"size": 10, "counts": None}
    assert store.readers.page(Query(name="old")) == ([], None)


async def test_a_detail_has_attempts_and_events(store: SqlStore) -> None:
    await store.record([new(1, a_spec(gpus=1), placed("a1", 0), started(), ended())])

    found = store.readers.detail(TaskKey(1))

    assert found is not None
    (shown, *_), attempts, events = found
    assert msgspec.json.decode(shown)["id"] == "1"
    assert [(a.id, a.started_at, a.ended_at) for a in attempts] == [("a1", at(2), at(3))]
    assert attempts == store.readers.attempts_of(TaskKey(1))
    assert [(e.seq, e.task, e.event, e.at) for e in events] == [
        (1, "1", "Submitted", at(0)),
        (2, "1", "Placed", at(1)),
        (3, "1", "Started", at(2)),
        (4, "1", "Ended", at(3)),
    ]
    assert events == store.readers.events_of(TaskKey(1))
    assert store.readers.detail(TaskKey(2)) is None


async def test_an_event_tells_its_own_fields_but_no_spec(store: SqlStore) -> None:
    await store.record([new(1, a_spec(env={"TOKEN": "secret"}), placed("a1"))])

    submitted_, placed_ = store.readers.events_after(0, 10)

    assert msgspec.json.decode(submitted_.values) == {"owner": "ana", "position": 1}
    values: dict[str, Any] = msgspec.json.decode(placed_.values)
    assert values["attempt"] == "a1"
    assert values["allocation"]["node"] == "node-a"
    assert "secret" not in repr((submitted_, placed_))


async def test_events_are_followed_from_any_point(store: SqlStore) -> None:
    assert (store.readers.first_seq(), store.readers.last_seq()) == (0, 0)
    await store.record([new(id) for id in range(1, 11)])

    assert (store.readers.first_seq(), store.readers.last_seq()) == (1, 10)
    assert [event.seq for event in store.readers.events_after(3, 4)] == [4, 5, 6, 7]
    assert store.readers.events_after(10, 4) == []


async def test_counts_name_every_state(store: SqlStore) -> None:
    assert store.readers.counts() == dict.fromkeys(State, 0)
    await store.record(
        [
            new(1),
            new(2, a_spec(hold=True)),
            new(3, None, placed("a3")),
            new(4, None, placed("a4", number=2), started("a4")),
            new(5, None, placed("a5", number=3), ended("a5")),
            new(6, None, placed("a6", number=4), ended("a6")),
        ]
    )

    array = new(17, a_spec(array="0-9"))
    await store.record([array])
    await store.record([element(array.task, 3, ended(None, "cancelled", "cancelled"))])

    assert store.readers.counts() == {  # an array is one, its elements are none
        State.HELD: 1,
        State.QUEUED: 2,
        State.STARTING: 1,
        State.RUNNING: 1,
        State.STOPPING: 0,
        State.FINISHED: 2,
    }
