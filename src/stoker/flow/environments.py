"""Asks a node whether a task's environment is there, before the task is accepted.

Only an answer refuses: a node that is down, busy or slow lets the task through, and the same is
found out when it starts. Awaited by requests, never by the loop, and under no lock. Each distinct
environment of a request is asked for once; a good answer holds for a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from stoker.domain.errors import EngineError, InvalidSpec
from stoker.domain.task import NO_ENVIRONMENT, TaskSpec
from stoker.scheduler.fit import never_fits
from stoker.scheduler.needs import DEFAULT_QUEUE, needs_of

from .context import Flow

VERB = "check_environment"
PATIENCE_S = 5.0
GOOD_FOR = timedelta(minutes=1)
MOST_ASKED = 16
"""Distinct environments of one request; more than that are not looked for before they start."""
MOST_NODES = 3
"""Asked at the same time: homes may differ from node to node."""
MOST_REMEMBERED = 1000
MOST_NAMES = 10
RUNNERS_OWN = ""
"""The account: one person, one account."""

Found = Mapping[str, Any]


async def check_environments(
    flow: Flow, specs: Sequence[TaskSpec], prefixes: Sequence[str] = ("",)
) -> None:
    """Raises InvalidSpec for one that no node has or can use. `prefixes` name the tasks."""
    wanted: dict[str, tuple[TaskSpec, str]] = {}
    for spec, prefix in zip(specs, prefixes, strict=True):
        if spec.environment not in NO_ENVIRONMENT:
            wanted.setdefault(spec.environment, (spec, prefix))
    if not wanted or flow.calls is None:
        return
    unknown = [name for name in wanted if not _is_known(flow, name)][:MOST_ASKED]
    answers = await asyncio.gather(*(_ask(flow, wanted[name][0]) for name in unknown))
    for name, (node, answer) in zip(unknown, answers, strict=True):
        if answer is None:
            continue
        if answer.get("code"):
            raise refusal(name, node, answer, wanted[name][1])
        _remember(flow, name)


def doubt(flow: Flow, environment: str) -> None:
    """A task failed in it: who wants it next has it looked at again."""
    flow.environments.pop((RUNNERS_OWN, environment), None)


def refusal(wanted: str, node: str, answer: Found, prefix: str = "") -> InvalidSpec:
    """A node's answer as an error that says what to do."""
    field, detail = f"{prefix}environment", str(answer.get("detail", ""))
    match answer["code"]:
        case "environment_missing" if wanted.startswith("/"):
            return InvalidSpec("environment_missing", field=field, prefix=wanted, node=node)
        case "environment_missing":
            names = [str(name) for name in answer.get("names", ())]
            if not names:
                return InvalidSpec("no_environments", field=field, name=wanted, node=node)
            known = ", ".join(_nearest(wanted, names))
            return InvalidSpec(
                "environment_unknown", field=field, name=wanted, node=node, known=known
            )
        case "environment_ambiguous":
            return InvalidSpec("environment_ambiguous", field=field, name=wanted, prefixes=detail)
        case "not_an_environment":
            return InvalidSpec("not_an_environment", field=field, prefix=detail)
        case _:
            return InvalidSpec("environment_broken", field=field, what=detail, node=node)


async def _ask(flow: Flow, spec: TaskSpec) -> tuple[str, Found | None]:
    """The first good answer; else a refusal, if every node that was asked gave one."""
    nodes = _suitable(flow, spec)
    asked = [asyncio.create_task(_call(flow, node, spec.environment)) for node in nodes]
    answers: list[tuple[str, Found | None]] = []
    try:
        for answer in asyncio.as_completed(asked):
            node, found = await answer
            if found is not None and not found.get("code"):
                return node, found
            answers.append((node, found))
    finally:
        for task in asked:
            task.cancel()
    is_silent = not answers or any(found is None for _, found in answers)
    return ("", None) if is_silent else answers[0]


async def _call(flow: Flow, node: str, environment: str) -> tuple[str, Found | None]:
    """None: it cannot be known now."""
    assert flow.calls is not None
    args = {"environment": environment}
    try:
        async with asyncio.timeout(PATIENCE_S):
            return node, await flow.calls.call(node, RUNNERS_OWN, VERB, args)
    except (EngineError, TimeoutError):
        return node, None


def _suitable(flow: Flow, spec: TaskSpec) -> list[str]:
    """Some nodes that are up and could run it."""
    queue, needs = flow.policy.queue(spec.queue or DEFAULT_QUEUE), needs_of(spec)
    able = (
        name
        for name, room in sorted(flow.view.rooms.items())
        if room.up and never_fits(needs, {name: room}, queue) is None
    )
    return list(islice(able, MOST_NODES))


def _is_known(flow: Flow, environment: str) -> bool:
    until = flow.environments.get((RUNNERS_OWN, environment))
    return until is not None and flow.clock.now() < until


def _remember(flow: Flow, environment: str) -> None:
    if len(flow.environments) >= MOST_REMEMBERED:
        flow.environments.clear()
    flow.environments[RUNNERS_OWN, environment] = flow.clock.now() + GOOD_FOR


def _nearest(wanted: str, names: Sequence[str]) -> list[str]:
    """Those that look most like it first."""

    def likeness(name: str) -> float:
        return SequenceMatcher(None, wanted[:64].lower(), name[:64].lower()).ratio()

    return sorted(names, key=lambda name: (-likeness(name), name))[:MOST_NAMES]
