"""What is refused before anything is recorded: the same for a submit, an edit and a preview.

Nothing is ever accepted that could not run on any node we know, that names a queue or a task that
is not there, or that is one urgent task too many.
"""

from __future__ import annotations

from stoker.domain.checks import check
from stoker.domain.errors import Conflict, InvalidSpec, NeverFits
from stoker.domain.key import TaskKey
from stoker.domain.task import TaskSpec
from stoker.scheduler.fit import never_fits
from stoker.scheduler.needs import DEFAULT_QUEUE, needs_of

from .context import Flow

FIELD = {
    "no_such_gpu": "gpu_ids",
    "no_such_model": "gpu_model",
    "no_such_node": "node",
    "not_in_queue": "node",
    "too_many_nodes": "nodes",
    "too_much_gpu_memory": "gpu_memory_mib",
    "too_many_cpus": "cpus",
    "too_much_memory": "memory_mib",
}
"""What a reason is about; GPUs, unless it is named here."""


def accept(flow: Flow, spec: TaskSpec, prefix: str = "") -> None:
    """Raises InvalidSpec or NeverFits. `prefix` names the task within a batch."""
    try:
        check(spec)
        _check_queue(flow, spec)
    except InvalidSpec as error:
        error.field = prefix + error.field
        raise
    queue, needs = spec.queue or DEFAULT_QUEUE, needs_of(spec)
    if (queue, needs) in flow.possible:
        return
    never = never_fits(needs, flow.view.rooms, flow.policy.queue(queue))
    if never is not None:
        reason = never.reasons[0]
        field = prefix + FIELD.get(reason.code, "gpus")
        raise NeverFits(reason.code, field=field, **reason.values)
    flow.possible.add((queue, needs))


def take_urgent(flow: Flow, owner: str, key: TaskKey, prefix: str = "") -> None:
    """Count `key` among the urgent tasks of `owner`. Conflict when there are enough of them.

    Taken before it is recorded, like room: two at the same moment are one too many as well.
    """
    theirs = flow.urgent.get(owner, set())
    if key in theirs:
        return
    if len(theirs) >= flow.policy.urgent_each:
        raise Conflict("urgent_already", field=f"{prefix}urgent", task=_named(theirs))
    flow.urgent.setdefault(owner, set()).add(key)


def give_urgent_back(flow: Flow, owner: str, key: TaskKey) -> None:
    """It was not recorded."""
    theirs = flow.urgent.get(owner, set())
    theirs.discard(key)
    if not theirs:
        flow.urgent.pop(owner, None)


def _named(theirs: set[TaskKey]) -> str:
    return str(min(theirs)) if theirs else ""


def _check_queue(flow: Flow, spec: TaskSpec) -> None:
    name = spec.queue or DEFAULT_QUEUE
    queue = flow.policy.queues.get(name)
    if queue is None:
        have = ", ".join(sorted(flow.policy.queues))
        raise InvalidSpec("unknown_queue", field="queue", queue=name, have=have)
    longest = queue.longest_s
    if longest is not None and (spec.time_limit_s is None or spec.time_limit_s > longest):
        raise InvalidSpec("too_long", field="time_limit_s", queue=name, most=longest)
