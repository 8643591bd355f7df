"""What the API reads: whole, ready for the wire, from one moment."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from stoker.domain.event import StopRequested
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.outcome import End
from stoker.domain.task import TaskSpec
from stoker.store.paging import Query
from stoker.store.recorder import SqlStore
from tests.helpers.builders import a_spec, at, ended, placed, started

from .lives import new


class Shown(NamedTuple):
    id: str
    owner: str
    state: str
    version: int
    submitted_at: datetime
    attempts: int
    started_at: datetime | None
    finished_at: datetime | None
    node: str | None
    gpu_ids: tuple[int, ...]
    stopped_by: str | None
    end: End | None
    spec: Raw


async def test_a_waiting_and_a_finished_task_are_shown_whole(store: SqlStore) -> None:
    spec = a_spec(name="训练", gpus=2)
    stop = StopRequested(at=at(2), by="bob")
    await store.record([new(1, spec), new(2, spec, placed("a1", 0, 3), started(), stop, ended())])

    done, waits = store.readers.task(TaskKey(2), Shown), store.readers.task(TaskKey(1), Shown)

    assert done is not None
    assert waits is not None
    assert msgspec.json.decode(waits.spec, type=TaskSpec) == spec
    assert waits[:-1] == (
        "1", "ana", "QUEUED", 1, at(0), 0, None, None, None, (), None, None,
    )  # fmt: skip
    end = End(outcome="succeeded", reason="exit_zero", exit_code=0)
    assert done[:-1] == (
        "2", "ana", "FINISHED", 5, at(0), 1, at(2), at(3), "node-a", (0, 3), "bob", end,
    )  # fmt: skip
    assert store.readers.task(TaskKey(3), Shown) is None


async def test_a_listed_task_says_the_same_as_a_shown_one(store: SqlStore) -> None:
    spec = a_spec(name="训练", gpus=2)
    stop = StopRequested(at=at(2), by="bob")
    await store.record([new(1, spec), new(2, spec, placed("a1", 0, 3), started(), stop, ended())])

    rows, cursor = store.readers.page(Query())

    assert cursor is None
    for key, (listed, why, its_spec) in zip((2, 1), rows, strict=True):
        shown = store.readers.task(TaskKey(key), Shown)
        assert shown is not None
        end = shown.end
        assert msgspec.json.decode(listed) == through_json(
            {name: getattr(shown, name) for name in Shown._fields if name not in ("end", "spec")}
            | {
                "outcome": end and end.outcome,
                "reason": end and end.reason,
                "exit_code": end and end.exit_code,
                "signal": end and end.signal,
            }
        )
        assert msgspec.json.decode(its_spec, type=TaskSpec) == spec
        told = end and (end.reason, end.detail, end.exit_code, end.signal, shown.stopped_by, None)
        assert (None if why is None else tuple(msgspec.json.decode(why))) == told


def through_json(value: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(value))


async def test_an_element_of_an_array_has_its_own_name(store: SqlStore) -> None:
    change = new(17)
    element = msgspec.structs.replace(change.task, element=3)
    await store.record([change, msgspec.structs.replace(change, task=element)])

    rows, _ = store.readers.page(Query(descending=False))

    assert [msgspec.json.decode(shown)["id"] for shown, *_ in rows] == ["17", "17_3"]
    assert [event.task for event in store.readers.events_after(0, 10)] == ["17", "17_3"]


async def test_a_detail_has_attempts_and_events(store: SqlStore) -> None:
    await store.record([new(1, a_spec(gpus=1), placed("a1", 0), started(), ended())])

    found = store.readers.detail(TaskKey(1), Shown)

    assert found is not None
    task, attempts, events = found
    assert task.id == "1"
    assert [(a.id, a.started_at, a.ended_at) for a in attempts] == [("a1", at(2), at(3))]
    assert attempts == store.readers.attempts_of(TaskKey(1))
    assert [(e.seq, e.task, e.event, e.at) for e in events] == [
        (1, "1", "Submitted", at(0)),
        (2, "1", "Placed", at(1)),
        (3, "1", "Started", at(2)),
        (4, "1", "Ended", at(3)),
    ]
    assert events == store.readers.events_of(TaskKey(1))
    assert store.readers.detail(TaskKey(2), Shown) is None


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

    assert store.readers.counts() == {
        State.HELD: 1,
        State.QUEUED: 1,
        State.STARTING: 1,
        State.RUNNING: 1,
        State.STOPPING: 0,
        State.FINISHED: 2,
    }
