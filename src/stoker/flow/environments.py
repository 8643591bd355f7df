"""Asks a node whether a task's environment is there for its owner's account, before the task is accepted.

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

from stoker.domain.errors import EngineError, EngineRefused, InvalidSpec
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
NO_ACCOUNT = ("account_unknown", "account_not_allowed")
"""What a node refuses an account with."""

Found = Mapping[str, Any]


async def check_environments(
    flow: Flow, owner: str, specs: Sequence[TaskSpec], prefixes: Sequence[str] = ("",)
) -> None:
    """Raises InvalidSpec for one that no node has or can use, and when the owner has no account
    there. `prefixes` name the tasks."""
    wanted: dict[str, tuple[TaskSpec, str]] = {}
    for spec, prefix in zip(specs, prefixes, strict=True):
        if spec.environment not in NO_ENVIRONMENT:
            wanted.setdefault(spec.environment, (spec, prefix))
    if not wanted or flow.calls is None:
        return
    unknown = [name for name in wanted if not _is_known(flow, owner, name)][:MOST_ASKED]
    answers = await asyncio.gather(*(_ask(flow, owner, wanted[name][0]) for name in unknown))
    for name, (node, answer) in zip(unknown, answers, strict=True):
        if answer is None:
            continue
        if answer.get("code") in NO_ACCOUNT:
            what = str(answer.get("detail") or flow.account(owner, node))
            raise InvalidSpec(str(answer["code"]), account=what, node=node, owner=owner)
        if answer.get("code"):
            raise refusal(name, node, answer, wanted[name][1])
        _remember(flow, owner, name)


def doubt(flow: Flow, owner: str, environment: str) -> None:
    """A task failed in it: who wants it next has it looked at again."""
    flow.environments.pop((_whose(flow, owner), environment), None)


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


async def _ask(flow: Flow, owner: str, spec: TaskSpec) -> tuple[str, Found | None]:
    """The first good answer; else a refusal, if every node that was asked gave one."""
    nodes = _suitable(flow, spec)
    asked = [asyncio.create_task(_call(flow, node, owner, spec.environment)) for node in nodes]
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


async def _call(flow: Flow, node: str, owner: str, environment: str) -> tuple[str, Found | None]:
    """None: it cannot be known now."""
    assert flow.calls is not None
    account, args = flow.account(owner, node), {"environment": environment}
    try:
        async with asyncio.timeout(PATIENCE_S):
            return node, await flow.calls.call(node, account, VERB, args)
    except EngineRefused as error:
        why = str(error.values.get("why", ""))
        is_account = why in NO_ACCOUNT
        return node, {**error.values, "code": why} if is_account else None
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


def _whose(flow: Flow, owner: str) -> str:
    """Whom an answer holds for: everybody, if all share one account."""
    return owner if flow.become_owners else ""


def _is_known(flow: Flow, owner: str, environment: str) -> bool:
    until = flow.environments.get((_whose(flow, owner), environment))
    return until is not None and flow.clock.now() < until


def _remember(flow: Flow, owner: str, environment: str) -> None:
    if len(flow.environments) >= MOST_REMEMBERED:
        flow.environments.clear()
    flow.environments[_whose(flow, owner), environment] = flow.clock.now() + GOOD_FOR


def _nearest(wanted: str, names: Sequence[str]) -> list[str]:
    """Those that look most like it first."""

    def likeness(name: str) -> float:
        return SequenceMatcher(None, wanted[:64].lower(), name[:64].lower()).ratio()

    return sorted(names, key=lambda name: (-likeness(name), name))[:MOST_NAMES]
