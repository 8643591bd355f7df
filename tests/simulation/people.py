"""What people do: each act is a request to the server that may be refused, fail or never be answered.

What was acknowledged is told to the checker, and nothing else: an answer that never came promises
nothing. Choices are drawn when the act happens, from what people have seen acknowledged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any, Protocol

from msgspec import structs

from stoker.domain.dependency import parse_after
from stoker.domain.errors import AppError, RequestError, StaleWrite, StoreDown
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import WAITING, State
from stoker.domain.task import TaskSpec
from stoker.flow import again, nodes, pause, queue, remove, retain, stop
from stoker.flow import submit as submitting
from stoker.flow.context import Clock, Flow, Retention
from stoker.flow.extend import Wish, extend
from stoker.flow.move import To

from .capacity import Capacity
from .checker import Checker
from .history import History
from .records import Records
from .scenario import Scenario, as_sweep, draw_fields, draw_policy
from .spool import Behaviour

Told = Callable[[], str]
"""What is done when the answer has arrived."""


class Answering(Protocol):
    """Whether the server that was asked still lives."""

    @property
    def is_alive(self) -> bool: ...


class People:
    def __init__(
        self,
        scenario: Scenario,
        history: History,
        records: Records,
        checker: Checker,
        capacity: Capacity,
        clock: Clock,
    ) -> None:
        self._scenario, self._history, self._records = scenario, history, records
        self._checker, self._capacity, self._clock = checker, capacity, clock
        self._rng = Random(f"people {scenario.seed}")
        self._names = 0
        self._known: list[TaskKey] = []
        """Tasks that somebody has seen accepted."""

    async def act(self, kind: str, flow: Flow, server: Answering) -> None:
        """One request, and what came of it."""
        work: Awaitable[Told] = getattr(self, f"_{kind}")(flow, server)
        try:
            told = await work
        except AppError as error:
            if server.is_alive:
                self._history.add(f"act {kind}: {type(error).__name__} {error.code}")
                if not isinstance(error, StoreDown | RequestError):
                    self._history.broken("error", f"{kind} raised {error!r}")
            return
        if server.is_alive:
            self._history.add(f"act {kind}: {told()}")

    # ---- acts

    async def _submit(self, flow: Flow, server: Answering) -> Told:
        rng = self._rng
        count = rng.choice((1, 1, 1, 1, 1, 1, 1, 2, 4))
        owner = rng.choice(self._scenario.people)
        specs = [self._spec() for _ in range(count)]
        known = len(flow.view.rooms) == len(self._scenario.nodes)
        could = [not known or self._capacity.could_ever(spec, flow.policy) for spec in specs]
        try:
            tasks = await submitting.submit(flow, owner, specs, batch=count > 1)
        except AppError:
            if server.is_alive:
                self._checker.not_submitted([spec.name for spec in specs])
            raise

        def told() -> str:
            self._known += [task.key for task in tasks]
            self._checker.submitted(tasks)
            if not all(could):
                self._history.broken("never", f"{tasks[0].key} was accepted and can never run")
            return " ".join(str(task.key) for task in tasks)

        return told

    async def _cancel(self, flow: Flow, server: Answering) -> Told:
        starting = [t.key for t in self._records.tasks.values() if t.state is State.STARTING]
        key = self._pick(elements=True)
        if starting and self._rng.random() < 0.4:
            key = self._rng.choice(starting)
        if key is None:
            return _nothing
        await stop.cancel(flow, key, "ana")

        def told() -> str:
            self._checker.cancelled(key)
            return str(key)

        return told

    async def _hold(self, flow: Flow, server: Answering) -> Told:
        return await self._with_one(lambda key: queue.hold(flow, key, "ana"))

    async def _release(self, flow: Flow, server: Answering) -> Told:
        anyway = self._rng.random() < 0.3
        return await self._with_one(lambda key: queue.release(flow, key, "ana", anyway=anyway))

    async def _edit(self, flow: Flow, server: Answering) -> Told:
        key = self._pick(elements=True)
        task = None if key is None else self._records.tasks.get(key)
        if key is None or task is None:
            return _nothing
        changes = draw_fields(self._rng, self._scenario)
        changes.pop("array", None)
        if self._rng.random() < 0.3:
            changes["after"] = self._after()
        spec = structs.replace(task.spec, **changes)
        version = self._rng.choice((None, task.version, task.version, task.version - 1))
        edited = await queue.edit(flow, key, spec, version, "ana")

        def told() -> str:
            if edited.key != key:
                self._known.append(edited.key)
                self._checker.submitted([edited])
            return f"{key} as {edited.key}"

        return told

    async def _move(self, flow: Flow, server: Answering) -> Told:
        to: To = self._rng.choice(("first", "last", "before", "after"))
        other = self._pick() if to in ("before", "after") else None
        return await self._with_one(lambda key: queue.move(flow, key, to, other, "ana"))

    async def _requeue(self, flow: Flow, server: Answering) -> Told:
        return await self._with_one(lambda key: queue.requeue(flow, key, "ana"))

    async def _extend(self, flow: Flow, server: Answering) -> Told:
        """Rather something that runs: more time, less, or any."""
        rng = self._rng
        running = [t.key for t in self._records.tasks.values() if t.state is State.RUNNING]
        key = rng.choice(running) if running and rng.random() < 0.7 else self._pick(elements=True)
        if key is None:
            return _nothing
        more, limit = rng.choice((None, None, 10, 100, 1000)), rng.choice((None, 5, 60, 300, 900))
        wish = Wish(limit_s=limit, add_s=more, by="ana", beyond=rng.random() < 0.5)
        await extend(flow, key, wish)
        return lambda: f"{key} {wish.add_s} {wish.limit_s}"

    async def _delete(self, flow: Flow, server: Answering) -> Told:
        key = self._pick_predecessor() or self._pick()
        if key is None:
            return _nothing
        both = self._rng.random() < 0.5
        self._checker.may_go()
        gone = await remove.delete(flow, key, "ana", with_successors=both)

        def told() -> str:
            self._checker.deleted(gone)
            return " ".join(map(str, gone))

        return told

    async def _retain(self, flow: Flow, server: Answering) -> Told:
        """The lab keeps only so many."""
        self._checker.may_go()
        flow.retention = Retention(tasks=self._rng.randint(1, 12))
        try:
            count = await retain.retain(flow)
        finally:
            flow.retention = Retention()
        return lambda: f"{count} deleted"

    async def _resubmit(self, flow: Flow, server: Answering) -> Told:
        key = self._pick()
        if key is None:
            return _nothing
        task = await again.resubmit(flow, key, "ana")

        def told() -> str:
            self._known.append(task.key)
            self._checker.submitted([task])
            return f"{key} as {task.key}"

        return told

    async def _drain(self, flow: Flow, server: Answering) -> Told:
        name = self._rng.choice(self._scenario.nodes).name
        before = self._checker.resumes
        await nodes.drain(flow, name, "repair", "ana")

        def told() -> str:
            if self._checker.resumes == before:  # else somebody may have wanted it back meanwhile
                self._checker.drained(name)
            return name

        return told

    async def _resume(self, flow: Flow, server: Answering) -> Told:
        name = self._rng.choice(self._scenario.nodes).name
        self._checker.resumed(name)
        await nodes.resume(flow, name, "ana")

        def told() -> str:
            self._checker.resumed(name)  # somebody may have drained it meanwhile
            return name

        return told

    async def _policy(self, flow: Flow, server: Answering) -> Told:
        policy = draw_policy(self._rng, self._scenario.people, self._scenario.nodes)
        self._checker.policy_set(policy)
        flow.set_policy(policy)
        return lambda: policy.order

    async def _pause(self, flow: Flow, server: Answering) -> Told:
        return await self._decide(pause.pause(flow, "new disks", who="ana"))

    async def _unpause(self, flow: Flow, server: Answering) -> Told:
        return await self._decide(pause.unpause(flow, who="ana"))

    async def _decide(self, work: Awaitable[None]) -> Told:
        """Two may decide at the same moment: one of them has to look again."""
        try:
            await work
        except StaleWrite:
            return lambda: "somebody was faster"
        return lambda: "done"

    # ---- choices

    async def _with_one(self, work: Callable[[TaskKey], Awaitable[Any]]) -> Told:
        key = self._pick(elements=True)
        if key is None:
            return _nothing
        await work(key)
        return lambda: str(key)

    def _pick(self, *, elements: bool = False) -> TaskKey | None:
        """Some task, rather a late one; sometimes one element of an array."""
        rng = self._rng
        if not self._known:
            return None
        key = rng.choice(self._known[-30:] if rng.random() < 0.85 else self._known)
        task = self._records.tasks.get(key)
        if elements and task is not None and task.is_array and rng.random() < 0.6:
            return TaskKey(key.id, rng.randrange(12))
        return key

    def _pick_predecessor(self) -> TaskKey | None:
        """Sometimes: a task that others wait for."""
        waiting = [task for task in self._records.tasks.values() if task.state in WAITING]
        named = [parse_after(text) for task in waiting for text in task.spec.after]
        keys = [TaskKey(found.key.id) for found in named if found is not None]
        return self._rng.choice(keys) if keys and self._rng.random() < 0.5 else None

    def _after(self) -> tuple[str, ...]:
        whens = ("", ":ok", ":any", ":notok")
        picks = [self._pick(elements=True) for _ in range(self._rng.choice((1, 1, 2)))]
        return tuple(f"{key}{self._rng.choice(whens)}" for key in picks if key is not None)

    def _spec(self) -> TaskSpec:
        rng = self._rng
        self._names += 1
        fields = draw_fields(rng, self._scenario)
        behaviour = self._behaviour(fields)
        if rng.random() < (0.4 if self._scenario.theme == "arrays" else 0.12):
            fields["after"] = self._after()
        if rng.random() < 0.06 and self._scenario.theme != "clock":
            at = self._clock.now() + timedelta(seconds=rng.choice((-60, 20, 200)))
            fields["start_after"] = at.isoformat()
        fields["grace_s"] = rng.choice((0, 2, 10))
        if self._names % 2:
            fields = as_sweep(fields)
        return TaskSpec(command=behaviour.argv(), name=f"s{self._names}", workdir="/", **fields)

    def _behaviour(self, fields: dict[str, Any]) -> Behaviour:
        rng, theme = self._rng, self._scenario.theme
        run_s = rng.choice((0.05, 1.0, 1.0, 5.0, 5.0, 20.0, 20.0, 60.0, 60.0, 200.0))
        if theme == "crashes":
            run_s = rng.choice((0.05, 0.5, 3.0))
        if theme in ("clock", "full"):
            run_s = min(run_s, 60.0)
        limit = fields.get("time_limit_s")
        if theme == "full" and limit is not None:
            run_s = limit * rng.choice((0.3, 0.9, 1.0))
        if theme == "again":
            run_s = rng.choice((1.0, 5.0, 30.0, 300.0, 300.0))
        memory = fields.get("gpu_memory_mib") or 1_000
        return Behaviour(
            run_s=run_s,
            fails=rng.choice((0, 0, 0, 50, 100)),
            term_s=rng.choice((0.0, 0.1, 1.0, 60.0)),
            left_s=rng.choice((0.0, 0.0, 1.0)),
            memory_mib=int(memory * rng.choice((0.1, 0.9, 1.0, 1.1))),
            refuse=rng.choice((0,) * 12 + (30, 100)),
            ignore_kill_s=rng.choice((0.0,) * 25 + (60.0,)),
            output=rng.choice((0, 20, 20, 300)),
        )


def _nothing() -> str:
    return "nothing there"
