"""What a person does with a task in line: edit, move, requeue; and what is refused at the door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from stoker.domain.errors import (
    Conflict,
    InvalidSpec,
    NeverFits,
    StaleVersion,
    StoreDown,
    UnknownTask,
)
from stoker.domain.event import Edited, Moved, Placed, Requeued, StopRequested
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.queue import Queue
from stoker.engines.fake import FakeEngine
from stoker.flow.context import Flow
from stoker.flow.queue import edit, hold, move, requeue
from stoker.flow.stop import cancel
from stoker.flow.submit import preview, submit
from stoker.scheduler.policy import Policy
from stoker.store.base import Change
from tests.helpers.builders import a_node, a_spec
from tests.helpers.flows import (
    clock_of,
    codes,
    end,
    engine_of,
    free_cards,
    later,
    like,
    one,
    recorded,
    run_to_running,
    running_flow,
    settled,
    until,
    until_running,
    until_state,
)

from .conftest import waiting_engine
from .test_faults import has, moody, times

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]


async def line(flow: Flow) -> list[int]:
    """The ids of those who wait, by place."""
    rows = await flow.store.waiting()
    return [row.key.id for row in rows]


# ---- edit


async def test_an_edit_keeps_id_and_place_and_those_who_wait_for_it(flow: Flow) -> None:
    blocker = await one(flow, gpus=4)
    key, second = await one(flow, gpus=4), await one(flow, gpus=4)
    follower = await one(flow, after=(f"{key}:ok",))
    spec = (await recorded(flow, key)).spec

    task = await edit(flow, key, like(spec, gpus=3, name="smaller"), 1, "bob")

    assert (task.key, task.version, task.spec.gpus) == (key, 2, 3)
    assert isinstance((await flow.store.history(key))[-1], Edited)
    await end(flow, blocker)
    await end(flow, key)
    await until_state(flow, follower, State.RUNNING)
    await until_state(flow, second, State.RUNNING)


async def test_a_stale_edit_is_refused(flow: Flow) -> None:
    key = await one(flow, hold=True)
    spec = (await recorded(flow, key)).spec
    await edit(flow, key, like(spec, name="a"), 1, "ana")

    with pytest.raises(StaleVersion) as refused:
        await edit(flow, key, like(spec, name="b"), 1, "ana")

    assert refused.value.code == "stale_edit"
    assert (await recorded(flow, key)).spec.name == "a"
    with pytest.raises(UnknownTask):
        await edit(flow, TaskKey(99), spec, None, "ana")


async def test_what_runs_is_not_edited(flow: Flow) -> None:
    key, _ = await run_to_running(flow)
    with pytest.raises(Conflict, match="still_running"):
        await edit(flow, key, a_spec(), None, "ana")


async def test_an_edit_of_a_finished_task_makes_a_new_one(flow: Flow) -> None:
    key = await one(flow)
    follower = await one(flow, after=(f"{key}:ok", f"{key}"))
    ended = await end(flow, key, code=1)

    task = await edit(flow, key, like(ended.spec, name="again", gpus=1), ended.version, "bob")

    assert (task.id > key.id, task.origin, task.owner) == (True, str(key), "ana")
    assert (await recorded(flow, key)) == ended
    assert (await recorded(flow, follower)).spec.after == (f"{task.key}:ok", f"{task.key}")
    await end(flow, task.key)
    await until_state(flow, follower, State.RUNNING)


async def test_an_edit_is_refused_like_a_submit(flow: Flow) -> None:
    key = await one(flow, hold=True)
    for fields, code in (
        ({"gpus": 9}, "too_many_gpus"),
        ({"queue": "nowhere"}, "unknown_queue"),
        ({"after": ("77",)}, "dependency_unknown"),
        ({"workdir": "x"}, "not_absolute"),
    ):
        with pytest.raises((InvalidSpec, NeverFits), match=code):
            await edit(flow, key, a_spec(**fields), None, "ana")
    assert (await recorded(flow, key)).version == 1


async def test_an_edit_that_meets_a_start_is_refused(flow: Flow) -> None:
    blocker = await one(flow, gpus=4)
    key = await one(flow, gpus=4)
    spec = (await recorded(flow, key)).spec
    store, slow = moody(flow), asyncio.Event()

    async def hold_up(changes: Sequence[Change]) -> None:
        if has(changes, Edited):
            await slow.wait()

    store.before_record = hold_up
    editing = asyncio.create_task(edit(flow, key, like(spec, gpus=1), None, "ana"))
    await end(flow, blocker)
    await until_state(flow, key, State.RUNNING)
    slow.set()

    with pytest.raises(Conflict, match="still_running"):
        await editing


# ---- move


async def test_first_last_before_and_after(flow: Flow) -> None:
    await one(flow, gpus=4)
    a, b, c, d = [await one(flow, gpus=4) for _ in range(4)]

    await move(flow, c, "first", None, "ana")
    assert await line(flow) == [c.id, a.id, b.id, d.id]
    await move(flow, a, "last", None, "ana")
    assert await line(flow) == [c.id, b.id, d.id, a.id]
    await move(flow, a, "before", b, "ana")
    assert await line(flow) == [c.id, a.id, b.id, d.id]
    task = await move(flow, c, "after", b, "bob")
    assert await line(flow) == [a.id, b.id, c.id, d.id]
    moved = (await flow.store.history(c))[-1]
    assert moved == Moved(at=moved.at, by="bob", position=task.position)
    e = await one(flow, gpus=4)
    assert (await line(flow))[-1] == e.id


async def test_a_moved_task_starts_at_its_new_place(flow: Flow) -> None:
    blocker = await one(flow, gpus=4)
    _, second, third = [await one(flow, gpus=4) for _ in range(3)]
    await move(flow, third, "before", second, "ana")

    await end(flow, blocker)
    await end(flow, TaskKey(2))

    await until_state(flow, third, State.RUNNING)
    assert (await recorded(flow, second)).state is State.QUEUED


async def test_what_does_not_wait_has_no_place(flow: Flow) -> None:
    running, _ = await run_to_running(flow, gpus=4)
    key = await one(flow, gpus=4)
    with pytest.raises(Conflict, match="not_waiting"):
        await move(flow, running, "first", None, "ana")
    for other in (running, key, TaskKey(99), None):
        with pytest.raises(Conflict, match="not_same_line"):
            await move(flow, key, "before", other, "ana")
    with pytest.raises(UnknownTask):
        await move(flow, TaskKey(99), "first", None, "ana")


async def test_a_held_task_can_be_moved_and_be_moved_to(flow: Flow) -> None:
    await one(flow, gpus=4)
    a, b, c = [await one(flow, gpus=4) for _ in range(3)]
    await hold(flow, b, "ana")

    await move(flow, c, "before", b, "ana")
    assert await line(flow) == [a.id, c.id, b.id]
    await move(flow, b, "first", None, "ana")
    assert await line(flow) == [b.id, a.id, c.id]


async def test_any_number_of_moves_to_one_place(flow: Flow) -> None:
    """Neighbours are spread out when no number is left between them."""
    await one(flow, gpus=4)
    tasks = [await one(flow, gpus=4) for _ in range(4)]
    expected = [key.id for key in tasks]
    for number in range(80):
        key, other = tasks[number % 3], tasks[3]
        await move(flow, key, "before", other, "ana")
        expected.remove(key.id)
        expected.insert(expected.index(other.id), key.id)
        assert await line(flow) == expected
    last = await one(flow, gpus=4)
    assert await line(flow) == [*expected, last.id]


# ---- requeue


async def test_a_requeued_task_waits_where_it_was(flow: Flow) -> None:
    key, attempt = await run_to_running(flow, gpus=4)
    other = await one(flow, gpus=4)
    await hold(flow, other, "ana")
    before = await recorded(flow, key)

    stopping = await requeue(flow, key, "bob")
    assert (stopping.state, stopping.stop_cause) == (State.STOPPING, "requeue")
    assert (await requeue(flow, key, "bob")).version == stopping.version

    await until(lambda: any(live.task.attempts == 2 for live in flow.live.values()))
    task = await until_running(flow, key)
    assert (task.position, task.attempt != attempt) == (before.position, True)
    with pytest.raises(Conflict, match="not_running"):
        await requeue(flow, other, "ana")


async def test_a_cancel_is_stronger_than_a_requeue(flow: Flow) -> None:
    """Whichever comes first: a task that a person has stopped never comes back."""
    first, _ = await run_to_running(flow)
    engine_of(flow).lose("node-a")
    await until(lambda: not flow.view.rooms["node-a"].up)
    await requeue(flow, first, "ana")
    cancelled = await cancel(flow, first, "bob")
    assert (cancelled.stop_cause, cancelled.stopped_by) == ("cancel", "bob")
    with pytest.raises(Conflict, match="not_running"):
        await requeue(flow, first, "ana")
    engine_of(flow).find("node-a")

    task = await until_state(flow, first, State.FINISHED)
    assert task.end is not None
    assert task.end.outcome == "cancelled"
    kinds = [type(event) for event in await flow.store.history(first)]
    assert kinds.count(StopRequested) == 2
    assert Requeued not in kinds


async def test_a_requeue_after_a_restart_still_comes_back(restart: Restart) -> None:
    engine = waiting_engine()
    async with restart(engine) as flow:
        key, _ = await run_to_running(flow)
        store = moody(flow)

        async def die(changes: Sequence[Change]) -> None:
            if has(changes, Requeued):
                await asyncio.Event().wait()

        store.before_record = die
        await requeue(flow, key, "ana")
    async with restart(engine) as flow:
        await until(lambda: any(live.task.attempts == 2 for live in flow.live.values()))
    assert len(engine.launches) == len(set(engine.launches)) == 2


# ---- the door


async def test_one_urgent_task_per_person(flow: Flow) -> None:
    await one(flow, gpus=4)
    first = await one(flow, gpus=4, urgent=True)
    with pytest.raises(Conflict) as refused:
        await one(flow, urgent=True)
    assert (refused.value.code, refused.value.values) == ("urgent_already", {"task": str(first)})
    with pytest.raises(Conflict, match="urgent_already"):
        await preview(flow, "ana", a_spec(urgent=True))
    with pytest.raises(Conflict, match="urgent_already"):
        await submit(flow, "bob", [a_spec(urgent=True), a_spec(urgent=True)], batch=True)
    other = await one(flow, "bob", urgent=True, array="0-1", hold=True)
    plain = await one(flow, hold=True)
    with pytest.raises(Conflict, match="urgent_already"):
        await edit(flow, plain, a_spec(urgent=True), None, "ana")

    await edit(flow, first, a_spec(gpus=4), None, "ana")
    await edit(flow, plain, a_spec(urgent=True), None, "ana")
    await cancel(flow, plain, "ana")
    await cancel(flow, other, "bob")
    await until_state(flow, other, State.FINISHED)

    await until(lambda: flow.urgent == {})


async def test_two_urgent_tasks_at_once_are_one_too_many(flow: Flow) -> None:
    asked = [one(flow, urgent=True, hold=True) for _ in range(3)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert sorted(isinstance(result, Conflict) for result in results) == [False, True, True]


async def test_a_refused_record_frees_the_urgent_place(flow: Flow) -> None:
    moody(flow).before_record = times(1)
    with pytest.raises(StoreDown):
        await one(flow, urgent=True)
    await one(flow, urgent=True)


async def test_urgent_places_are_known_after_a_restart(restart: Restart) -> None:
    engine = waiting_engine()
    async with restart(engine) as flow:
        await run_to_running(flow, urgent=True)
        await one(flow, "bob", urgent=True, hold=True)
    async with restart(engine) as flow:
        for owner in ("ana", "bob"):
            with pytest.raises(Conflict, match="urgent_already"):
                await one(flow, owner, urgent=True)


async def test_queues_and_their_limits(tmp_path: Path) -> None:
    queues = {
        "default": Queue(name="default"),
        "debug": Queue(name="debug", longest_s=900, nodes=frozenset({"node-b"})),
    }
    nodes = [a_node(), a_node("node-b", gpus=1)]
    engine = waiting_engine(*nodes)
    async with running_flow(tmp_path, engine, Policy(queues=queues)) as flow:
        await until(lambda: len(flow.view.rooms) == 2)
        with pytest.raises(InvalidSpec) as unknown:
            await one(flow, queue="night")
        assert unknown.value.values["have"] == "debug, default"
        for limit in (None, 901):
            with pytest.raises(InvalidSpec) as long:
                await one(flow, queue="debug", time_limit_s=limit)
            assert (long.value.code, long.value.field) == ("too_long", "time_limit_s")
        with pytest.raises(NeverFits) as never:
            await one(flow, queue="debug", gpus=2, time_limit_s=60)
        assert never.value.field == "gpus"

        key = await one(flow, queue="debug", gpus=1, time_limit_s=900)

        assert (await until_running(flow, key)).node == "node-b"


async def test_a_quota_is_never_exceeded(tmp_path: Path) -> None:
    policy = Policy(quotas={"ana": 2})
    async with running_flow(tmp_path, waiting_engine(), policy) as flow:
        tasks = await submit(flow, "ana", [a_spec(gpus=1) for _ in range(4)], batch=True)
        await settled(flow)

        assert [task.state for task in tasks].count(State.STARTING) == 2
        assert codes(flow, await recorded(flow, tasks[3].key)) == ["quota_cards"]
        key = await one(flow, "bob", gpus=2)
        await until_running(flow, key)


# ---- time


async def test_a_start_time_is_waited_for(flow: Flow) -> None:
    at = clock_of(flow).now() + timedelta(hours=1)
    key = await one(flow, start_after=at.isoformat())
    await settled(flow)
    assert codes(flow, await recorded(flow, key)) == ["not_before"]
    assert flow.alarm is not None

    later(flow, 3599)
    await settled(flow)
    assert (await recorded(flow, key)).state is State.QUEUED
    later(flow, 2)

    await until_state(flow, key, State.RUNNING)


async def test_the_alarm_rings_by_itself(flow: Flow) -> None:
    at = clock_of(flow).now() + timedelta(seconds=0.2)
    key = await one(flow, start_after=at.isoformat())
    assert key not in {live.task.key for live in flow.live.values()}

    await until_state(flow, key, State.RUNNING)
    assert clock_of(flow).now() >= at


async def test_a_task_whose_time_has_come_starts_at_once(flow: Flow) -> None:
    at = clock_of(flow).now() - timedelta(hours=1)
    key = await one(flow, gpus=1, start_after=at.isoformat())

    assert Placed in [type(event) for event in await flow.store.history(key)]
    assert free_cards(flow) == 3


async def test_who_waits_behind_an_owner_goes_on_once_that_owner_is_at_his_limit(
    tmp_path: Path,
) -> None:
    """Nobody passes an owner of negative weight; what that owner was given at once may have brought
    the one that all wait for to a quota."""
    policy = Policy(weights={"boss": -1}, quotas={"boss": 2})
    async with running_flow(tmp_path, waiting_engine(), policy) as flow:
        await run_to_running(flow, gpus=3, time_limit_s=3600)
        blocked = await one(flow, "boss", gpus=2)
        behind = await one(flow, "bob")
        await settled(flow)
        assert "behind_owner" in codes(flow, await recorded(flow, behind))

        short = await one(flow, "boss", gpus=1, time_limit_s=60)

        await until_running(flow, short)
        await until_running(flow, behind)
        assert (await recorded(flow, blocked)).state is State.QUEUED


async def test_who_cards_were_kept_from_goes_on_once_the_other_is_at_his_limit(
    tmp_path: Path,
) -> None:
    """What is placed at once may bring the one that cards are kept for to a quota."""
    policy = Policy(quotas={"ana": 4})
    async with running_flow(tmp_path, waiting_engine(), policy) as flow:
        await run_to_running(flow, owner="bob", gpus=2, time_limit_s=3600)
        blocked = await one(flow, "ana", gpus=4)
        waits = await one(flow, "bob", gpus=1)
        await settled(flow)
        assert codes(flow, await recorded(flow, waits)) == ["gpus_kept"]

        short = await one(flow, "ana", gpus=1, time_limit_s=60)

        await until_running(flow, short)
        await until_running(flow, waits)
        assert "quota_cards" in codes(flow, await recorded(flow, blocked))


async def test_of_a_batch_only_those_are_placed_at_once_that_nobody_has_a_better_claim_than(
    tmp_path: Path,
) -> None:
    """The first brings the one that cards are kept for to a quota: the rest goes to bob."""
    policy = Policy(quotas={"ana": 4})
    async with running_flow(tmp_path, waiting_engine(), policy) as flow:
        await run_to_running(flow, owner="bob", gpus=2, time_limit_s=3600)
        await one(flow, "ana", gpus=4)
        waits = await one(flow, "bob", gpus=1)
        await settled(flow)

        short = [a_spec(gpus=1, time_limit_s=60), a_spec(gpus=1, time_limit_s=61)]
        first, second = await submit(flow, "ana", short, batch=True)

        assert (first.state, second.state) == (State.STARTING, State.QUEUED)
        await until_running(flow, waits)
