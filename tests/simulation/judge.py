"""Single judgements of the checker, as functions of plain values."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.domain.lifecycle import Task
from stoker.domain.node import Gpu
from stoker.domain.outcome import End
from stoker.runner.protocol import Exit
from stoker.scheduler.policy import Policy

from .records import Recorded


def came_true(when: str, outcome: str | None) -> bool:
    """Whether a task that waits for this end of another one may go on."""
    if outcome is None:
        return False
    if when == "any":
        return True
    if outcome == "deleted":
        return False
    return (outcome == "succeeded") is (when == "ok")


def clash(
    task: Task, slot: int, holders: Sequence[Recorded], gpu: Gpu, policies: Sequence[Policy]
) -> str:
    """Why this task may not have this card beside these holders; "" = it may."""
    exclusive = [a for a in holders if a.spec.mode == "exclusive"]
    if task.spec.mode == "exclusive":
        if len(exclusive) != len(holders):
            return "an exclusive task beside others"
        taken = [g.slot for a in exclusive for g in a.allocation.gpus if g.uuid == gpu.uuid]
        return "its slot is taken" if slot in taken or slot >= gpu.slots else ""
    if task.spec.mode == "shared":
        reserved = sum(a.allocation.gpu_memory_mib for a in holders)
        if exclusive:
            return "it is held exclusively"
        want = task.spec.gpu_memory_mib or 0
        return "its memory is promised" if reserved + want > gpu.memory_mib else ""
    strangers = [a for a in exclusive if a.owner != task.owner]
    if strangers and not any(policy.reuse_any for policy in policies):
        return "another owner holds it exclusively"
    return ""


def differs(end: End, real: Exit | None) -> str:
    """How a recorded end is not the real one; "" = it is."""
    if real is None:
        return f"nobody can know its end, and it is recorded as {end.outcome}"
    if end.outcome == "timed_out":
        return "" if real.cause == "limit" else f"it ended by {real.cause}, not by its limit"
    if real.cause != "exit":
        return f"it ended by {real.cause} and is recorded as {end.outcome}"
    if end.exit_code != real.code or (end.outcome == "succeeded") != (real.code == 0):
        return f"it ended with {real.code} and is recorded as {end.outcome} {end.exit_code}"
    return ""
