"""Another time limit: recorded, foreseen by the scheduler, told to the node, and only if allowed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from stoker.domain.errors import Conflict, InvalidSpec
from stoker.domain.event import LimitExtended
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.domain.queue import Queue
from stoker.engines.fake import Behaviour, FakeEngine
from stoker.flow.context import Flow
from stoker.flow.extend import Wish, extend
from stoker.flow.queue import requeue
from stoker.flow.stop import cancel
from stoker.scheduler.policy import Policy
from tests.helpers.builders import a_node
from tests.helpers.flows import (
    clock_of,
    end,
    engine_of,
    one,
    recorded,
    run_to_running,
    settled,
    until_running,
    until_state,
)

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]

HOUR = 3600


def to(limit_s: int | None, *, beyond: bool = False) -> Wish:
    return Wish(limit_s=limit_s, by="ana", beyond=beyond)


def more(add_s: int, *, beyond: bool = False) -> Wish:
    return Wish(add_s=add_s, by="ana", beyond=beyond)


def short_queue(flow: Flow, longest_s: int) -> None:
    queues = {"default": Queue(name="default", longest_s=longest_s)}
    flow.set_policy(Policy(queues=queues))


async def test_a_running_task_is_given_more_time(flow: Flow) -> None:
    key, attempt = await run_to_running(flow, time_limit_s=HOUR)

    task = await extend(flow, key, more(2 * HOUR))

    assert task.spec.time_limit_s == 3 * HOUR
    assert task.state is State.RUNNING
    assert await recorded(flow, key) == task
    assert isinstance((await flow.store.history(key))[-1], LimitExtended)
    assert engine_of(flow).runs[attempt].limit_s == 3 * HOUR
    holding = flow.view.taken()[attempt]
    assert holding.ends == holding.since + timedelta(hours=3)
    assert (await end(flow, key)).end is not None


async def test_the_same_limit_once_more_is_no_event(flow: Flow) -> None:
    key, _ = await run_to_running(flow, time_limit_s=HOUR)
    first = await extend(flow, key, to(2 * HOUR))

    again = await extend(flow, key, to(2 * HOUR))

    assert again.version == first.version


async def test_a_limit_can_be_taken_away_and_given(flow: Flow) -> None:
    key, attempt = await run_to_running(flow, time_limit_s=HOUR)

    assert (await extend(flow, key, to(None))).spec.time_limit_s is None
    assert flow.view.taken()[attempt].ends is None
    with pytest.raises(Conflict) as caught:
        await extend(flow, key, more(HOUR))
    assert caught.value.code == "no_limit"
    assert (await extend(flow, key, to(HOUR))).spec.time_limit_s == HOUR


@pytest.mark.parametrize("hold", [True, False])
async def test_a_waiting_task_is_given_more_time_where_it_stands(flow: Flow, hold: bool) -> None:
    await run_to_running(flow, gpus=4)
    key = await one(flow, gpus=1, time_limit_s=HOUR, hold=hold)
    before = await recorded(flow, key)

    task = await extend(flow, key, more(HOUR))

    assert (task.state, task.position) == (before.state, before.position)
    assert task.spec.time_limit_s == 2 * HOUR
    waiting = flow.view.waiting(key)
    assert (waiting is None) is hold
    assert waiting is None or waiting.sign.limit_s == 2 * HOUR


async def test_never_below_what_has_run(flow: Flow) -> None:
    key, _ = await run_to_running(flow, time_limit_s=10 * HOUR)
    clock_of(flow).step(3 * HOUR)

    with pytest.raises(Conflict) as caught:
        await extend(flow, key, to(2 * HOUR))

    assert (caught.value.code, caught.value.field) == ("limit_passed", "time_limit_s")
    assert (await extend(flow, key, to(4 * HOUR))).spec.time_limit_s == 4 * HOUR


async def test_the_owner_goes_up_to_the_maximum_of_the_queue_and_admins_beyond(flow: Flow) -> None:
    short_queue(flow, 2 * HOUR)
    key, _ = await run_to_running(flow, time_limit_s=HOUR)

    for wish in (more(2 * HOUR), to(3 * HOUR), to(None)):
        with pytest.raises(InvalidSpec) as caught:
            await extend(flow, key, wish)
        assert caught.value.code == "limit_beyond_queue"
    assert (await extend(flow, key, more(HOUR))).spec.time_limit_s == 2 * HOUR
    assert (await extend(flow, key, to(5 * HOUR, beyond=True))).spec.time_limit_s == 5 * HOUR
    # What an admin gave may be given back in part.
    assert (await extend(flow, key, to(4 * HOUR))).spec.time_limit_s == 4 * HOUR


async def test_what_has_ended_or_is_being_stopped_is_refused(flow: Flow) -> None:
    key, _ = await _running_on_a_silent_node(flow)
    await cancel(flow, key, "ana")

    with pytest.raises(Conflict) as caught:
        await extend(flow, key, more(HOUR))
    assert caught.value.code == "is_stopping"

    engine_of(flow).find("node-a")
    await until_state(flow, key, State.FINISHED)
    with pytest.raises(Conflict) as caught:
        await extend(flow, key, more(HOUR))
    assert caught.value.code == "already_finished"


async def test_what_is_put_back_in_line_keeps_its_new_limit(flow: Flow) -> None:
    key, attempt = await run_to_running(flow, time_limit_s=HOUR)
    await extend(flow, key, to(2 * HOUR))

    await requeue(flow, key, "ana")

    second = await until_running(flow, key)
    assert second.attempt != attempt
    assert engine_of(flow).runs[second.attempt or ""].limit_s == 2 * HOUR


async def test_all_of_an_array_that_has_not_ended(flow: Flow) -> None:
    engine_of(flow).behave = lambda order: Behaviour(
        run_for_s=0 if order.attempt.task_element == 0 else None
    )
    key = await one(flow, gpus=1, array="0-9%4", time_limit_s=HOUR)
    for element in (1, 2, 3, 4):
        await until_running(flow, TaskKey(key.id, element))

    array = await extend(flow, key, more(HOUR))

    assert array.spec.time_limit_s == 2 * HOUR
    for element in (1, 2, 3, 4):
        task = await recorded(flow, TaskKey(key.id, element))
        assert task.spec.time_limit_s == 2 * HOUR
        assert engine_of(flow).runs[task.attempt or ""].limit_s == 2 * HOUR
    assert (await recorded(flow, TaskKey(key.id, 0))).spec.time_limit_s == HOUR
    await end(flow, TaskKey(key.id, 1))
    later = await until_running(flow, TaskKey(key.id, 5))
    assert engine_of(flow).runs[later.attempt or ""].limit_s == 2 * HOUR


async def test_an_element_alone(flow: Flow) -> None:
    key = await one(flow, gpus=4, array="0-3", time_limit_s=HOUR)
    await until_running(flow, TaskKey(key.id, 0))

    for element in (0, 3):
        task = await extend(flow, TaskKey(key.id, element), to(3 * HOUR))
        assert task.spec.time_limit_s == 3 * HOUR

    assert (await recorded(flow, key)).spec.time_limit_s == HOUR
    await end(flow, TaskKey(key.id, 0))
    assert (await until_running(flow, TaskKey(key.id, 1))).spec.time_limit_s == HOUR


async def test_a_longer_limit_moves_the_start_that_is_foreseen(flow: Flow) -> None:
    key, _ = await run_to_running(flow, gpus=4, time_limit_s=HOUR)
    await one(flow, gpus=4, owner="bo")
    await settled(flow)
    (before,) = flow.view.reservations.values()

    await extend(flow, key, more(HOUR))
    await settled(flow)

    (after,) = flow.view.reservations.values()
    assert before.start is not None
    assert after.start == before.start + timedelta(hours=1)


async def test_another_server_goes_by_the_new_limit(restart: Restart) -> None:
    engine = FakeEngine([a_node()], lambda _: Behaviour(run_for_s=None))
    async with restart(engine) as flow:
        key, attempt = await run_to_running(flow, time_limit_s=HOUR)
        await extend(flow, key, to(2 * HOUR))
        engine._limit(engine.runs[attempt], HOUR)  # as if the word had never arrived
    async with restart(engine) as flow:
        assert flow.live[attempt].task.spec.time_limit_s == 2 * HOUR
        assert engine.runs[attempt].limit_s == 2 * HOUR


async def _running_on_a_silent_node(flow: Flow) -> tuple[TaskKey, str]:
    engine_of(flow).lost.discard("node-a")
    key, attempt = await run_to_running(flow, time_limit_s=HOUR)
    engine_of(flow).lost.add("node-a")
    return key, attempt
