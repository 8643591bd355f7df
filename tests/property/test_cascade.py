"""Whatever is deleted, nobody waits for ever: who cannot come any more says so, and may be let go."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.domain.errors import Conflict
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import WAITING, State, Task
from stoker.engines.base import LaunchOrder
from stoker.engines.fake import Behaviour, FakeEngine
from stoker.flow.context import Flow
from stoker.flow.queue import release
from stoker.flow.remove import delete
from stoker.flow.submit import submit
from tests.helpers.builders import a_node, a_spec
from tests.helpers.flows import codes, is_due, running_flow, until

IN_VAIN = {"after_deleted", "after_failed"}


class Link(NamedTuple):
    """A task, how it ends, and what it waits for: earlier ones, by number."""

    fails: bool
    after: dict[int, str]


class Removal(NamedTuple):
    task: int
    with_successors: bool


@st.composite
def chains(draw: st.DrawFn) -> list[Link]:
    links: list[Link] = []
    for number in range(draw(st.integers(2, 7))):
        earlier = st.integers(0, number - 1) if number else st.nothing()
        when = st.sampled_from(["ok", "notok", "any"])
        after = draw(st.dictionaries(earlier, when, max_size=2)) if number else {}
        links.append(Link(draw(st.booleans()), after))
    return links


@settings(max_examples=40)  # each is a server of its own
@given(chains(), st.lists(st.builds(Removal, st.integers(0, 6), st.booleans()), max_size=3))
def test_whatever_is_deleted_nobody_waits_for_ever(
    links: list[Link], removals: list[Removal]
) -> None:
    asyncio.run(_live_through(links, removals))


async def _live_through(links: list[Link], removals: list[Removal]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with running_flow(Path(folder), FakeEngine([a_node()], _behave)) as flow:
            keys = [await _hand_in(flow, number, link) for number, link in enumerate(links)]
            for removal in removals:
                if removal.task < len(keys):
                    await _remove(flow, keys[removal.task], removal.with_successors)
            for task in await _waiting(flow, keys):
                if task.state is State.HELD:
                    await release(flow, task.key, "ana")
            for _ in links:
                await until(lambda: _is_quiet(flow))
                waiting = await _waiting(flow, keys)
                in_vain = [task for task in waiting if IN_VAIN & set(codes(flow, task))]
                assert bool(in_vain) == bool(waiting), f"nobody says why {waiting[0].key} waits"
                for task in in_vain:
                    await release(flow, task.key, "ana", anyway=True)
            await until(lambda: _is_quiet(flow))
            assert await _waiting(flow, keys) == []


def _behave(order: LaunchOrder) -> Behaviour:
    return Behaviour(run_for_s=0, code=int(order.spec.name == "fails"))


async def _hand_in(flow: Flow, number: int, link: Link) -> TaskKey:
    after = [
        f"{1 + other}" + ("" if when == "any" else f":{when}") for other, when in link.after.items()
    ]
    spec = a_spec(name="fails" if link.fails else "", after=tuple(after), hold=not after)
    (task,) = await submit(flow, "ana", [spec], batch=False)
    assert task.id == 1 + number
    return task.key


async def _remove(flow: Flow, key: TaskKey, with_successors: bool) -> None:
    """With its successors nothing is left that waits for what is gone."""
    if await flow.store.task(key) is None:
        return
    try:
        gone = await delete(flow, key, "ana", with_successors=with_successors)
    except Conflict:  # it has just begun, because what it waited for is gone
        return
    if with_successors:
        assert not any(flow.successors.get(one) for one in gone)


async def _waiting(flow: Flow, keys: list[TaskKey]) -> list[Task]:
    found = [await flow.store.task(key) for key in keys]
    return [task for task in found if task is not None and task.state in WAITING]


def _is_quiet(flow: Flow) -> bool:
    """Nothing runs and nothing is about to."""
    is_ready = any(flow.view.ready(entry.key) is not None for entry in flow.view.entries())
    return not is_due(flow) and not flow.live and not flow.view.taken() and not is_ready
