"""A task is handed over once more: who waits for a finished one follows to the new one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from stoker.domain.errors import InvalidSpec, NeverFits, UnknownTask
from stoker.domain.event import Edited, Submitted
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.flow.again import resubmit
from stoker.flow.context import Flow
from stoker.flow.queue import edit, hold, release
from stoker.flow.remove import delete
from stoker.store.base import Change
from tests.helpers.builders import a_node
from tests.helpers.flows import (
    end,
    engine_of,
    like,
    one,
    recorded,
    run_to_running,
    settled,
    until,
    until_running,
    until_state,
)

from .test_faults import has, moody


async def test_waiting_live_and_finished_ones_are_handed_over_again(flow: Flow) -> None:
    finished, _ = await run_to_running(flow, name="x")
    await end(flow, finished)
    live, _ = await run_to_running(flow, gpus=4)
    held = await one(flow, hold=True)

    made = [await resubmit(flow, key, "bob") for key in (finished, live, held)]

    assert [task.origin for task in made] == [str(finished), str(live), str(held)]
    assert [task.state for task in made] == [State.QUEUED] * 3
    assert [task.owner for task in made] == ["ana"] * 3
    first = (await flow.store.history(made[0].key))[0]
    assert isinstance(first, Submitted)
    assert (first.origin, first.spec.name) == (str(finished), "x")
    await until_state(flow, made[2].key, State.RUNNING)
    assert (await recorded(flow, held)).state is State.HELD
    with pytest.raises(UnknownTask):
        await resubmit(flow, TaskKey(99), "ana")


async def test_who_waits_follows_a_finished_one_only(flow: Flow) -> None:
    first, _ = await run_to_running(flow)
    follower = await one(flow, after=(f"{first}:ok",))
    await resubmit(flow, first, "ana")  # it still runs: nobody has to look elsewhere
    assert (await recorded(flow, follower)).spec.after == (f"{first}:ok",)
    await end(flow, first, code=1)
    waived = await one(flow, after=(f"{first}:ok",), gpus=4)
    await release(flow, waived, "ana", anyway=True)
    held = await one(flow, after=(f"{first}:ok",), hold=True)

    again = await resubmit(flow, first, "bob")

    for key in (follower, held):
        task = await recorded(flow, key)
        assert task.spec.after == (f"{again.key}:ok",)
        last = (await flow.store.history(key))[-1]
        assert isinstance(last, Edited)
        assert last.by == "bob"
    assert (await recorded(flow, waived)).spec.after == (f"{first}:ok",)
    await end(flow, again.key)
    await until_state(flow, follower, State.RUNNING)


async def test_an_array_and_one_of_its_elements(flow: Flow) -> None:
    array = await one(flow, array="3-4")
    waits = await one(flow, after=(f"{array}_4:ok", f"{array}"))
    await end(flow, TaskKey(array.id, 3))
    await end(flow, TaskKey(array.id, 4), code=1)
    await until_state(flow, array, State.FINISHED)

    part = await resubmit(flow, TaskKey(array.id, 4), "ana")
    assert (part.spec.array, part.origin) == ("4", f"{array}_4")
    assert (await recorded(flow, waits)).spec.after == (f"{part.key}:ok", f"{array}")
    await end(flow, TaskKey(part.id, 4), code=1)
    await until_state(flow, part.key, State.FINISHED)
    whole = await resubmit(flow, array, "ana")
    assert (await recorded(flow, waits)).spec.after == (f"{part.key}:ok", f"{whole.key}")
    last = await resubmit(flow, part.key, "ana")

    assert whole.spec.array == "3-4"
    for key in (TaskKey(whole.id, 3), TaskKey(whole.id, 4), TaskKey(last.id, 4)):
        await end(flow, key)
    await until_state(flow, waits, State.RUNNING)


async def test_who_waits_for_elements_follows_to_those_of_the_new_array(flow: Flow) -> None:
    array = await one(flow, array="0-1")
    waits = await one(flow, after=(f"{array}_1:ok",))
    begun = await one(flow, array="0-9%1", after=(f"{array}_0",), gpus=4)
    await end(flow, TaskKey(array.id, 0))
    await until_running(flow, TaskKey(begun.id, 0))
    ended = await end(flow, TaskKey(array.id, 1), code=1)
    await until_state(flow, array, State.FINISHED)

    whole = await resubmit(flow, array, "ana")

    assert (await recorded(flow, waits)).spec.after == (f"{whole.key}_1:ok",)
    assert (await recorded(flow, begun)).spec.after == (f"{array}_0",)
    await end(flow, TaskKey(whole.id, 1))
    await until_state(flow, waits, State.RUNNING)
    part = await edit(flow, TaskKey(array.id, 1), like(ended.spec, name="x"), None, "ana")
    assert part.spec.array == "1"
    with pytest.raises(InvalidSpec, match="array_fixed"):
        await edit(flow, TaskKey(array.id, 1), like(ended.spec, array="1"), None, "ana")


async def test_what_ran_once_does_not_wait_for_what_failed_or_is_gone(flow: Flow) -> None:
    first, second, third = await one(flow), await one(flow), await one(flow)
    key = await one(flow, after=(f"{first}:ok", f"{second}", f"{third}:notok"))
    await end(flow, first)
    await end(flow, second)
    await end(flow, third)
    await release(flow, key, "ana", anyway=True)
    await end(flow, key)
    await delete(flow, first, "ana")

    again = await resubmit(flow, key, "ana")

    assert again.spec.after == (f"{second}",)
    await until_state(flow, again.key, State.RUNNING)


async def test_a_follower_that_moves_meanwhile_is_looked_at_again(flow: Flow) -> None:
    first = await one(flow)
    follower = await one(flow, after=(f"{first}:ok",))
    await end(flow, first, code=1)
    store = moody(flow)
    once: list[int] = []

    async def overtake(changes: Sequence[Change]) -> None:
        if has(changes, Submitted) and not once:
            once.append(1)
            await hold(flow, follower, "ana")

    store.before_record = overtake
    again = await resubmit(flow, first, "ana")

    task = await recorded(flow, follower)
    assert (task.state, task.spec.after) == (State.HELD, (f"{again.key}:ok",))
    assert once
    await settled(flow)
    assert [row.id for row in await flow.store.tasks([TaskKey(again.id - 1)])] == []


async def test_nothing_is_handed_over_that_can_no_longer_run(flow: Flow) -> None:
    key, _ = await run_to_running(flow, gpus=4)
    await end(flow, key)
    engine_of(flow).nodes["node-a"] = a_node(gpus=2)
    engine_of(flow).find("node-a")
    await until(lambda: len(flow.view.rooms["node-a"].cards) == 2)
    with pytest.raises(NeverFits):
        await resubmit(flow, key, "ana")


async def test_a_new_task_does_not_wait_for_its_own_followers(flow: Flow) -> None:
    first = await one(flow)
    follower = await one(flow, after=(f"{first}:ok",))
    ended = await end(flow, first, code=1)

    with pytest.raises(InvalidSpec, match="dependency_circular"):
        await edit(flow, first, like(ended.spec, after=(str(follower),)), None, "ana")

    assert (await recorded(flow, follower)).spec.after == (f"{first}:ok",)


async def test_two_at_once_make_two_tasks_and_one_is_followed(flow: Flow) -> None:
    first = await one(flow)
    follower = await one(flow, after=(f"{first}:ok",))
    await end(flow, first, code=1)

    made = await asyncio.gather(resubmit(flow, first, "ana"), resubmit(flow, first, "ana"))

    assert (await recorded(flow, follower)).spec.after == (f"{made[0].key}:ok",)
    await end(flow, made[0].key)
    await until_state(flow, follower, State.RUNNING)
