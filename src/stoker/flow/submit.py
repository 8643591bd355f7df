"""A person hands over tasks. Accepted means recorded: the answer comes after the commit.

A task that fits at once is recorded as submitted and placed in one transaction. Nothing is ever
accepted that could not run on any node we know.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.domain.checks import check
from stoker.domain.errors import InvalidSpec, NeverFits
from stoker.domain.event import Submitted
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.lifecycle import submit as begin
from stoker.domain.task import TaskSpec
from stoker.scheduler.fit import Fits, Never, Waits, fit
from stoker.scheduler.view import Needs, needs_of
from stoker.store.base import Change

from .commit import commit
from .context import Flow
from .launch import launch
from .place import Intent, give_back, intend


async def submit(flow: Flow, owner: str, specs: Sequence[TaskSpec], *, batch: bool) -> list[Task]:
    """All of them, or none. A refusal names the field, and in a batch the task."""
    answers: dict[Needs, Fits | Waits] = {}
    needs = [
        _accept(flow, spec, f"tasks[{number}]." if batch else "", answers)
        for number, spec in enumerate(specs)
    ]
    judged, openings = not flow.unplanned, flow.view.openings
    now = flow.clock.now()
    ids = flow.store.next_ids(len(specs))
    events = [
        Submitted(at=now, owner=owner, spec=spec, position=id)
        for id, spec in zip(ids, specs, strict=True)
    ]
    tasks = [begin(TaskKey(id), event) for id, event in zip(ids, events, strict=True)]
    intents = _place_at_once(flow, tasks, needs, answers)
    changes = [
        _change(task, event, intents.get(task.key))
        for task, event in zip(tasks, events, strict=True)
    ]
    try:
        await commit(flow, changes)
    except BaseException:  # also a caller that hung up: whatever is raised, nothing is recorded
        for intent in intents.values():
            give_back(flow, intent)
        raise
    launch(flow, list(intents.values()))
    for change, need in zip(changes, needs, strict=True):
        task = change.task
        if task.state is State.QUEUED:
            flow.view.enqueue(task.key, need, task.position, task.version)
    if not judged or flow.view.openings != openings:  # what was said of them no longer holds
        flow.replan()
    return [change.task for change in changes]


def _accept(flow: Flow, spec: TaskSpec, prefix: str, answers: dict[Needs, Fits | Waits]) -> Needs:
    """What it needs, if that could ever be given; equal needs are looked at once."""
    try:
        check(spec)
    except InvalidSpec as error:
        error.field = prefix + error.field
        raise
    needs = needs_of(spec)
    if needs in answers:
        return needs
    answer = fit(needs, flow.view.rooms.values())
    if isinstance(answer, Never):
        reason = answer.reasons[0]
        field = {"no_such_gpu": "gpu_ids", "too_many_cpus": "cpus", "too_much_memory": "memory_mib"}
        raise NeverFits(reason.code, field=prefix + field.get(reason.code, "gpus"), **reason.values)
    answers[needs] = answer
    return needs


def _place_at_once(
    flow: Flow,
    tasks: Sequence[Task],
    needs: Sequence[Needs],
    answers: dict[Needs, Fits | Waits],
) -> dict[TaskKey, Intent]:
    """Intents for those that fit now. Only when nobody in line could have a better claim."""
    intents: dict[TaskKey, Intent] = {}
    if flow.unplanned:
        return intents
    for task, need in zip(tasks, needs, strict=True):
        answer = answers[need]
        if task.state is not State.QUEUED or not isinstance(answer, Fits):
            continue
        if intents:  # room only shrinks meanwhile, so a need that waits goes on waiting
            again = fit(need, flow.view.rooms.values())
            assert not isinstance(again, Never)
            answers[need] = answer = again
        if isinstance(answer, Fits):
            intents[task.key] = intend(flow, task, answer.allocation)
    return intents


def _change(task: Task, submitted: Submitted, intent: Intent | None) -> Change:
    if intent is None:
        return Change(task, (submitted,))
    return Change(intent.change.task, (submitted, *intent.change.events))
