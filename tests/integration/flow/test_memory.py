"""What memory knows after anything that people and nodes do is what a restart would find."""

from __future__ import annotations

import asyncio
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from stoker.domain.errors import RequestError
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.engines.base import AttemptNeverRan
from stoker.engines.fake import FakeEngine
from stoker.flow.again import resubmit
from stoker.flow.context import Flow
from stoker.flow.queue import edit, hold, move, release, requeue
from stoker.flow.recover import recover
from stoker.flow.remove import delete
from stoker.flow.stop import cancel
from stoker.flow.submit import submit
from stoker.store.logs import LogFolder
from stoker.store.recorder import open_store
from tests.helpers.builders import a_spec
from tests.helpers.flows import engine_of, later, like, running_flow, say, settled

from .conftest import waiting_engine

SWEEP = {"lr": ("1e-3", "1e-4"), "seed": ("0", "1", "2", "3", "4")}
STEPS = 60


class People:
    """They do all sorts of things, several at the same moment."""

    def __init__(self, flow: Flow, seed: int) -> None:
        self.flow, self.random = flow, random.Random(seed)
        self.keys: list[TaskKey] = []

    async def live(self) -> None:
        for _ in range(STEPS):
            acts = [self._act() for _ in range(self.random.randint(1, 3))]
            for result in await asyncio.gather(*acts, return_exceptions=True):
                assert result is None or isinstance(result, RequestError), result
        await settled(self.flow)

    async def _act(self) -> None:
        flow, pick = self.flow, self.random.choice
        key = pick(self.keys) if self.keys else TaskKey(1)
        act = pick(
            (
                self._submit, self._submit, self._edit, self._finish, self._finish, self._never_ran,
                self._pass_time, lambda k: hold(flow, k, "ana"),
                lambda k: release(flow, k, "ana", anyway=self.random.random() < 0.3),
                lambda k: move(flow, k, pick(("first", "last")), None, "ana"),
                lambda k: move(flow, k, pick(("before", "after")), pick(self.keys or [k]), "ana"),
                lambda k: requeue(flow, k, "ana"), lambda k: cancel(flow, k, "ana"),
                lambda k: delete(flow, k, "ana", with_successors=self.random.random() < 0.3),
                self._resubmit,
            )
        )  # fmt: skip
        await act(key)

    def _fields(self) -> dict[str, Any]:
        chance, pick = self.random.random, self.random.choice
        fields: dict[str, Any] = {"gpus": pick((0, 1, 1, 2, 4)), "hold": chance() < 0.2}
        if chance() < 0.4:
            fields["array"] = pick(("0-2", "0-5%2", "3", "0-9%1"))
            if chance() < 0.3:
                fields |= {"sweep": SWEEP, "command": ("x", "{lr}", "{seed}")}
        if self.keys and chance() < 0.4:
            after = (f"{pick(self.keys)}{pick((':ok', ':notok', ''))}" for _ in range(2))
            fields["after"] = tuple(after)
        return fields | {"urgent": chance() < 0.2, "retries": pick((0, 0, 1))}

    async def _submit(self, _key: TaskKey) -> None:
        made = await submit(self.flow, "ana", [a_spec(**self._fields())], batch=False)
        self._know(made[0])

    async def _resubmit(self, key: TaskKey) -> None:
        made = await resubmit(self.flow, key, "ana")
        self._know(made)

    def _know(self, task: Task) -> None:
        self.keys.append(task.key)
        if task.is_array:
            self.keys += [TaskKey(task.id, 0), TaskKey(task.id, 3)]

    async def _edit(self, key: TaskKey) -> None:
        fields = self._fields()
        task = await self.flow.store.task(TaskKey(key.id))
        if task is not None and (key.element >= 0 or self.random.random() < 0.5):
            fields |= {"array": task.spec.array, "sweep": task.spec.sweep}
        base = task.spec if task is not None else a_spec()
        await edit(self.flow, key, like(base, **fields), None, "ana")

    async def _finish(self, _key: TaskKey) -> None:
        running = list(engine_of(self.flow).runs)
        if running:
            engine_of(self.flow).finish(self.random.choice(running), self.random.choice((0, 1)))

    async def _never_ran(self, _key: TaskKey) -> None:
        self.flow.failures.clear()
        live = [one for one in self.flow.live.values() if one.task.state is State.STARTING]
        if live:
            id = self.random.choice(live).attempt.id
            engine_of(self.flow).runs.pop(id, None)
            say(self.flow, AttemptNeverRan(attempt=id))

    async def _pass_time(self, _key: TaskKey) -> None:
        later(self.flow, self.random.choice((1, 30)))


def known(flow: Flow) -> dict[str, object]:
    """Everything that is mirrored, in a form that compares."""
    return {
        "line": {one.key: structs.replace(one, tries=0) for one in flow.view.entries()},
        "ready": {one.key for one in flow.view.entries() if flow.view.ready(one.key)},
        "taken": {a: (h.key, h.allocations) for a, h in flow.view.taken().items()},
        "live": {attempt: live.task for attempt, live in flow.live.items()},
        "successors": flow.successors,
        "urgent": flow.urgent,
        "arrays": {
            id: (one.state, one.version, one.size, one.folded, one.leaving, one.open, one.outcomes)
            for id, one in flow.arrays.items()
        },
        "parked": {
            TaskKey(id, element): structs.replace(entry, tries=0)
            for id, one in flow.arrays.items()
            for element, entry in one.parked.items()
        },
    }


@pytest.mark.parametrize("seed", range(12))
async def test_memory_is_what_a_restart_would_find(tmp_path: Path, seed: int) -> None:
    async with running_flow(tmp_path, waiting_engine()) as flow:
        await People(flow, seed).live()
    # Its loop was stopped wherever it was: what was recorded by then is known as well.
    clock = flow.clock
    moment = clock.now()
    flow.view.tick(moment)
    before = known(flow)
    with closing(open_store(tmp_path / "stoker.db")) as store:
        again = Flow(
            store=store,
            engine=FakeEngine([]),
            logs=LogFolder(tmp_path / "logs"),
            clock=clock,
            new_attempt=lambda: "",
        )
        await recover(again)
        again.view.tick(moment)
        found = known(again)
    assert {name: found[name] for name in found if found[name] != before[name]} == {}
