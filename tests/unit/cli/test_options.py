"""Every field of a task is an option, every option is a field, and values mean what was typed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.cli.options import Quantity, as_typed, flag_of, spec_options, typed_values
from stoker.domain.task import NOT_YET, TaskSpec, fields

# one value off its default for each field, and how it is typed
TYPED: dict[str, tuple[list[str], Any]] = {
    "name": (["--name", "训练 一"], "训练 一"),
    "description": (["--description", "a\nb"], "a\nb"),
    "workdir": (["--workdir", "/data"], "/data"),
    "env": (["--env", "A=1", "--env", "B=x=y"], {"A": "1", "B": "x=y"}),
    "environment": (["--environment", "base"], "base"),
    "stdout": (["--stdout", "+/tmp/out"], "+/tmp/out"),
    "stderr": (["--stderr", "discard"], "discard"),
    "gpus": (["--gpus", "2"], 2),
    "gpu_ids": (["--gpu-ids", "0,2"], (0, 2)),
    "gpu_id_args": (["--gpu-id-args", "--gpu="], "--gpu="),
    "gpu_model": (["--gpu-model", "A100", "--gpu-model", "H100, 80G"], ("A100", "H100, 80G")),
    "mode": (["--mode", "shared"], "shared"),
    "gpu_memory_mib": (["--gpu-memory", "10G"], 10240),
    "gpu_free_percent": (["--gpu-free-percent", "50"], 50),
    "cpus": (["--cpus", "4"], 4),
    "memory_mib": (["--memory", "8G"], 8192),
    "nodes": (["--nodes", "2"], 2),
    "node": (["--node", "node-b"], "node-b"),
    "queue": (["--queue", "short"], "short"),
    "urgent": (["--urgent"], True),
    "priority": (["--priority", "-5"], -5),
    "time_limit_s": (["--time-limit", "2h30m"], 9000),
    "grace_s": (["--grace", "1m"], 60),
    "lease_s": (["--lease", "1d"], 86400),
    "after": (["--after", "12:ok", "--after", "13"], ("12:ok", "13")),
    "start_after": (["--start-after", "2030-01-01T00:00:00Z"], "2030-01-01T00:00:00Z"),
    "retries": (["--retries", "3"], 3),
    "requeue_on_loss": (["--requeue-on-loss"], True),
    "array": (["--array", "0-9%4"], "0-9%4"),
    "sweep": (["--sweep", "lr=0.1,0.01"], {"lr": ("0.1", "0.01")}),
    "notify": (["--notify", "failed"], ("failed",)),
    "hold": (["--hold"], True),
}
NAMES = [field.name for field in fields() if field.name != "command"]


@click.command()
@spec_options
def submit(**given: Any) -> dict[str, Any]:
    return typed_values(given)


def parse(args: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = submit.main(args, standalone_mode=False)
    return values


def test_every_field_has_an_option_and_every_option_a_field() -> None:
    assert set(TYPED) == set(NAMES)
    assert {parameter.name for parameter in submit.params} == set(NAMES)
    names = [name for parameter in submit.params for name in parameter.opts]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", NAMES)
def test_an_option_gives_its_field(name: str) -> None:
    args, value = TYPED[name]
    assert parse(args) == {name: value}


@pytest.mark.parametrize("name", NAMES)
def test_a_field_gives_its_option(name: str) -> None:
    value = TYPED[name][1]
    spec = TaskSpec(command="x", **{name: value})
    again = [word for option in as_typed(spec) for word in option]
    assert parse(again) == {name: value}
    assert flag_of(name) in again or name in ("requeue_on_loss", "urgent", "hold")


@pytest.mark.parametrize("field", [f for f in fields() if f.short], ids=lambda f: f.name)
def test_short_options(field: Any) -> None:
    args, value = TYPED[field.name]
    flag = flag_of(field.name)
    short = [field.short if word == flag else word for word in args]
    assert parse(short) == {field.name: value}


def test_a_default_is_nothing_typed() -> None:
    assert parse([]) == {}
    assert as_typed(TaskSpec(command="x")) == []


def test_what_cannot_be_used_yet_is_not_advertised() -> None:
    hidden = {p.name for p in submit.params if isinstance(p, click.Option) and p.hidden}
    assert hidden == NOT_YET


def test_switches_have_an_opposite() -> None:
    assert parse(["--hold", "--no-hold"]) == {"hold": False}


def test_gpu_ids_may_be_repeated_or_joined() -> None:
    assert parse(["--gpu-ids", "0", "--gpu-ids", "2,3"]) == {"gpu_ids": (0, 2, 3)}


@pytest.mark.parametrize(
    ("unit", "text", "amount"),
    [
        ("s", "90", 90),
        ("s", "90s", 90),
        ("s", "15m", 900),
        ("s", "15min", 900),
        ("s", "2h30m", 9000),
        ("s", "1d12h", 129600),
        ("s", "24:00:00", 86400),
        ("s", "1:02:03", 3723),
        ("MiB", "512", 512),
        ("MiB", "512M", 512),
        ("MiB", "8G", 8192),
        ("MiB", "8GiB", 8192),
        ("MiB", "8g", 8192),
        ("MiB", "1T", 1048576),
    ],
)
def test_amounts(unit: str, text: str, amount: int) -> None:
    assert Quantity(unit).convert(text, None, None) == amount


@pytest.mark.parametrize("unit", ["s", "MiB"])
@pytest.mark.parametrize(
    "text",
    ["", "x", "2y", "-1", "1.5h", "2 h", "h", "1:2:3:4", "1:60:00", "٣", "9" * 30, "8K", "2h30"],
)
def test_what_is_no_amount_is_refused(unit: str, text: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        Quantity(unit).convert(text, None, None)
    assert "for example" in refused.value.message


def moment(text: str) -> datetime:
    at = datetime.fromisoformat(parse(["--start-after", text])["start_after"])
    assert at.tzinfo is not None
    return at


def test_start_times() -> None:
    now = datetime.now().astimezone()
    for text in ("2h", "+2h", "1h60m"):
        assert abs(moment(text) - now - timedelta(hours=2)) < timedelta(minutes=1)
    for text in ("00:00", "7:05", "22:00", "23:59:30"):
        at = moment(text).astimezone()
        assert at.strftime("%H:%M:%S").startswith(text.rjust(5, "0"))
        assert timedelta(0) < at - now <= timedelta(days=1, hours=1)
    local = moment("2030-01-31 22:00").astimezone()
    assert (local.day, local.hour) == (31, 22)


@pytest.mark.parametrize(
    "text", ["2030-01-31T22:00:00+08:00", "tomorrow", "25:00", "", "17", "２h"]
)
def test_what_is_no_time_here_is_judged_by_the_server(text: str) -> None:
    assert parse(["--start-after", text])["start_after"] == text


@pytest.mark.parametrize(
    ("args", "field"),
    [
        (["--start-after", "2y"], "start_after"),
        (["--gpus", "x"], "gpus"),
        (["--gpus", "1.5"], "gpus"),
        (["--gpus", ""], "gpus"),
        (["--gpu-ids", "0,,1"], "gpu_ids"),
        (["--env", "A"], "env"),
        (["--env", "=1"], "env"),
        (["--sweep", "lr"], "sweep"),
        (["--time-limit", "2y"], "time_limit_s"),
    ],
)
def test_a_bad_value_names_its_field(args: list[str], field: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        parse(args)
    assert refused.value.param is not None
    assert refused.value.param.name == field


@given(st.integers(min_value=0, max_value=10**12))
def test_every_amount_of_seconds_can_be_typed_again(seconds: int) -> None:
    spec = TaskSpec(command="x", grace_s=seconds)
    again = [word for option in as_typed(spec) for word in option]
    assert parse(again).get("grace_s", 10) == seconds


@given(st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="=\0"), min_size=1),
                       st.text(st.characters(codec="utf-8"))))  # fmt: skip
def test_every_environment_can_be_typed_again(env: dict[str, str]) -> None:
    again = [word for option in as_typed(TaskSpec(command="x", env=env)) for word in option]
    assert parse(again).get("env", {}) == env
