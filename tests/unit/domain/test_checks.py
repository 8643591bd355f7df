"""What a spec may not say, and that each refusal names its field."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.domain.checks import MOST_ARGUMENT_BYTES, check, explain_validation
from stoker.domain.errors import InvalidSpec
from stoker.domain.task import NOT_YET, TaskSpec, fields
from stoker.wire import Batch, Submission
from tests.helpers.builders import a_spec


@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        ({"command": ()}, "empty_command", "command"),
        ({"command": ""}, "empty_command", "command"),
        ({"command": " \n"}, "empty_command", "command"),
        ({"command": ("", "x")}, "empty_command", "command"),
        ({"command": ("a", "b\0c")}, "nul", "command[1]"),
        ({"command": "a\0b"}, "nul", "command"),
        ({"name": "a\0"}, "nul", "name"),
        ({"env": {"A": "\0"}}, "nul", "env.A"),
        ({"env": {"A\0": "x"}}, "nul", "env"),
        ({"env": {"": "x"}}, "bad_env_name", "env"),
        ({"env": {"A=B": "x"}}, "bad_env_name", "env"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "reserved_env", "env.CUDA_VISIBLE_DEVICES"),
        ({"env": {"STOKER_TASK_ID": "0"}}, "reserved_env", "env.STOKER_TASK_ID"),
        ({"env": {"A": "x" * MOST_ARGUMENT_BYTES}}, "argument_too_long", "env.A"),
        ({"command": ("x" * (MOST_ARGUMENT_BYTES + 1),)}, "argument_too_long", "command"),
        ({"command": ("x" * 100_000,) * 11}, "argument_too_long", "command"),
        ({"workdir": "relative"}, "not_absolute", "workdir"),
        ({"workdir": ""}, "not_absolute", "workdir"),
        ({"workdir": "/" + "x" * 4096}, "path_too_long", "workdir"),
        ({"stdout": "+"}, "bad_path", "stdout"),
        ({"stdout": "merge"}, "stdout_merge", "stdout"),
        ({"stderr": "x" * 4096}, "path_too_long", "stderr"),
        ({"gpus": 2, "gpu_ids": (0, 0)}, "duplicate_gpu_id", "gpu_ids"),
        ({"gpus": 2, "gpu_ids": (-1,)}, "negative_gpu_id", "gpu_ids"),
        ({"gpus": 1, "gpu_ids": (0, 1)}, "more_ids_than_gpus", "gpu_ids"),
        ({"gpu_id_args": "--gpu="}, "needs_gpus", "gpu_id_args"),
        ({"gpus": 1, "gpu_model": ("A\0",)}, "nul", "gpu_model[0]"),
        ({"gpu_model": ("A100",)}, "needs_gpus", "gpu_model"),
        ({"mode": "shared", "gpu_memory_mib": 1}, "needs_gpus", "mode"),
        ({"mode": "reuse"}, "needs_gpus", "mode"),
        ({"gpu_memory_mib": 1}, "needs_gpus", "gpu_memory_mib"),
        ({"gpu_free_percent": 1}, "needs_gpus", "gpu_free_percent"),
        ({"gpus": 1, "mode": "shared"}, "shared_needs_memory", "gpu_memory_mib"),
        ({"gpus": 1, "gpu_memory_mib": 1}, "needs_shared", "gpu_memory_mib"),
        ({"gpus": 1, "gpu_free_percent": 1}, "needs_shared", "gpu_free_percent"),
        ({"after": ("1:ok", "2:maybe")}, "bad_after", "after[1]"),
        ({"after": ("",)}, "bad_after", "after[0]"),
        ({"start_after": "tomorrow"}, "bad_start_after", "start_after"),
        ({"start_after": "2026-13-01T00:00Z"}, "bad_start_after", "start_after"),
        ({"start_after": "0001-01-01T00:00+14:00"}, "bad_start_after", "start_after"),
        ({"start_after": "9999-12-31T23:59-14:00"}, "bad_start_after", "start_after"),
        ({"start_after": "2026-11-15T12:00"}, "time_zone_missing", "start_after"),
        ({"start_after": "2026-11-15"}, "time_zone_missing", "start_after"),
        ({"array": "9-0"}, "bad_array", "array"),
        ({"array": "0-9%0"}, "bad_array", "array"),
        ({"array": "0-1000000"}, "array_too_large", "array"),
        ({"array": "%4"}, "bad_array", "array"),
    ],
)
def test_refused_by_name(given: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        check(a_spec(**given))

    assert (caught.value.code, caught.value.field) == (code, field)


def test_everything_else_is_accepted() -> None:
    odd = "quotes ' \" $(touch x) `id` \n\t\r -rf \x1b[31m 中文 \u202e" + "x" * 65536
    check(a_spec(command=("prog", odd, "--", ""), name="", env={"A": odd, "ü": "b"}))
    check(a_spec(command=odd, stdout="+log 1.txt", stderr="discard", gpus=2, gpu_ids=(3,)))


@pytest.mark.parametrize(
    "given",
    [
        {"gpus": 1, "gpu_model": ("A100", "H100")},
        {"gpus": 1, "mode": "shared", "gpu_memory_mib": 1, "gpu_free_percent": 0},
        {"gpus": 1, "mode": "reuse"},
        {"gpus": 1, "mode": "reuse", "gpu_memory_mib": 1, "gpu_free_percent": 50},
        {"after": ("1", "1_0:ok", "2:notok")},
        {"start_after": "2026-11-15T12:00:00.5+08:00"},
        {"start_after": "2026-11-15T12:00Z"},
        {"start_after": "20261115T120000Z"},
        {"array": "0-999999%4"},
        {"node": "n", "queue": "q", "urgent": True, "priority": -1000, "retries": 3},
        {"requeue_on_loss": True},
        {"environment": "none"},
        {"environment": "ml-3.12_gpu"},
        {"environment": "环境"},
        {"environment": "/data/my envs/环境"},
        {"environment": "/" + "x" * 4094},
    ],
)
def test_what_a_task_may_ask_for(given: dict[str, Any]) -> None:
    check(a_spec(**given))


def test_a_field_without_its_feature_is_refused_by_name() -> None:
    samples: dict[str, Any] = {
        "nodes": 2, "lease_s": 1,
    }  # fmt: skip
    assert set(samples) == NOT_YET
    for name, value in samples.items():
        with pytest.raises(InvalidSpec) as caught:
            check(a_spec(**{name: value}))
        assert (caught.value.code, caught.value.field) == ("not_yet", name)


def test_not_yet_names_only_real_fields() -> None:
    assert {field.name for field in fields()} >= NOT_YET


@pytest.mark.parametrize(
    ("body", "code", "field", "values"),
    [
        ('{"tasks":[]}', "too_short", "tasks", {"least": "1"}),
        ('{"tasks":[{}]}', "missing_field", "tasks[0].command", {"name": "command"}),
        ('{"tasks":[{"command":3}]}', "wrong_type", "tasks[0].command",
         {"expected": "str | array", "got": "int"}),
        ('{"tasks":[{"command":"a","gpus":-1}]}', "too_small", "tasks[0].gpus", {"least": "0"}),
        ('{"tasks":[{"command":"a","gpus":2000}]}', "too_large", "tasks[0].gpus", {"most": "1024"}),
        ('{"tasks":[{"command":"a","gpus":"2"}]}', "wrong_type", "tasks[0].gpus",
         {"expected": "int", "got": "str"}),
        ('{"tasks":[{"command":"a","urgent":1}]}', "wrong_type", "tasks[0].urgent",
         {"expected": "bool", "got": "int"}),
        ('{"tasks":[{"command":"a","xx":1}]}', "unknown_field", "tasks[0].xx", {"name": "xx"}),
        ('{"tasks":[{"command":"a","mode":"q"}]}', "not_a_choice", "tasks[0].mode",
         {"value": "q", "choices": "exclusive, shared, reuse"}),
        ('{"tasks":[{"command":["a",3]}]}', "wrong_type", "tasks[0].command[1]",
         {"expected": "str", "got": "int"}),
        ('{"tasks":[{"command":"a","env":{"A":3}}]}', "wrong_type", "tasks[0].env",
         {"expected": "str", "got": "int"}),
        ('{"tasks":[{"command":"a","gpus":1e999}]}', "out_of_range", "tasks[0].gpus", {}),
        ('{"tasks"', "json_ends_early", "", {}),
        ("{x", "not_json", "", {"offset": "1"}),
        ("[]", "wrong_type", "", {"expected": "object", "got": "array"}),
    ],
)  # fmt: skip
def test_msgspec_refusals_are_understood(
    body: str, code: str, field: str, values: dict[str, str]
) -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(body.encode(), type=Batch)

    error = explain_validation(str(caught.value))

    assert (error.code, error.field) == (code, field)
    assert values.items() <= error.values.items()


def test_an_unknown_refusal_is_still_one() -> None:
    assert explain_validation("Something new - at `$.gpus`").field == "gpus"


def test_a_submission_is_a_task_spec_and_nothing_more() -> None:
    assert [f.name for f in msgspec.structs.fields(Submission)] == [
        f.name for f in msgspec.structs.fields(TaskSpec)
    ]


def test_specs_are_stored_whole() -> None:
    assert set(msgspec.json.decode(msgspec.json.encode(a_spec()))) == {f.name for f in fields()}


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ("docker://pytorch/pytorch", "image_not_yet"),
        ("ubuntu:22.04", "image_not_yet"),
        ("/images/torch.sif", "image_not_yet"),
        ("a/b", "bad_environment"),
        ("./venv", "bad_environment"),
        ("..", "bad_environment"),
        (" ml", "bad_environment"),
        ("C:\\envs\\ml", "bad_environment"),
        ("/a\nb", "bad_environment"),
        ("m\x1bl", "bad_environment"),
        ("/a\0b", "nul"),
        ("x" * 256, "path_too_long"),
        ("/" + "环" * 1365, "path_too_long"),
    ],
)
def test_what_is_no_environment(environment: str, code: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        check(a_spec(environment=environment))
    assert (caught.value.code, caught.value.field) == (code, "environment")
