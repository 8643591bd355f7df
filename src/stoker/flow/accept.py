"""What is refused before anything is recorded: the same for a submit, an edit and a preview.

Nothing is ever accepted that could not run on any node we know or within any quota, that names a
queue or a task that is not there, a queue of others, or that is one urgent task too many.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from stoker.domain.checks import check
from stoker.domain.errors import Conflict, InvalidSpec, NeverFits, NotAllowed
from stoker.domain.key import TaskKey
from stoker.domain.queue import Queue
from stoker.domain.task import TaskSpec
from stoker.scheduler.fit import never_fits
from stoker.scheduler.limits import never_within
from stoker.scheduler.needs import DEFAULT_QUEUE, Needs, needs_of
from stoker.scheduler.policy import Policy

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


class Accepted(NamedTuple):
    """What will be recorded, and what that asks for."""

    spec: TaskSpec
    needs: Needs


def accept(flow: Flow, owner: str, spec: TaskSpec, prefix: str = "", *, by: str = "") -> Accepted:
    """The spec as it will be recorded: with the time limit of its queue if it says none.

    Raises InvalidSpec, NotAllowed or NeverFits. `prefix` names the task within a batch; `by` is who
    acts, when that is not the owner: an admin may put a task where its owner may not.
    """
    try:
        check(spec)
        return admit(flow, owner, spec, by=by)
    except (InvalidSpec, NotAllowed, NeverFits) as error:
        error.field = prefix + error.field
        raise


def admit(flow: Flow, owner: str, spec: TaskSpec, *, by: str = "") -> Accepted:
    """The same as far as its queue, its owner and the nodes are concerned."""
    queue = _queue_of(flow, owner, spec, by)
    spec = _limited(spec, queue)
    needs = needs_of(spec)
    _check_quota(flow, owner, queue, needs)
    if (queue.name, needs) not in flow.possible:
        never = never_fits(needs, flow.view.rooms, queue)
        if never is not None:
            reason = never.reasons[0]
            raise NeverFits(reason.code, field=FIELD.get(reason.code, "gpus"), **reason.values)
        flow.possible.add((queue.name, needs))
    return Accepted(spec, needs)


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


def _queue_of(flow: Flow, owner: str, spec: TaskSpec, by: str) -> Queue:
    policy, name = flow.policy, spec.queue or DEFAULT_QUEUE
    queue = policy.queues.get(name)
    if queue is None:
        raise InvalidSpec(
            "unknown_queue", field="queue", queue=name, have=_usable(policy, by or owner)
        )
    if not policy.may_use(owner, queue) and not (by and policy.may_use(by, queue)):
        raise NotAllowed(
            "queue_not_yours", field="queue", queue=name, have=_usable(policy, by or owner)
        )
    return queue


def _usable(policy: Policy, person: str) -> str:
    """The queues that this person may use, for a sentence; "-" = none."""
    names = [q.name for q in policy.queues.values() if policy.may_use(person, q)]
    return ", ".join(sorted(names)) or "-"


def _limited(spec: TaskSpec, queue: Queue) -> TaskSpec:
    """With the queue's own time limit, where the task says none."""
    if spec.time_limit_s is None and queue.default_limit_s is not None:
        spec = structs.replace(spec, time_limit_s=queue.default_limit_s)
    longest = queue.longest_s
    if longest is not None and (spec.time_limit_s is None or spec.time_limit_s > longest):
        raise InvalidSpec("too_long", field="time_limit_s", queue=queue.name, most=longest)
    return spec


def _check_quota(flow: Flow, owner: str, queue: Queue, needs: Needs) -> None:
    """What exceeds a limit all by itself would wait until somebody raises that."""
    never = never_within(flow.policy, owner, queue, needs.cards)
    if never is not None:
        raise NeverFits(never.code, field="gpus", **never.values)
