"""An explanation never tells another story than the plan, and what it suggests really helps."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.key import TaskKey
from stoker.domain.task import TaskSpec
from stoker.scheduler.explain import Explanation, explain
from stoker.scheduler.line import Waiting
from stoker.scheduler.plan import plan

from .lab import Lab
from .situations import settled_labs, submit, with_arrays
from .strategies import owners, policies

FOR_A_PERSON = ("try_anyway", "try_release")
"""Suggestions that change no field of the spec."""


with_backfill = policies(weights=(1, 2, 0)).filter(lambda policy: policy.backfill)
"""Without it the first who cannot start holds up everybody: only benchmarks plan so. Of owners of
negative weight, who is before whom is told only as far as weights say it."""


@given(settled_labs(with_backfill))
def test_who_waits_after_a_plan_is_told_why_and_never_that_it_is_next(lab: Lab) -> None:
    for waiting in list(lab.view.entries()):
        told = explain(lab.view, waiting, lab.now)
        assert told.starts is None
        assert told.reasons
        assert "next_moment" not in _codes(told)


@given(settled_labs(), owners, with_arrays())
def test_the_preview_of_a_task_is_what_it_is_told_in_line(
    lab: Lab, owner: str, spec: TaskSpec
) -> None:
    waiting = _hand_in(lab, owner, spec)
    in_line = explain(lab.view, waiting, lab.now)
    lab.view.dequeue(waiting.key)

    preview = explain(lab.view, waiting, lab.now)
    for name in ("starts", "reasons", "holders", "place", "estimate", "suggestions"):
        assert getattr(preview, name) == getattr(in_line, name)


@given(settled_labs(), owners, with_arrays())
def test_explaining_changes_nothing(lab: Lab, owner: str, spec: TaskSpec) -> None:
    waiting = _hand_in(lab, owner, spec)
    before = lab.plan()
    explain(lab.view, waiting, lab.now)

    assert lab.plan() == before


@given(settled_labs(with_backfill), owners, with_arrays())
def test_every_suggestion_starts_the_task_when_it_is_followed(
    lab: Lab, owner: str, spec: TaskSpec
) -> None:
    waiting = _hand_in(lab, owner, spec)
    lab.carry_out(lab.plan())
    if waiting.key not in lab.specs:
        return
    in_line = lab.view.waiting(waiting.key)
    assert in_line is not None
    for suggestion in explain(lab.view, in_line, lab.now).suggestions:
        if suggestion.code in FOR_A_PERSON:
            continue
        if suggestion.code == "try_queue":
            queue = lab.view.policy.queue(str(suggestion.options["queue"]))
            is_open = not queue.people and not queue.teams
            team = lab.view.policy.teams.get(owner)
            assert is_open or owner in queue.people or team in queue.teams
        lab.again(waiting.key, spec=_changed(spec, suggestion.options))
        keys = [p.key.id for p in plan(lab.view, lab.now).placements]
        assert waiting.key.id in keys, suggestion
        lab.again(waiting.key, spec=spec)


@given(settled_labs(), st.data())
def test_holders_are_those_who_hold_and_the_place_is_within_the_line(
    lab: Lab, data: st.DataObject
) -> None:
    if not lab.specs:
        return
    key = data.draw(st.sampled_from(sorted(lab.specs)))
    waiting = lab.view.waiting(key)
    assert waiting is not None
    told = explain(lab.view, waiting, lab.now)

    for holder in told.holders:
        runs = [run for run in lab.world.runs.values() if run.key == holder.task]
        assert any(part.node == holder.node for run in runs for part in run.parts)
        assert any(run.owner == holder.owner and run.end == holder.ends for run in runs)
    if told.place is not None:
        assert told.place.ahead >= 0
        assert told.estimate.at is None or told.estimate.at >= lab.now


def _hand_in(lab: Lab, owner: str, spec: TaskSpec) -> Waiting:
    [key] = submit(lab, [(owner, spec)])
    waiting = lab.view.waiting(TaskKey(key.id))
    assert waiting is not None
    return waiting


def _changed(spec: TaskSpec, options: dict[str, Any]) -> TaskSpec:
    lists = {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}
    return structs.replace(spec, **lists)


def _codes(told: Explanation) -> list[str]:
    return [reason.code for reason in told.reasons]
