"""Sweeps: which element has which values, what it runs, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.domain.checks import MOST_ARGUMENT_BYTES, check
from stoker.domain.errors import InvalidSpec
from stoker.domain.shelltext import fill, hard, is_shell_text
from stoker.domain.sweep import array_of, is_array, render, said, shape, values
from tests.helpers.builders import a_spec

SWEEP = {"lr": ("1e-3", "1e-4"), "seed": ("0", "1", "2")}
ARGV = ("python", "--lr={lr}", "{seed}")


def test_the_last_name_varies_fastest() -> None:
    every = [said(values(SWEEP, index)) for index in range(6)]
    assert every == [
        "lr=1e-3 seed=0", "lr=1e-3 seed=1", "lr=1e-3 seed=2",
        "lr=1e-4 seed=0", "lr=1e-4 seed=1", "lr=1e-4 seed=2",
    ]  # fmt: skip
    assert shape(SWEEP) == "lr x 2, seed x 3"


@pytest.mark.parametrize(
    ("fields", "indices", "cap"),
    [
        ({"sweep": SWEEP}, "0-5", None),
        ({"sweep": SWEEP, "array": "%2"}, "0-5", 2),
        ({"sweep": SWEEP, "array": "1,4-5%1"}, "1,4-5", 1),
        ({"array": "3-4%7"}, "3-4", 7),
    ],
)
def test_an_array_is_known_by_array_and_sweep(
    fields: dict[str, Any], indices: str, cap: int | None
) -> None:
    spec = a_spec(**fields)
    array = array_of(spec)
    assert array is not None
    assert (is_array(spec), array.indices.text(), array.cap) == (True, indices, cap)
    assert not is_array(a_spec())
    assert array_of(a_spec()) is None


def test_what_an_element_runs() -> None:
    spec = a_spec(
        command=ARGV,
        name="t {lr}",
        stdout="/out/{lr}_{seed}.txt",
        stderr="+/err/{seed}",
        env={"SEED": "{seed}", "AWK": "{print}"},
        description="{lr}",
        sweep=SWEEP,
        array="%1",
    )
    made = render(spec, 4)
    assert made.command == ("python", "--lr=1e-4", "1")
    assert (made.name, made.description) == ("t 1e-4", "{lr}")
    assert (made.stdout, made.stderr) == ("/out/1e-4_1.txt", "+/err/1")
    assert made.env == {
        "SEED": "1", "AWK": "{print}", "STOKER_SWEEP_lr": "1e-4", "STOKER_SWEEP_seed": "1",
    }  # fmt: skip
    assert render(a_spec(), 4) == a_spec()


@pytest.mark.parametrize(
    ("text", "value", "made"),
    [
        ("train --lr {lr} > {lr}.txt", "1e-3", "train --lr 1e-3 > 1e-3.txt"),
        ("train --lr={lr}", "a b", "train --lr='a b'"),
        ("echo {lr}>out", "2", "echo '2'>out"),
        ("{lr}; then", "if", "'if'; then"),
        ("echo $x{lr}", "1", "echo $x'1'"),
        ('echo "{lr} $x{lr}"', "1", 'echo "1 $x"\'1\'""'),
        ("echo '{lr}'", "it's", "echo '''it'\"'\"'s'''"),
        ("awk '{print}' {lr}", "f", "awk '{print}' f"),
        ("echo ${lr} \\{lr} {LR} {lr }", "1", "echo ${lr} \\{lr} {LR} {lr }"),
        ("a # it's {lr}\nb {lr}", "x y", "a # it's x y\nb 'x y'"),
        ("cat <<END\n{lr}\nEND", "1e-3", "cat <<END\n1e-3\nEND"),
    ],
)
def test_how_a_value_is_put_into_a_shell_line(text: str, value: str, made: str) -> None:
    assert fill(text, {"lr": value}) == made


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("echo {a} <<END\n{b}\nEND", {"b"}),
        ("echo {a} `echo {b}` {c}", {"b", "c"}),
        ('echo "{a} $(echo {b})" {c}', {"b", "c"}),
        ("echo {a} $'{b}'", {"b"}),
        ("echo {a} <<< {b} '`{c}<<'", set()),
        ('echo "${x} {a}" "${x:-{b}}"', {"b"}),
    ],
)
def test_where_only_plain_values_can_be_put_in(text: str, names: set[str]) -> None:
    assert hard(text) == names


def test_a_script_for_another_interpreter_reads_the_variables() -> None:
    python = "#!/usr/bin/env python3\nprint(f'{lr}', os.environ['STOKER_SWEEP_lr'])"
    spec = a_spec(command=python, sweep={"lr": ("1", "2")})
    check(spec)
    assert render(spec, 1).command == python
    assert is_shell_text("#!/usr/bin/env -S bash -e\n")
    assert not is_shell_text("#!/usr/bin/python3 -u\n")


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ARGV, "sweep": SWEEP, "array": "0,5%9"},
        {"command": "train $STOKER_SWEEP_lr", "sweep": {"lr": ("a b", "'")}},
        {"command": ("train.sh",), "env": {"LR": "{lr}"}, "sweep": {"lr": ("1",)}},
        {"command": 'sh -c "x" {lr}', "sweep": {"lr": ("`rm`",)}},
        {"command": ("x", "{_a1}"), "sweep": {"_a1": tuple(map(str, range(5000)))}},
    ],
)
def test_what_is_accepted(fields: dict[str, Any]) -> None:
    check(a_spec(**fields))


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"sweep": {"1a": ("1",)}}, "sweep_bad_name", "sweep"),
        ({"sweep": {"a-b": ("1",)}}, "sweep_bad_name", "sweep"),
        ({"sweep": {"a" * 65: ("1",)}}, "sweep_bad_name", "sweep"),
        ({"sweep": {"a": ()}}, "sweep_empty", "sweep.a"),
        ({"sweep": {"a": ("1", "")}}, "sweep_empty", "sweep.a"),
        ({"sweep": {"a": ("1\n",)}}, "sweep_control", "sweep.a"),
        ({"sweep": {"a": ("\0",)}}, "sweep_control", "sweep.a"),
        ({"sweep": {"a": ("1",) * 5001}}, "sweep_too_many", "sweep"),
        ({"sweep": {"a": ("1" * 65_537,)}}, "sweep_too_long", "sweep"),
        ({"sweep": {"a": ("1",) * 2000, "b": ("1",) * 2000}}, "sweep_too_large", "sweep"),
        ({"sweep": {"b": ("1",)}}, "sweep_unused", "sweep.b"),
        ({"command": "x ${a}", "sweep": {"a": ("1",)}}, "sweep_unused", "sweep.a"),
        ({"command": "x", "stdout": "/o/{a}", "sweep": {"a": ("1",)}}, "sweep_unused", "sweep.a"),
        ({"sweep": {"a": ("1",)}, "workdir": "/runs/{a}"}, "sweep_not_here", "workdir"),
        ({"command": "x `{a}`", "sweep": {"a": ("1", "$x")}}, "sweep_not_plain", "command"),
        ({"sweep": {"a": ("x", "discard")}, "stdout": "{a}"}, "bad_path", "stdout"),
        ({"sweep": {"a": ("1", "2")}, "array": "0-2"}, "sweep_no_index", "array"),
        ({"sweep": {"a": ("1", "2")}, "array": "x"}, "bad_array", "array"),
        ({"sweep": {"a": ("1", "2")}, "array": "%0"}, "bad_array", "array"),
        ({"command": ("x", "{a}" * 3), "sweep": {"a": ("1", "1" * (MOST_ARGUMENT_BYTES // 2 - 1))}},
         "argument_too_long", "command"),
    ],
)  # fmt: skip
def test_what_is_refused(fields: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        check(a_spec(**{"command": ("x", "{a}"), **fields}))
    assert (refused.value.code, refused.value.field) == (code, field)
