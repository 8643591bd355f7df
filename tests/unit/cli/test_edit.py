"""What was typed, laid over a task as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.cli.edit import changes, overlay
from stoker.cli.say import Refusal
from stoker.domain.task import TaskSpec

SPEC = TaskSpec(
    command=("python", "a.py"), workdir="/data", gpus=2, gpu_model=("A100",), time_limit_s=3600,
    env={"SEED": "1", "TOKEN": "secret"}, after=("3:ok", "4"), stdout="/data/out.txt",
)  # fmt: skip


def edited(typed: dict[str, Any], *unset: str) -> TaskSpec:
    return overlay(SPEC, typed, unset)


def test_what_is_not_typed_stays() -> None:
    assert edited({}) == SPEC
    assert edited({"gpus": 4}).gpus == 4
    assert edited({"gpus": 4}).gpu_model == ("A100",)
    assert edited({"command": "echo x"}).command == "echo x"


def test_lists_are_replaced_and_variables_added() -> None:
    assert edited({"after": ("9",)}).after == ("9",)
    assert edited({"env": {"SEED": "2", "NEW": "x"}}).env == {
        "SEED": "2", "TOKEN": "secret", "NEW": "x",
    }  # fmt: skip


def test_options_are_taken_back() -> None:
    assert edited({}, "gpu-model").gpu_model == ()
    assert edited({}, "--time-limit").time_limit_s is None
    assert edited({}, "gpu_model", "after").after == ()
    assert edited({}, "env").env == {}
    assert edited({}, "env.SEED").env == {"TOKEN": "secret"}
    assert edited({"env": {"A": "1"}}, "env").env == {"A": "1"}
    assert SPEC.env == {"SEED": "1", "TOKEN": "secret"}


@pytest.mark.parametrize("name", ["nonsense", "command", "", "env.NOPE", "gpu"])
def test_what_cannot_be_taken_back(name: str) -> None:
    with pytest.raises(Refusal) as refused:
        edited({}, name)
    assert refused.value.field == "unset"


def test_paths_are_as_with_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    assert edited({"workdir": "sub"}).workdir == f"{tmp_path}/sub"
    assert edited({"workdir": "sub"}).stdout == "/data/out.txt"
    assert edited({"stdout": "log"}).stdout == "/data/log"
    assert edited({"stdout": "+log", "workdir": "/x"}).stdout == "+/x/log"
    assert edited({"stderr": "discard"}).stderr == "discard"


def test_who_names_more_cards_asks_for_more() -> None:
    assert edited({"gpu_ids": (0, 1, 3)}).gpus == 3
    assert edited({"gpu_ids": (0,)}).gpus == 2
    assert edited({"gpu_ids": (0,), "gpus": 1}).gpus == 1


def test_what_changed_is_told_without_secrets() -> None:
    after = edited(
        {"gpus": 1, "urgent": True, "command": "echo hi", "env": {"TOKEN": "hidden"}}, "time-limit"
    )
    rows = {row[0]: row[1:] for row in changes(SPEC, after)}
    assert rows == {
        "command": ["python a.py", "→", "echo hi"],
        "--env": ["SEED, TOKEN", "→", "SEED, TOKEN"],
        "--gpus": ["2", "→", "1"],
        "--urgent": ["no", "→", "yes"],
        "--time-limit": ["1h", "→", "-"],
    }
    assert changes(SPEC, SPEC) == []
