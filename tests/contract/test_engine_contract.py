"""One suite for every engine: fake, and the fleet with a real runner on this machine."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import sys
import venv
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import structs

from stoker.domain.attempt import Attempt
from stoker.domain.errors import EngineRefused, EngineUnreachable, UnknownLog
from stoker.domain.lifecycle import State
from stoker.domain.task import TaskSpec
from stoker.engines.base import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    Engine,
    ExtendOrder,
    Fact,
    LaunchOrder,
    LiveAttempt,
    NodeCalls,
    NodeUp,
    StopOrder,
)
from stoker.engines.fake import Behaviour, FakeEngine
from stoker.engines.fleet.engine import FleetEngine
from stoker.engines.fleet.local import LocalRunner
from stoker.runner import build
from tests.helpers.builders import NOON, a_node, a_spec, an_allocation
from tests.helpers.runner_client import RunnerProcess, runner_file

F = TypeVar("F", bound=Fact)
PATIENCE_S = 20


class Bench:
    """An engine under test, and what it has said so far."""

    def __init__(
        self, engine: Engine, life: NodeUp, facts: AsyncIterator[Fact], mark: Path
    ) -> None:
        self.engine, self.life, self.facts, self.mark = engine, life, facts, mark
        self.numbers = itertools.count(life.highest + 1)
        self.seen: list[Fact] = []

    def attempt(self) -> Attempt:
        return Attempt(
            id=secrets.token_hex(16),
            task_id=1,
            task_element=-1,
            ordinal=1,
            allocation=an_allocation(self.life.node.name),
            incarnation=self.life.incarnation,
            launch_number=next(self.numbers),
            epoch=1,
            placed_at=NOON,
        )

    def order(self, spec: TaskSpec) -> LaunchOrder:
        return LaunchOrder(attempt=self.attempt(), spec=spec, owner="ana")

    async def until(self, kind: type[F], attempt: str) -> F:
        async with asyncio.timeout(PATIENCE_S):
            for fact in self.seen:
                if isinstance(fact, kind) and getattr(fact, "attempt", None) == attempt:
                    return fact
            async for fact in self.facts:
                self.seen.append(fact)
                if isinstance(fact, kind) and getattr(fact, "attempt", None) == attempt:
                    return fact
        raise AssertionError

    async def until_it_runs(self) -> None:
        """An attempt has started before its command has said so."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.runs():
                await asyncio.sleep(0.01)

    def runs(self) -> int:
        """How often a command that marks its start has begun."""
        if isinstance(self.engine, FakeEngine):
            return len(self.engine.launches)
        return len(self.mark.read_text()) if self.mark.exists() else 0


def behave(order: LaunchOrder) -> Behaviour:
    """What the commands of this suite do, without processes."""
    text = str(order.spec.command)
    code = 7 if "exit 7" in text else 0
    return Behaviour(
        run_for_s=None if "sleep 600" in text else 0.01, code=code, output=b"to be read\n"
    )


def fleet(folder: Path) -> tuple[FleetEngine, RunnerProcess]:
    spool = folder / "spool"
    runner = RunnerProcess(spool, simulate_gpus=2)
    transport = LocalRunner(
        spool=spool,
        program=runner_file(),
        build=build.build_id(),
        node="node-a",
        simulate_gpus=2,
        environ={**os.environ, **runner.env},
        python=sys.executable,
    )
    return FleetEngine({"node-a": transport}), runner


