"""Who may use a queue, how long a task may take there, how many may wait, and what is over quota."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.errors import AppError, Conflict, InvalidSpec, NeverFits, NotAllowed, StoreDown
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.queue import Queue
from stoker.flow.again import resubmit
from stoker.flow.context import Flow
from stoker.flow.queue import edit, hold, release
from stoker.flow.remove import delete
from stoker.flow.stop import cancel
from stoker.flow.submit import preview, submit
from stoker.scheduler.policy import Policy
from tests.helpers.builders import a_spec
from tests.helpers.flows import codes, end, one, recorded, running_flow, settled, until_state

from .conftest import waiting_engine
from .test_faults import moody, times


def a_policy(*queues: Queue, **more: Any) -> Policy:
    every = (Queue(name="default"), *queues)
    return Policy(queues={queue.name: queue for queue in every}, **more)


FULL = a_policy(Queue(name="short", most_waiting=3), most_waiting_each=5)


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[Flow]:
    """No card is free, and few tasks may wait."""
    async with running_flow(tmp_path, waiting_engine(), FULL) as flow:
        await one(flow, "bob", gpus=4)
        yield flow


async def refused(flow: Flow, owner: str = "ana", **fields: Any) -> AppError:
    """The same refusal for a submit and a preview."""
    with pytest.raises(AppError) as submitted:
        await one(flow, owner, **fields)
    with pytest.raises(AppError) as previewed:
        await preview(flow, owner, a_spec(**fields))
    told = [(e.value.code, e.value.field, e.value.values) for e in (submitted, previewed)]
    assert told[0] == told[1]
    return submitted.value


# ---- who, how long, how many cards


async def test_a_queue_is_for_those_whom_it_names(tmp_path: Path) -> None:
    policy = a_policy(
        Queue(name="vision", teams=("vision",), people=("guest",)),
        teams={"ana": "vision", "bob": "nlp"},
        admins=frozenset({"root"}),
    )
    async with running_flow(tmp_path, waiting_engine(), policy) as flow:
        for owner in ("ana", "guest", "root"):
            await one(flow, owner, queue="vision", hold=True)
        error = await refused(flow, "bob", queue="vision")
        assert isinstance(error, NotAllowed)
        assert (error.code, error.field) == ("queue_not_yours", "queue")
        assert error.values == {"queue": "vision", "have": "default"}
        error = await refused(flow, "bob", queue="vison")
        assert (error.code, error.values["have"]) == ("unknown_queue", "default")

        mine = await one(flow, "bob", hold=True)
        with pytest.raises(NotAllowed):
            await edit(flow, mine, a_spec(queue="vision", hold=True), None, "bob")
        moved = await edit(flow, mine, a_spec(queue="vision", hold=True), None, "root")
        assert moved.spec.queue == "vision"


async def test_a_batch_names_the_task_that_is_refused(tmp_path: Path) -> None:
    policy = a_policy(Queue(name="vision", teams=("vision",)))
    async with running_flow(tmp_path, waiting_engine(), policy) as flow:
        with pytest.raises(NotAllowed) as error:
            await submit(flow, "bob", [a_spec(), a_spec(queue="vision")], batch=True)
        assert error.value.field == "tasks[1].queue"


async def test_a_task_that_says_no_limit_gets_the_one_of_its_queue(tmp_path: Path) -> None:
    policy = a_policy(
        Queue(name="debug", default_limit_s=600, longest_s=900), Queue(name="short", longest_s=60)
    )
    async with running_flow(tmp_path, waiting_engine(), policy) as flow:
        key = await one(flow, queue="debug")
        assert (await recorded(flow, key)).spec.time_limit_s == 600
        key = await one(flow, queue="debug", time_limit_s=900, hold=True)
        assert (await recorded(flow, key)).spec.time_limit_s == 900
        changed = await edit(flow, key, a_spec(queue="debug", hold=True), None, "ana")
        assert changed.spec.time_limit_s == 600
        for queue, limit in (("debug", 901), ("short", None)):
            error = await refused(flow, queue=queue, time_limit_s=limit)
            assert isinstance(error, InvalidSpec)
            assert (error.code, error.field) == ("too_long", "time_limit_s")


async def test_what_exceeds_a_limit_by_itself_is_refused(tmp_path: Path) -> None:
    policy = a_policy(
        Queue(name="few", most_cards=2), Queue(name="each", most_cards_each=1),
        quotas={"ana": 3, "cy": 0}, teams={"bob": "red"}, team_quotas={"red": 2},
    )  # fmt: skip
    async with running_flow(tmp_path, waiting_engine(), policy) as flow:
        for owner, fields, code, most in (
            ("ana", {"gpus": 4}, "over_quota", 3),
            ("cy", {"gpus": 1}, "over_quota", 0),
            ("bob", {"gpus": 3}, "over_quota_team", 2),
            ("dee", {"gpus": 3, "queue": "few"}, "over_queue_cards", 2),
            ("dee", {"gpus": 2, "queue": "each"}, "over_queue_cards_each", 1),
        ):
            error = await refused(flow, owner, **fields)
            assert isinstance(error, NeverFits)
            assert (error.code, error.field, error.values["most"]) == (code, "gpus", most)
        await one(flow, "cy", gpus=0)
        await one(flow, "ana", gpus=3)


async def test_a_team_holds_no_more_than_its_quota_whoever_asks(tmp_path: Path) -> None:
    policy = Policy(teams={"ana": "red", "bob": "red"}, team_quotas={"red": 3})
    async with running_flow(tmp_path, waiting_engine(), policy) as flow:
        first = await one(flow, "ana", gpus=2)
        second = await one(flow, "bob", gpus=2)
        await settled(flow)
        waits = await recorded(flow, second)
        assert (waits.state, codes(flow, waits)) == (State.QUEUED, ["quota_team"])
        other = await one(flow, "cy", gpus=2)
        await until_state(flow, other, State.RUNNING)

        flow.set_policy(Policy(teams={"ana": "red"}, team_quotas={"red": 3}))
        await end(flow, other)
        await until_state(flow, second, State.RUNNING)
        await until_state(flow, first, State.RUNNING)


# ---- how many may wait


async def test_a_queue_takes_so_many_of_one_person(full: Flow) -> None:
    for _ in range(2):
        await one(full, gpus=1, queue="short")
    held = await one(full, gpus=1, queue="short", hold=True)

    error = await refused(full, gpus=1, queue="short")

    assert isinstance(error, Conflict)
    assert (error.code, error.field) == ("queue_full", "queue")
    assert error.values == {"queue": "short", "most": 3, "waiting": 3, "more": 1}
    await one(full, "cy", gpus=1, queue="short")
    await cancel(full, held, "ana")
    await one(full, gpus=1, queue="short")


async def test_all_queues_together_hold_so_many_of_one_person(full: Flow) -> None:
    await submit(full, "ana", [a_spec(gpus=1) for _ in range(4)], batch=True)
    with pytest.raises(Conflict) as error:
        await submit(full, "ana", [a_spec(gpus=1), a_spec(queue="short", gpus=1)], batch=True)
    assert (error.value.code, error.value.field) == ("too_many_waiting", "tasks[1]")
    assert error.value.values == {"most": 5, "waiting": 5, "more": 1}
    assert full.in_line == {"ana": {"default": 4}}


async def test_an_array_counts_as_its_elements(full: Flow) -> None:
    error = await refused(full, gpus=1, array="0-5")
    assert (error.code, error.values["more"]) == ("too_many_waiting", 6)
    key = await one(full, gpus=1, array="0-4")
    assert full.in_line == {"ana": {"default": 5}}
    await hold(full, TaskKey(key.id, 2), "ana")
    assert full.in_line == {"ana": {"default": 5}}
    await cancel(full, TaskKey(key.id, 3), "ana")
    assert full.in_line == {"ana": {"default": 4}}
    await one(full, gpus=1)
    await delete(full, key, "ana")
    assert full.in_line == {"ana": {"default": 1}}


async def test_an_edit_takes_places_where_it_goes(full: Flow) -> None:
    array = await one(full, gpus=1, array="0-3")
    for spec, code in (
        (a_spec(gpus=1, array="0-3", queue="short"), "queue_full"),
        (a_spec(gpus=1, array="0-5"), "too_many_waiting"),
    ):
        with pytest.raises(Conflict, match=code):
            await edit(full, array, spec, None, "ana")
        assert full.in_line == {"ana": {"default": 4}}
    await edit(full, array, a_spec(gpus=1, array="0-2", queue="short"), None, "ana")
    assert full.in_line == {"ana": {"short": 3}}
    await edit(full, array, a_spec(gpus=1), None, "ana")
    assert full.in_line == {"ana": {"default": 1}}


async def test_what_is_handed_over_again_takes_a_place(full: Flow) -> None:
    done = await one(full, gpus=0)
    await end(full, done)
    await submit(full, "ana", [a_spec(gpus=1) for _ in range(5)], batch=True)
    with pytest.raises(Conflict, match="too_many_waiting"):
        await resubmit(full, done, "ana")


async def test_two_at_the_same_moment_are_one_too_many(full: Flow) -> None:
    await submit(full, "ana", [a_spec(gpus=1) for _ in range(4)], batch=True)
    answers = await asyncio.gather(
        *(one(full, gpus=1) for _ in range(5)), return_exceptions=True
    )  # fmt: skip
    assert sum(isinstance(answer, Conflict) for answer in answers) == 4
    assert full.in_line == {"ana": {"default": 5}}


async def test_a_place_is_given_back_when_nothing_is_recorded(tmp_path: Path) -> None:
    async with running_flow(tmp_path, waiting_engine(), FULL) as flow:
        await one(flow, "bob", gpus=4)
        store = moody(flow)
        store.before_record = times(1)
        with pytest.raises(StoreDown):
            await one(flow, gpus=1)
        assert flow.in_line == {}


async def test_after_a_restart_the_same_is_counted(tmp_path: Path) -> None:
    engine = waiting_engine()
    async with running_flow(tmp_path, engine, FULL) as flow:
        await one(flow, "bob", gpus=4)
        array = await one(flow, gpus=1, array="0-2")
        await hold(flow, TaskKey(array.id, 1), "ana")
        await hold(flow, array, "ana")
        await one(flow, gpus=1, hold=True, queue="short")
        counted = {owner: dict(queues) for owner, queues in flow.in_line.items()}
    async with running_flow(tmp_path, engine, FULL) as flow:
        assert flow.in_line == counted == {"ana": {"default": 3, "short": 1}}
        await release(flow, array, "ana")
        assert flow.in_line == counted
