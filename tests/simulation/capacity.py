"""Whether a task could start, worked out again from the records: slow, plain, on its own.

It decides less than the scheduler does: only "there is certainly room". Measured memory counts at
its worst, so that a sample on its way can make no difference.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.domain.node import Gpu, Node
from stoker.domain.queue import Queue
from stoker.domain.task import TaskSpec
from stoker.scheduler.needs import matches
from stoker.scheduler.policy import Policy

from .records import Records
from .truth import Truth

QUANTUM_MIB = 256


class Capacity:
    def __init__(self, records: Records, truth: Truth, nodes: Mapping[str, Node]) -> None:
        self._records, self._truth, self._nodes = records, truth, nodes
        self._possible: dict[int, tuple[TaskSpec, Policy, bool]] = {}

    def room_for(self, spec: TaskSpec, owner: str, policy: Policy, but: set[str]) -> str | None:
        """A node where it certainly fits, other than these."""
        queue = policy.queue(spec.queue or "default")
        for name, node in self._nodes.items():
            if name in but or (spec.node and spec.node != name):
                continue
            if queue.nodes is not None and name not in queue.nodes:
                continue
            if self._fits(spec, owner, node, queue, reuse_any=policy.reuse_any):
                return name
        return None

    def could_ever(self, spec: TaskSpec, policy: Policy) -> bool:
        """Whether some node could run it if it were empty."""
        known = self._possible.get(id(spec))
        if known is not None and known[:2] == (spec, policy):
            return known[2]
        could = self._could_ever(spec, policy)
        self._possible[id(spec)] = (spec, policy, could)
        return could

    def _could_ever(self, spec: TaskSpec, policy: Policy) -> bool:
        queue = policy.queue(spec.queue or "default")
        cpus = spec.cpus if spec.cpus is not None else int(spec.gpus == 0)
        for name, node in self._nodes.items():
            suited = {
                gpu.index
                for gpu in node.gpus
                if matches(spec.gpu_model, gpu.model)
                and matches(queue.models, gpu.model)
                and (spec.mode != "shared" or (spec.gpu_memory_mib or 0) <= gpu.memory_mib)
            }
            if (
                spec.node in ("", name)
                and (queue.nodes is None or name in queue.nodes)
                and len(suited) >= spec.gpus
                and set(spec.gpu_ids) <= suited
                and cpus <= node.cpus
                and (spec.memory_mib or 0) <= node.memory_mib
            ):
                return True
        return False

    def _fits(
        self, spec: TaskSpec, owner: str, node: Node, queue: Queue, *, reuse_any: bool
    ) -> bool:
        held = [a for a in self._records.live.values() if a.allocation.node == node.name]
        cpus = spec.cpus if spec.cpus is not None else int(spec.gpus == 0)
        if cpus > node.cpus - sum(a.allocation.cpus for a in held):
            return False
        if (spec.memory_mib or 0) > node.memory_mib - sum(a.allocation.memory_mib for a in held):
            return False
        open_cards = {
            gpu.index
            for gpu in node.gpus
            if matches(spec.gpu_model, gpu.model)
            and matches(queue.models, gpu.model)
            and self._is_open(spec, owner, node, gpu, reuse_any=reuse_any)
        }
        return len(open_cards) >= spec.gpus and set(spec.gpu_ids) <= open_cards

    def _is_open(
        self, spec: TaskSpec, owner: str, node: Node, gpu: Gpu, *, reuse_any: bool
    ) -> bool:
        holders = self._records.on_card(node.name, gpu.uuid)
        exclusive = [a for _, a in holders if a.spec.mode == "exclusive"]
        if spec.mode == "exclusive":
            return len(exclusive) == len(holders) < gpu.slots
        busy = min(100, 40 * len(self._truth.on_card(node.name, gpu.uuid)))
        if 100 - busy < (spec.gpu_free_percent or 0):
            return False
        if spec.mode == "reuse":
            return reuse_any or all(a.owner == owner for a in exclusive)
        return not exclusive and self._free_mib(node, gpu) >= (spec.gpu_memory_mib or 0)

    def _free_mib(self, node: Node, gpu: Gpu) -> int:
        used = 0
        for id, attempt in self._records.on_card(node.name, gpu.uuid):
            process = self._truth.processes.get(id)
            measured = process.memory_mib if process is not None else 0
            measured = -(-measured // QUANTUM_MIB) * QUANTUM_MIB
            used += max(attempt.allocation.gpu_memory_mib, measured)
        return gpu.memory_mib - used