@pytest.fixture(params=["fake", "fleet"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    runner: RunnerProcess | None = None
    engine: Engine
    if request.param == "fake":
        engine = FakeEngine([a_node()], behave)
    else:
        engine, runner = fleet(tmp_path)
    await engine.start(epoch=1)
    facts = engine.facts()
    async with asyncio.timeout(PATIENCE_S):
        life = await anext(facts)
    assert isinstance(life, NodeUp)
    yield Bench(engine, life, facts, tmp_path / "mark")
    await engine.close()
    if runner is not None:
        runner.end()


def script(bench: Bench, then: str) -> TaskSpec:
    return a_spec(command=f"printf x >> {bench.mark}; echo to be read; {then}", grace_s=1)


async def test_an_attempt_runs_and_its_exit_code_is_the_real_one(bench: Bench) -> None:
    order = bench.order(script(bench, "exit 7"))
    bench.engine.launch([order])

    end = await bench.until(AttemptEnded, order.attempt.id)

    assert (end.end.outcome, end.end.exit_code) == ("failed", 7)
    assert bench.runs() == 1


async def test_a_launch_may_be_repeated_and_runs_once(bench: Bench) -> None:
    order = bench.order(script(bench, "sleep 0.1"))
    for _ in range(5):
        bench.engine.launch([order, order])
    await bench.until(AttemptEnded, order.attempt.id)
    bench.engine.launch([order])
    other = bench.order(script(bench, "true"))
    bench.engine.launch([other])
    await bench.until(AttemptEnded, other.attempt.id)

    assert bench.runs() == 2


async def test_stop_ends_it_and_may_be_repeated(bench: Bench) -> None:
    order = bench.order(script(bench, "sleep 600"))
    bench.engine.launch([order])
    await bench.until(AttemptStarted, order.attempt.id)
    stop = StopOrder(attempt=order.attempt, cause="cancel", grace_s=1)
    for _ in range(3):
        bench.engine.stop([stop])

    end = await bench.until(AttemptEnded, order.attempt.id)

    assert end.end.outcome == "cancelled"


async def test_what_is_stopped_to_run_again_says_so(bench: Bench) -> None:
    begun, unsent = bench.order(script(bench, "sleep 600")), bench.order(script(bench, "true"))
    bench.engine.launch([begun])
    await bench.until(AttemptStarted, begun.attempt.id)
    await bench.until_it_runs()
    for order in (begun, unsent):
        bench.engine.stop([StopOrder(attempt=order.attempt, cause="requeue", grace_s=1)])

    for order in (begun, unsent):
        assert (await bench.until(AttemptEnded, order.attempt.id)).requeue
    assert bench.runs() == 1


async def test_what_was_stopped_before_it_began_never_begins(bench: Bench) -> None:
    order = bench.order(script(bench, "true"))
    bench.engine.stop([StopOrder(attempt=order.attempt, cause="cancel", grace_s=1)])
    end = await bench.until(AttemptEnded, order.attempt.id)
    bench.engine.launch([order])
    other = bench.order(script(bench, "true"))
    bench.engine.launch([other])
    await bench.until(AttemptEnded, other.attempt.id)

    assert end.end.outcome == "cancelled"
    assert bench.runs() == 1


async def test_output_is_read_by_offset_until_it_is_forgotten(bench: Bench) -> None:
    order = bench.order(script(bench, "true"))
    bench.engine.launch([order])
    await bench.until(AttemptEnded, order.attempt.id)
    read = bench.engine.read_log

    whole = await read(order.attempt, 0, "stdout", 0, 1 << 20)
    at = whole.data.index(b"to be read")
    part = await read(order.attempt, 0, "stdout", at + 3, 4)
    assert (part.offset, part.data, part.size) == (at + 3, b"be r", len(whole.data))

    bench.engine.forget("node-a", [order.attempt])
    async with asyncio.timeout(PATIENCE_S):
        while await is_readable(bench, order.attempt):
            await asyncio.sleep(0.01)


async def test_a_new_server_finds_what_the_old_one_began(
    bench: Bench, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """`reconcile` with a running, a never begun and a half stopped attempt."""
    running = bench.order(script(bench, "sleep 600"))
    stopping = bench.order(script(bench, "sleep 600"))
    bench.engine.launch([running, stopping])
    await bench.until(AttemptStarted, running.attempt.id)
    await bench.until(AttemptStarted, stopping.attempt.id)
    unsent = bench.order(script(bench, "true"))
    engine = bench.engine
    await engine.close()
    if isinstance(engine, FleetEngine):
        engine, _ = fleet(tmp_path)
        bench.engine = engine
    expected = [
        live(running, State.RUNNING),
        live(unsent, State.STARTING),
        live(stopping, State.STOPPING),
    ]
    engine.reconcile(expected)
    await engine.start(epoch=2)
    bench.facts, bench.seen = engine.facts(), []

    assert (await bench.until(AttemptEnded, unsent.attempt.id)).end.outcome == "succeeded"
    assert (await bench.until(AttemptEnded, stopping.attempt.id)).end.outcome == "cancelled"
    engine.stop([StopOrder(attempt=running.attempt, cause="cancel", grace_s=1)])
    assert (await bench.until(AttemptEnded, running.attempt.id)).end.outcome == "cancelled"
    assert bench.runs() == 3
    await engine.close()


async def test_a_limit_ends_it_unless_it_was_extended_before(bench: Bench) -> None:
    spec = structs.replace(script(bench, "sleep 600"), time_limit_s=2)
    short, long = bench.order(spec), bench.order(spec)
    bench.engine.launch([short, long])
    for order in (short, long):
        await bench.until(AttemptStarted, order.attempt.id)
    more = ExtendOrder(attempt=long.attempt, time_limit_s=600, serial=2)
    for _ in range(3):
        bench.engine.extend([more])

    end = await bench.until(AttemptEnded, short.attempt.id)

    assert (end.end.outcome, end.end.reason) == ("timed_out", "time_limit")
    assert not [f for f in bench.seen if isinstance(f, AttemptEnded) and f is not end]
    # And it may be shortened, too.
    bench.engine.extend([ExtendOrder(attempt=long.attempt, time_limit_s=1, serial=3)])
    assert (await bench.until(AttemptEnded, long.attempt.id)).end.outcome == "timed_out"
    bench.engine.extend([more])  # too late: nobody minds


async def test_a_limit_that_never_arrived_is_said_again_by_a_new_server(
    bench: Bench, tmp_path: Path
) -> None:
    spec = structs.replace(script(bench, "sleep 600"), time_limit_s=600)
    order = bench.order(spec)
    bench.engine.launch([order])
    await bench.until(AttemptStarted, order.attempt.id)
    engine = bench.engine
    await engine.close()
    if isinstance(engine, FleetEngine):
        engine, _ = fleet(tmp_path)
        bench.engine = engine
    extended = structs.replace(order, spec=structs.replace(spec, time_limit_s=1))
    engine.reconcile([live(extended, State.RUNNING)])
    await engine.start(epoch=2)
    bench.facts, bench.seen = engine.facts(), []

    assert (await bench.until(AttemptEnded, order.attempt.id)).end.outcome == "timed_out"
    await engine.close()


async def test_an_attempt_that_a_node_does_not_know_is_lost_not_ended(bench: Bench) -> None:
    """Its record vanished while it ran: nobody may guess how it ended."""
    ghost = bench.order(script(bench, "sleep 600"))
    bench.engine.reconcile([live(ghost, State.RUNNING)])
    await bench.engine.close()
    await bench.engine.start(epoch=2)

    fact = await bench.until(AttemptLost, ghost.attempt.id)

    assert fact.evidence == "spool_gone"
    assert bench.runs() == 0


async def test_a_node_can_be_asked(bench: Bench, tmp_path: Path) -> None:
    """The optional interface, which both have."""
    engine = bench.engine
    assert isinstance(engine, NodeCalls)
    venv.create(tmp_path / "my venv")
    args = {"environment": str(tmp_path / "my venv")}

    found = await engine.call("node-a", "", "check_environment", args)

    assert (found["code"], found["prefix"]) == ("", args["environment"])
    with pytest.raises(EngineRefused):
        await engine.call("node-a", "", "no_such_verb", {})
    with pytest.raises(EngineUnreachable):
        await engine.call("node-z", "", "check_environment", args)


async def is_readable(bench: Bench, attempt: Attempt) -> bool:
    try:
        await bench.engine.read_log(attempt, 0, "stdout", 0, 10)
    except UnknownLog:
        return False
    return True


def live(order: LaunchOrder, state: State) -> LiveAttempt:
    return LiveAttempt(
        attempt=order.attempt,
        state=state,
        spec=order.spec,
        owner=order.owner,
        stop_cause="cancel" if state is State.STOPPING else None,
    )
