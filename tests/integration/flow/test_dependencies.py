"""Tasks that wait for others: for their success, their failure, or any end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from stoker.domain.errors import Conflict, InvalidSpec
from stoker.domain.event import Ended, Requeued, Waived
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State
from stoker.engines.fake import FakeEngine
from stoker.flow import remove
from stoker.flow.context import Flow
from stoker.flow.queue import edit, hold, release, requeue
from stoker.flow.stop import cancel
from stoker.flow.submit import preview, submit
from stoker.store.base import Change
from tests.helpers.builders import a_spec
from tests.helpers.flows import (
    codes,
    end,
    like,
    one,
    recorded,
    settled,
    until,
    until_running,
    until_state,
)

from .conftest import waiting_engine
from .test_faults import has, moody, times

Restart = Callable[[FakeEngine], AbstractAsyncContextManager[Flow]]


@pytest.mark.parametrize(
    ("code", "starts", "stays"), [(0, ("ok", "any"), "notok"), (1, ("notok", "any"), "ok")]
)
async def test_each_kind_of_end(flow: Flow, code: int, starts: tuple[str, str], stays: str) -> None:
    first = await one(flow)
    go = [await one(flow, after=(f"{first}:{when}",)) for when in starts]
    stay = await one(flow, after=(f"{first}:{stays}",))
    await settled(flow)
    assert codes(flow, await recorded(flow, stay)) == ["after_pending"]

    await end(flow, first, code)

    for key in go:
        await until_state(flow, key, State.RUNNING)
    await settled(flow)
    assert codes(flow, await recorded(flow, stay)) == ["after_failed"]


async def test_an_end_that_was_recorded_before_counts(flow: Flow) -> None:
    first = await one(flow)
    await end(flow, first)

    key = await one(flow, after=(f"{first}:ok", f"{first}"))

    await until_state(flow, key, State.RUNNING)


async def test_an_end_in_the_very_moment_of_the_submit_counts(flow: Flow) -> None:
    first = await one(flow)
    await until_running(flow, first)
    store = moody(flow)
    once: list[int] = []

    async def end_meanwhile(changes: Sequence[Change]) -> None:
        if changes[0].task.spec.after and not once:
            once.append(1)
            await end(flow, first)

    store.before_record = end_meanwhile
    key = await one(flow, after=(f"{first}:ok",))

    await until_state(flow, key, State.RUNNING)
    assert once


async def test_ends_that_cannot_be_read_are_looked_up_again(flow: Flow) -> None:
    first = await one(flow)
    await end(flow, first)
    store = moody(flow)
    (task,) = await submit(flow, "ana", [a_spec(after=(str(first),), hold=True)], batch=False)
    store.before_outcomes = times(1)

    await release(flow, task.key, "ana")

    await until_state(flow, task.key, State.RUNNING)


async def test_a_task_that_is_not_there_is_refused(flow: Flow) -> None:
    first = await one(flow)
    for text in ("99", f"{first}_3"):
        with pytest.raises(InvalidSpec) as refused:
            await submit(flow, "ana", [a_spec(), a_spec(after=(str(first), text))], batch=True)
        assert (refused.value.code, refused.value.field) == (
            "dependency_unknown", "tasks[1].after[1]",
        )  # fmt: skip
        assert refused.value.values == {"task": text}


async def test_arrays_and_their_elements_are_waited_for(flow: Flow) -> None:
    await one(flow, gpus=4)
    id = (await one(flow, gpus=1, array="0-2")).id
    whole = await one(flow, after=(f"{id}:ok",))
    second = await one(flow, after=(f"{id}_1:ok",))
    folded = await one(flow, after=(f"{id}_2:notok",))
    await cancel(flow, TaskKey(1), "ana")

    await end(flow, TaskKey(id, 1))
    await until_state(flow, second, State.RUNNING)
    await end(flow, TaskKey(id, 0))
    assert (await recorded(flow, whole)).state is State.QUEUED
    await cancel(flow, TaskKey(id, 2), "ana")

    await until_state(flow, folded, State.RUNNING)
    await until_state(flow, TaskKey(id), State.FINISHED)
    await settled(flow)
    assert codes(flow, await recorded(flow, whole)) == ["after_failed"]


async def test_an_element_that_never_began_ends_with_its_array(flow: Flow) -> None:
    await one(flow, gpus=4)
    id = (await one(flow, gpus=1, array="0-99")).id
    key = await one(flow, after=(f"{id}_77:notok",))

    await cancel(flow, TaskKey(id), "ana")

    await until_state(flow, key, State.RUNNING)
    late = await one(flow, after=(f"{id}_78:notok",))
    await until_state(flow, late, State.RUNNING)


async def test_an_array_that_waits_for_a_task(flow: Flow) -> None:
    first = await one(flow)
    id = (await one(flow, array="0-1", after=(f"{first}:ok",))).id
    await settled(flow)
    assert len(flow.live) == 1

    await end(flow, first)

    await until_running(flow, TaskKey(id, 1))


async def test_run_anyway(flow: Flow) -> None:
    first = await one(flow)
    pending = await one(flow, after=(f"{first}:ok",))
    with pytest.raises(Conflict, match="nothing_to_waive"):
        await release(flow, pending, "ana", anyway=True)
    held = await one(flow, after=(f"{first}:ok",), hold=True)
    array = await one(flow, after=(f"{first}:ok",), array="0-1")
    await end(flow, first, code=1)

    for key in (pending, held):
        await release(flow, key, "bob", anyway=True)
        await until_state(flow, key, State.RUNNING)
        assert any(isinstance(event, Waived) for event in await flow.store.history(key))
    await release(flow, array, "bob", anyway=True)
    await until_running(flow, TaskKey(array.id, 1))
    with pytest.raises(Conflict, match="not_waiting"):
        await release(flow, held, "ana", anyway=True)


async def test_what_has_run_does_not_wait_again_when_it_comes_back(flow: Flow) -> None:
    first = await one(flow)
    key = await one(flow, after=(f"{first}:ok",))
    await end(flow, first)
    await until_state(flow, key, State.RUNNING)
    await remove.delete(flow, first, "ana")

    await requeue(flow, key, "ana")

    await until(lambda: any(live.task.attempts == 2 for live in flow.live.values()))
    history = await flow.store.history(key)
    assert {Requeued, Waived} <= {type(event) for event in history}


async def test_circles_are_refused(flow: Flow) -> None:
    first = await one(flow, hold=True)
    second = await one(flow, after=(f"{first}",))
    third = await one(flow, after=(f"{second}:ok",))
    array = await one(flow, array="0-1", after=(f"{third}",))
    last = await one(flow, after=(f"{array}_1",))
    spec = (await recorded(flow, first)).spec

    for after in (first, third, array, TaskKey(array.id, 0), last):
        with pytest.raises(InvalidSpec) as refused:
            await edit(flow, first, like(spec, after=(str(after),)), None, "ana")
        assert (refused.value.code, refused.value.field) == ("dependency_circular", "after[0]")
    spec = (await recorded(flow, array)).spec
    for after in (last, array, TaskKey(array.id, 1)):
        with pytest.raises(InvalidSpec, match="dependency_circular"):
            await edit(flow, array, like(spec, after=(str(after),)), None, "ana")


async def test_elements_may_wait_for_each_other(flow: Flow) -> None:
    array = await one(flow, array="0-2", hold=True)
    spec = (await recorded(flow, array)).spec
    with pytest.raises(InvalidSpec, match="dependency_circular"):
        await edit(flow, TaskKey(array.id, 1), like(spec, after=(str(array),)), None, "ana")

    await edit(flow, TaskKey(array.id, 1), like(spec, after=(f"{array}_0:ok",)), None, "ana")
    with pytest.raises(InvalidSpec, match="dependency_circular"):
        await edit(flow, TaskKey(array.id, 0), like(spec, after=(f"{array}_1",)), None, "ana")
    await release(flow, array, "ana")

    await end(flow, TaskKey(array.id, 2))
    await end(flow, TaskKey(array.id, 0))
    await end(flow, TaskKey(array.id, 1))
    await until_state(flow, array, State.FINISHED)


async def test_two_edits_at_once_make_no_circle(flow: Flow) -> None:
    one_, other = await one(flow, hold=True), await one(flow, hold=True)
    spec = (await recorded(flow, one_)).spec

    results = await asyncio.gather(
        edit(flow, one_, like(spec, after=(str(other),)), None, "ana"),
        edit(flow, other, like(spec, after=(str(one_),)), None, "ana"),
        return_exceptions=True,
    )

    assert sorted(isinstance(result, InvalidSpec) for result in results) == [False, True]


async def test_dependencies_after_a_restart(restart: Restart) -> None:
    engine = waiting_engine()
    async with restart(engine) as flow:
        first, second = await one(flow, gpus=4), await one(flow)
        await end(flow, first, code=1)
        blocker = await one(flow, gpus=4)
        vain = await one(flow, after=(f"{first}:ok",))
        ready = await one(flow, gpus=4, after=(f"{first}:notok",))
        pending = await one(flow, after=(f"{second}:ok",))
        held = await one(flow, after=(f"{second}:ok",), hold=True)
    async with restart(engine) as flow:
        assert flow.successors == {first: {vain, ready}, second: {pending, held}}
        assert codes(flow, await recorded(flow, vain)) == ["after_failed"]
        assert codes(flow, await recorded(flow, ready)) == ["gpus_busy"]
        await end(flow, blocker)
        await until_state(flow, ready, State.RUNNING)
        await end(flow, second)
        await until_state(flow, pending, State.RUNNING)
        await release(flow, held, "ana")
        await until_state(flow, held, State.RUNNING)
    async with restart(engine) as flow:
        assert flow.successors == {first: {vain}}


async def test_a_preview_says_what_it_would_wait_for_and_records_nothing(flow: Flow) -> None:
    first, second = await one(flow), await one(flow)
    await end(flow, first, code=1)

    told = await preview(flow, "ana", a_spec(after=(f"{first}:ok", f"{first}", f"{second}")))

    assert [reason.code for reason in told.reasons] == ["after_failed", "after_pending"]
    assert (told.starts, [s.code for s in told.suggestions]) == (None, ["try_anyway"])
    assert await flow.store.task(TaskKey(3)) is None
    with pytest.raises(InvalidSpec, match="dependency_unknown"):
        await preview(flow, "ana", a_spec(after=("77",)))
    assert (await preview(flow, "ana", a_spec(gpus=4))).starts is not None
    held = await preview(flow, "ana", a_spec(gpus=4, hold=True))
    assert ([r.code for r in held.reasons], held.starts) == (["held"], None)


async def test_a_refused_end_is_told_to_successors_when_it_is_recorded(flow: Flow) -> None:
    first = await one(flow)
    key = await one(flow, after=(f"{first}:ok",))
    await until_running(flow, first)
    store, refuse = moody(flow), times(1)

    async def refuse_ends(changes: Sequence[Change]) -> None:
        if has(changes, Ended):
            await refuse()

    store.before_record = refuse_ends
    await end(flow, first)

    await until_state(flow, key, State.RUNNING)


async def test_a_held_successor_is_still_known(flow: Flow) -> None:
    first = await one(flow)
    key = await one(flow, after=(f"{first}:ok",))
    await hold(flow, key, "ana")
    assert flow.successors == {first: {key}}
    await end(flow, first)
    await release(flow, key, "ana")
    await until_state(flow, key, State.RUNNING)
    assert flow.successors == {}
