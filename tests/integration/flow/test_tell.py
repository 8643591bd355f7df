"""Who listens is told what happens to tasks, once each."""

from __future__ import annotations

import pytest

from stoker.domain.lifecycle import State
from stoker.engines.fake import Behaviour
from stoker.flow.context import Flow
from stoker.flow.stop import cancel
from stoker.flow.tell import Told
from tests.helpers.flows import end, engine_of, one, run_to_running, settled, until, until_state


def listening(flow: Flow) -> list[Told]:
    heard: list[Told] = []
    flow.listeners.append(heard.append)
    return heard


def said(heard: list[Told]) -> list[tuple[str, str]]:
    return [(told.kind, str(told.task.key)) for told in heard]


async def test_a_start_and_an_end_are_told_once_each(flow: Flow) -> None:
    heard = listening(flow)

    key, _ = await run_to_running(flow)
    await end(flow, key, 3)
    await until(lambda: len(heard) == 2)
    await settled(flow)

    assert said(heard) == [("started", "1"), ("ended", "1")]
    assert heard[0].task.state is State.RUNNING
    last = heard[1].task.end
    assert last is not None
    assert last.exit_code == 3


async def test_a_task_that_was_over_before_we_looked_has_started_too(flow: Flow) -> None:
    engine_of(flow).behave = lambda _: Behaviour(run_for_s=0)
    heard = listening(flow)

    key = await one(flow)
    await until_state(flow, key, State.FINISHED)
    await until(lambda: len(heard) == 2)

    assert said(heard) == [("started", "1"), ("ended", "1")]
    assert heard[0].task.started_at is not None


async def test_elements_and_their_array_are_told_of(flow: Flow) -> None:
    engine_of(flow).behave = lambda _: Behaviour(run_for_s=0)
    heard = listening(flow)

    await one(flow, array="0-1")
    await until(lambda: ("ended", "1") in said(heard))

    ends = sorted(name for kind, name in said(heard) if kind == "ended")
    assert ends == ["1", "1_0", "1_1"]


async def test_what_is_cancelled_while_it_waits_has_ended(flow: Flow) -> None:
    key = await one(flow, hold=True)
    heard = listening(flow)

    await cancel(flow, key, "root")

    assert said(heard) == [("ended", "1")]
    assert heard[0].task.stopped_by == "root"


async def test_a_requeue_is_no_end(flow: Flow) -> None:
    heard = listening(flow)
    key, _ = await run_to_running(flow, retries=1)

    engine_of(flow).finish(next(iter(flow.live)), 1)
    await until_state(flow, key, State.QUEUED)

    assert said(heard) == [("started", "1")]


async def test_a_listener_that_raises_harms_nobody(
    flow: Flow, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_told: Told) -> None:
        raise RuntimeError("boom")

    flow.listeners.append(broken)
    heard = listening(flow)

    key, _ = await run_to_running(flow)
    await end(flow, key)

    await until(lambda: len(heard) == 2)
    assert "listener_failed" in caplog.text
