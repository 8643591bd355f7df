"""A task's environment is asked for before the task is accepted; only an answer refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.errors import EngineRefused, InvalidSpec
from stoker.domain.lifecycle import State
from stoker.domain.person import Person
from stoker.flow import environments
from stoker.flow.again import resubmit
from stoker.flow.context import Flow
from stoker.flow.queue import edit
from stoker.flow.submit import preview, submit
from stoker.lab.book import Put
from stoker.text import hint
from tests.helpers.builders import a_node, a_spec
from tests.helpers.flows import (
    clock_of,
    end,
    engine_of,
    like,
    one,
    recorded,
    running_flow,
    until_state,
)

from .conftest import waiting_engine

MISSING = {"code": "environment_missing", "detail": "mll", "names": ["base", "nlp", "ml", "other"]}


def answers(flow: Flow, **found: dict[str, Any]) -> None:
    """What the nodes find, by environment; everything else is there."""

    async def look(args: Mapping[str, str]) -> dict[str, Any]:
        return found.get(args["environment"], {"code": "", "prefix": "/p", "kind": "conda"})

    engine_of(flow).verbs["check_environment"] = look


def asked(flow: Flow) -> list[str]:
    return [args["environment"] for _, _, _, args in engine_of(flow).calls]


async def refused(flow: Flow, *names: str, batch: bool = False) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as caught:
        await submit(flow, "ana", [a_spec(environment=name) for name in names], batch=batch)
    return caught.value


async def test_one_that_is_there_is_accepted_and_believed_for_a_minute(flow: Flow) -> None:
    for _ in range(3):
        await one(flow, environment="ml")
    assert asked(flow) == ["ml"]
    clock_of(flow).step(61)
    await one(flow, environment="ml")
    assert asked(flow) == ["ml", "ml"]


async def test_a_failure_in_it_ends_the_belief(flow: Flow) -> None:
    await end(flow, await one(flow, environment="ml"), code=0)
    await one(flow, environment="ml")
    assert asked(flow) == ["ml"]
    await end(flow, await one(flow, environment="ml"), code=1)
    await one(flow, environment="ml")
    assert asked(flow) == ["ml", "ml"]


async def test_nobody_is_asked_about_none(flow: Flow) -> None:
    await one(flow)
    await one(flow, environment="none")
    assert asked(flow) == []


async def test_a_name_that_is_not_there_is_refused_with_the_nearest(flow: Flow) -> None:
    answers(flow, mll=MISSING)
    error = await refused(flow, "mll")
    assert (error.code, error.field) == ("environment_unknown", "environment")
    assert error.values == {"name": "mll", "node": "node-a", "known": "ml, nlp, base, other"}

    await refused(flow, "mll")
    assert asked(flow) == ["mll", "mll"], "a refusal is not kept: it may be there by now"


@pytest.mark.parametrize(
    ("wanted", "found", "code"),
    [
        ("ml", {"code": "environment_missing", "names": []}, "no_environments"),
        ("/x", {"code": "environment_missing", "detail": "/x"}, "environment_missing"),
        ("ml", {"code": "environment_ambiguous", "detail": "/a, /b"}, "environment_ambiguous"),
        ("/x", {"code": "not_an_environment", "detail": "/x"}, "not_an_environment"),
        ("/x", {"code": "environment_broken", "detail": "/x: no"}, "environment_broken"),
        ("/x", {"code": "of_a_newer_runner"}, "environment_broken"),
    ],
)
async def test_every_answer_has_its_error(
    flow: Flow, wanted: str, found: dict[str, Any], code: str
) -> None:
    answers(flow, **{wanted: found})
    assert (await refused(flow, wanted)).code == code


async def test_a_batch_asks_once_for_each_and_names_the_task(flow: Flow) -> None:
    answers(flow, mll=MISSING)
    error = await refused(flow, "ml", "ml", "none", "mll", "ml", batch=True)
    assert error.field == "tasks[3].environment"
    assert sorted(asked(flow)) == ["ml", "mll"]
    assert flow.store.next_ids(0).start == 1, "all or none"


async def test_previews_edits_and_repeats_are_checked_too(flow: Flow) -> None:
    key = await one(flow, environment="ml", hold=True)
    answers(flow, ml={**MISSING, "names": []})
    flow.environments.clear()
    spec = (await recorded(flow, key)).spec
    for attempt in (
        preview(flow, "ana", spec),
        edit(flow, key, like(spec, gpus=1), None, "ana"),
        resubmit(flow, key, "ana"),
    ):
        with pytest.raises(InvalidSpec, match="no_environments"):
            await attempt
    edited = await edit(flow, key, like(spec, environment="other"), None, "ana")
    assert edited.spec.environment == "other"


async def test_a_node_that_cannot_say_refuses_nothing(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cannot(_: Mapping[str, str]) -> dict[str, Any]:
        raise EngineRefused(why="busy")

    engine_of(flow).verbs["check_environment"] = cannot
    await one(flow, environment="ml")

    async def never(_: Mapping[str, str]) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    engine_of(flow).verbs["check_environment"] = never
    monkeypatch.setattr(environments, "PATIENCE_S", 0.05)
    await one(flow, environment="ml")
    engine_of(flow).lose("node-a")
    await one(flow, environment="ml")


async def test_a_check_that_hangs_delays_nobody_else(flow: Flow) -> None:
    answer, hanging = asyncio.Event(), asyncio.Event()

    async def slow(_: Mapping[str, str]) -> dict[str, Any]:
        hanging.set()
        await answer.wait()
        return {"code": ""}

    waiting = await one(flow, hold=True)
    engine_of(flow).verbs["check_environment"] = slow
    submitting = asyncio.create_task(one(flow, environment="ml"))
    repeating = asyncio.create_task(resubmit(flow, await one(flow, environment="none"), "ana"))
    editing = asyncio.create_task(
        edit(flow, waiting, a_spec(environment="ml", hold=True), None, "ana")
    )
    await hanging.wait()
    await repeating

    await end(flow, await one(flow, gpus=1))
    assert not submitting.done()
    assert not editing.done()

    answer.set()
    await until_state(flow, await submitting, State.RUNNING)
    assert (await editing).spec.environment == "ml"


async def test_of_several_nodes_one_that_has_it_is_enough(tmp_path: Path) -> None:
    nodes = [a_node("node-a"), a_node("node-b")]
    async with running_flow(tmp_path, waiting_engine(*nodes)) as flow:

        async def only_on_b(args: Mapping[str, str]) -> dict[str, Any]:
            return MISSING if engine_of(flow).calls[-1][0] == "node-a" else {"code": ""}

        engine_of(flow).verbs["check_environment"] = only_on_b
        await one(flow, environment="ml")
        assert {node for node, *_ in engine_of(flow).calls} == {"node-a", "node-b"}

        flow.environments.clear()
        with pytest.raises(InvalidSpec, match="environment_unknown"):
            await one(flow, environment="ml", node="node-a")


async def test_it_is_asked_for_as_the_owners_account_and_believed_for_that_owner(
    flow: Flow,
) -> None:
    flow.become_owners = True
    for name, account in (("ana", "a-unix"), ("bob", "")):
        await flow.book.amend([Put("person", name, Person(name=name, account=account))])
    for owner in ("ana", "bob", "ana"):
        await submit(flow, owner, [a_spec(environment="ml")], batch=False)
    assert [account for _, account, _, _ in engine_of(flow).calls] == ["a-unix", "bob"]


@pytest.mark.parametrize("code", ["account_unknown", "account_not_allowed"])
async def test_who_has_no_account_there_is_told_whom_to_ask(flow: Flow, code: str) -> None:
    async def look(_: Mapping[str, str]) -> dict[str, Any]:
        raise EngineRefused(why=code, detail="ana (why)")

    engine_of(flow).verbs["check_environment"] = look
    refusal = await refused(flow, "ml")
    assert refusal.code == code
    assert refusal.values == {"account": "ana (why)", "node": "node-a", "owner": "ana"}
    for language in ("en", "zh"):
        assert "stoker user edit ana" in (hint(refusal.code, refusal.values, language) or "")
