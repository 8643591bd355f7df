"""The quiet tail: faults are over, and everything that can run must run and end.

Nobody nudges the server. People release what is held and resume drained nodes, as they would; what
waits in vain for a task that ended otherwise is released anyway at the end.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from stoker.domain.dependency import parse_after
from stoker.domain.errors import RequestError
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import WAITING, State, Task
from stoker.domain.queue import Queue
from stoker.domain.sweep import is_array
from stoker.flow import nodes, pause, queue, stop
from stoker.flow.context import Flow
from stoker.scheduler.policy import Policy

from .judge import came_true

if TYPE_CHECKING:
    from .simulation import Simulation

STEP_S = 20.0
STILL_S = 1500.0
"""Longer than any run, limit and pause of the scenarios: nothing for so long means never."""


MOST_S = 30_000.0
"""More than all tasks of a scenario need one after another."""


class Tail:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._records, self._history = simulation.records, simulation.history
        self._capacity = simulation.capacity
        self._commits = -1
        self._still_s = 0.0
        self._anyway: set[TaskKey] = set()

    async def run(self) -> None:
        waited = 0
        while (flow := self._flow()) is None:
            await asyncio.sleep(1.0)
            waited += 1
            if waited > 120:
                self._history.broken("R9", "no server comes up any more")
                return
        self._ease(flow)
        self._let_time_pass()
        begun = self._simulation.loop.time()
        while True:
            await asyncio.sleep(STEP_S)
            flow = self._flow()
            if flow is None or self._simulation.is_hopeless:
                return
            self._simulation.watch()
            await self._help(flow)
            if self._is_over():
                break
            self._watch(flow)
            if self._still_s > STILL_S or self._simulation.loop.time() > begun + MOST_S:
                self._stuck(flow)
                return
        await asyncio.sleep(60.0)  # the last logs are copied, the nodes may forget
        self._at_end()

    def _flow(self) -> Flow | None:
        server = self._simulation.server
        return server.flow if server is not None and server.is_ready else None

    def _ease(self, flow: Flow) -> None:
        """No quota, no limit of a queue: what waits now waits for room."""
        old = self._simulation.checker.policy
        policy = Policy(
            order=old.order,
            weights=old.weights,
            queues={name: Queue(name=name) for name in ("default", "short")},
            keep_s=old.keep_s,
            patient_s=old.patient_s,
        )
        self._simulation.checker.policy_set(policy)
        flow.set_policy(policy)

    def _let_time_pass(self) -> None:
        """Who was told to wait until four o'clock waits until four: let it be four."""
        now = self._simulation.clock.now()
        moments = [
            datetime.fromisoformat(task.spec.start_after)
            for task in self._records.tasks.values()
            if task.spec.start_after and task.state in WAITING
        ]
        latest = max(moments, default=now)
        self._simulation.clock.off_s += max(0.0, (latest - now).total_seconds())

    async def _help(self, flow: Flow) -> None:
        """What people do about what needs them."""
        await self._try(pause.unpause(flow, who="ana"))
        for name, node in self._simulation.nodes.items():
            if self._still_s:
                node.sample()
            room = flow.view.rooms.get(name)
            if room is not None and room.drained and not self._is_stuck(name):
                self._simulation.checker.resumed(name)
                await self._try(nodes.resume(flow, name, "ana"))
        for task in self._waiting():
            if task.state is State.HELD:
                await self._try(queue.release(flow, task.key, "ana"))
            elif not self._capacity.could_ever(task.spec, self._simulation.checker.policy):
                if task.state is State.QUEUED:  # accepted while the fleet was not known
                    await self._try(stop.cancel(flow, task.key, "ana"))
            elif task.state is State.QUEUED and self._is_in_vain(task) and self._still_s > 60:
                self._anyway.add(task.key)
                await self._try(queue.release(flow, task.key, "ana", anyway=True))

    def _waiting(self) -> list[Task]:
        return [task for task in self._records.tasks.values() if task.state in WAITING]

    async def _try(self, work: object) -> None:
        try:
            await work  # type: ignore[misc]
        except RequestError as error:
            self._history.add(f"tail: refused {error.code}")

    def _is_stuck(self, node: str) -> bool:
        alive = self._simulation.truth.alive.values()
        return any(process.node == node and process.stuck for process in alive)

    def _is_in_vain(self, task: Task) -> bool:
        """It waits for an end that will not come."""
        for text in task.spec.after:
            dependency = parse_after(text)
            assert dependency is not None
            outcome = self._records.outcome(dependency.key)
            if outcome is not None and not came_true(dependency.when, outcome):
                return True
        return False

    def _is_over(self) -> bool:
        return all(task.state is State.FINISHED for task in self._records.tasks.values())

    def _watch(self, flow: Flow) -> None:
        """R8: while nothing happens, nothing that fits may wait."""
        if self._records.commits != self._commits:
            self._commits, self._still_s = self._records.commits, 0.0
            return
        self._still_s += STEP_S
        if self._still_s >= 3 * STEP_S and not any(map(self._is_stuck, self._simulation.nodes)):
            self._look_for_idle_cards(flow)
            self._look_at_counts(flow)

    def _look_for_idle_cards(self, flow: Flow) -> None:
        policy = self._simulation.checker.policy
        ready = [task for task in self._waiting() if self._is_ready(task)]
        if policy.order != "fifo" and any(policy.weight(task.owner) < 0 for task in ready):
            return
        for task in ready:
            kept = {
                part.node
                for held in flow.view.reservations.values()
                for part in held.kept
                if held.key != task.key
            }
            node = self._capacity.room_for(task.spec, task.owner, policy, kept)
            if node is not None:
                self._history.broken("R8", f"task {task.key} waits and fits on {node}")
                return

    def _look_at_counts(self, flow: Flow) -> None:
        """What limits of waiting tasks are measured by is what the records say."""
        counted: dict[str, dict[str, int]] = {}
        for task in self._waiting():
            places = len(self._records.folded(task)) if task.is_array else 1
            queue = task.spec.queue or "default"
            if places:
                queues = counted.setdefault(task.owner, {})
                queues[queue] = queues.get(queue, 0) + places
        if flow.in_line != counted:
            self._history.broken("count", f"counted {flow.in_line}, recorded {counted}")

    def _is_ready(self, task: Task) -> bool:
        lately = self._simulation.clock.now() - timedelta(seconds=5)
        if task.state is not State.QUEUED or (task.not_before and task.not_before > lately):
            return False
        if task.spec.start_after and datetime.fromisoformat(task.spec.start_after) > lately:
            return False
        if is_array(task.spec) and not self._may_go_on(task):
            return False
        for text in task.spec.after if not task.anyway else ():
            dependency = parse_after(text)
            assert dependency is not None
            if not came_true(dependency.when, self._records.outcome(dependency.key)):
                return False
        return True

    def _may_go_on(self, task: Task) -> bool:
        """Of an array or one of its elements: its cap allows another one."""
        array = self._records.tasks.get(TaskKey(task.id))
        if array is None or array.state is not State.QUEUED:
            return False
        if task.is_array and not self._records.folded(task):
            return False
        _, _, cap = task.spec.array.partition("%")
        return not cap or self._records.live_elements(task.id) < int(cap)

    def _stuck(self, flow: Flow) -> None:
        left = [t for t in self._records.tasks.values() if t.state is not State.FINISHED]
        waiting = [t for t in left if t.state in WAITING]
        shown = ", ".join(f"{t.key} {t.state}" for t in left[:8])
        self._history.broken(
            "R8", f"{len(left)} tasks never end ({len(waiting)} never start): {shown}"
        )

    def _at_end(self) -> None:
        simulation = self._simulation
        server = simulation.server
        assert server is not None
        assert server.store is not None
        simulation.checker.compare(server.stored_tasks(), server.store.check())
        simulation.checker.logs_are_kept(lambda id: simulation.shelf.has(id, 0, "stdout"))
        for process in simulation.truth.alive.values():
            self._history.broken("R8", f"a process of {process.task} is still there")
        for name, node in simulation.nodes.items():
            left = [part.id[:8] for part in node.spool.records.values() if self._is_ours(part.id)]
            if left:
                self._history.broken("R8", f"{name} was never told to forget {left}")

    def _is_ours(self, attempt: str) -> bool:
        """Of a deleted task nothing is known: the node keeps it, in doubt."""
        return self._records.attempts[attempt].key not in self._records.deleted
