"""Dependencies: whether what a task waits for is there, has ended, or waits for the task itself.

A predecessor that ends is told to the view by `follow`. One that ended before somebody began to
wait for it is looked up here, by the loop: first in line, then the look, so that no end is missed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, cast

from stoker.domain.dependency import Dependency, comes_true, parse_after
from stoker.domain.errors import InvalidSpec, StoreDown
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.outcome import Outcome
from stoker.domain.task import TaskSpec

from .arrays import indices_of
from .context import Flow

Ending = Outcome | Literal["deleted"] | None
"""How a task ended; None = it has not."""


def after_of(spec: TaskSpec) -> list[Dependency]:
    """What `after` says."""
    return [found for text in spec.after if (found := parse_after(text)) is not None]


async def endings(flow: Flow, keys: Collection[TaskKey]) -> dict[TaskKey, Ending]:
    """How each of these ended. An element that is no row is as its array says."""
    if not keys:
        return {}
    found = cast("dict[TaskKey, Ending]", await flow.store.outcomes(list(keys)))
    missing = [key for key in keys if key not in found]
    ids = {TaskKey(key.id) for key in missing if key.element != PLAIN}
    arrays = {task.id: task for task in await flow.store.tasks(sorted(ids))} if ids else {}
    for key in missing:
        array = arrays.get(key.id)
        if key.element == PLAIN or array is None or key.element not in indices_of(array.spec):
            found[key] = "deleted"
        else:
            found[key] = "cancelled" if array.state is State.FINISHED else None
    return found


async def check_known(flow: Flow, specs: Sequence[TaskSpec], prefixes: Sequence[str]) -> None:
    """Refuse what waits for a task that is not there."""
    wanted = {found.key for spec in specs for found in after_of(spec)}
    known = await endings(flow, wanted)
    for spec, prefix in zip(specs, prefixes, strict=True):
        for number, found in enumerate(after_of(spec)):
            if known[found.key] == "deleted":
                raise InvalidSpec(
                    "dependency_unknown", field=f"{prefix}after[{number}]", task=str(found.key)
                )


async def look(flow: Flow) -> None:
    """Tell the view what ended before it was asked for. Unreadable: it is asked again."""
    keys, flow.asked = flow.asked, set()
    try:
        found = await endings(flow, keys)
    except StoreDown:
        flow.asked |= keys
        return
    for key, ending in found.items():
        if ending is not None:
            flow.view.settle(key, ending)
            flow.reconsider()


async def in_vain(flow: Flow, task: Task) -> bool:
    """Whether it waits for something that can no longer come true."""
    after = after_of(task.spec)
    found = await endings(flow, {one.key for one in after})
    return any(comes_true(one.when, found[one.key]) is False for one in after)


async def met(flow: Flow, task: Task) -> bool:
    """Whether everything it waits for has come true."""
    after = after_of(task.spec)
    found = await endings(flow, {one.key for one in after})
    return all(comes_true(one.when, found[one.key]) for one in after)


def check_circle(flow: Flow, key: TaskKey, spec: TaskSpec) -> None:
    """Refuse an edit after which `key` would wait for itself, however far round."""
    after = after_of(spec)
    if not after:
        return
    behind = downstream(flow, key)
    elements = {one.id for one in behind if one.element != PLAIN}
    for number, found in enumerate(after):
        whole = TaskKey(found.key.id)
        if (
            found.key in behind
            or (whole in behind if found.key != whole else whole.id in elements)
            or found.key == key
            or (found.key.id == key.id and PLAIN in (found.key.element, key.element))
        ):
            raise InvalidSpec("dependency_circular", field=f"after[{number}]", task=str(found.key))


def downstream(flow: Flow, key: TaskKey) -> set[TaskKey]:
    """Everybody who waits for this one, and for those, and so on."""
    elements = awaited_elements(flow)
    seen: set[TaskKey] = set()
    left = [key]
    while left:
        one = left.pop()
        # An array ends with its elements: who waits for it waits for each of them.
        about = elements.get(one.id, []) if one.element == PLAIN else [TaskKey(one.id)]
        for predecessor in (one, *about):
            more = flow.successors.get(predecessor, set()) - seen
            seen |= more
            left += more
    return seen


def awaited_elements(flow: Flow) -> dict[int, list[TaskKey]]:
    """Elements that somebody waits for, by array."""
    found: dict[int, list[TaskKey]] = {}
    for key in flow.successors:
        if key.element != PLAIN:
            found.setdefault(key.id, []).append(key)
    return found
