"""Whatever the values are: every combination once, and each arrives as itself."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.cli.sweeps import read_values, write_values
from stoker.domain.shelltext import fill, hard, is_plain
from stoker.domain.sweep import array_of, render, size, values
from tests.helpers.builders import a_spec

NASTY = "'\"\\$`!*?[]{}()<>|&;#~ %=,^-+:/._@aA0é炉\u00a0"
texts = st.one_of(
    st.text(NASTY, min_size=1, max_size=12),
    st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=12),
    st.sampled_from(
        ["$(echo no)", "`echo no`", "'; echo no; '", '"; echo no; "', "2", "if", "a b"]
    ),
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
sweeps = st.dictionaries(
    names, st.lists(texts, min_size=1, max_size=4).map(tuple), min_size=1, max_size=4
)

FRAGMENTS = {
    "{v}": "<>",
    "a{v}b{v}": "a<>b<>",
    '"{v}"': "<>",
    "'{v}'": "<>",
    '"a {v} \' b"': "a <> ' b",
    "'a {v} \" b'": 'a <> " b',
    '"$A{v}"': "aa<>",
    "$A{v}": "aa<>",
    '"${A}{v}"': "aa<>",
    "${A}{v}": "aa<>",
    "x={v}": "x=<>",
    '\\{v}"{v}"': "{v}<>",
    "\\'{v}": "'<>",
    '"\\"{v}"': '"<>',
    "{other}": "{other}",
    "'{print $1}'": "{print $1}",
    "${v}": "vv",
    '"${v}"': "vv",
    "$(printf %s {v})": None,
    '"a#{v}"': "a#<>",
    "a#{v}": "a#<>",
}
"""Words of a shell line, and what a program is given for each; `<>` is the value."""
QUOTED_ONLY = {"$(printf %s {v})"}
"""Not quoted around: the shell splits what comes out, so this is for one word only."""


@given(sweeps)
def test_every_combination_has_one_number(sweep: dict[str, tuple[str, ...]]) -> None:
    every = [tuple(values(sweep, index).values()) for index in range(size(sweep))]

    assert every == list(product(*sweep.values()))
    assert list(values(sweep, 0)) == list(sweep)
    array = array_of(a_spec(sweep=sweep))
    assert array is not None
    assert list(array.indices) == list(range(len(every)))


@pytest.mark.parametrize("shell", [name for name in ("sh", "bash", "zsh") if shutil.which(name)])
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(FRAGMENTS)), min_size=1, max_size=6), texts)
def test_a_value_never_breaks_the_line(shell: str, words: list[str], value: str) -> None:
    words = [word for word in words if word not in QUOTED_ONLY or is_plain(value)]
    line = f"printf '%s\\0' {' '.join(words)} end # {{v}}'s \"end\"\nprintf '%s\\0' 'next {{v}}'"
    assert hard(line) == set()

    done = subprocess.run(
        [shell, "-c", fill(line, {"v": value})],
        capture_output=True,
        env={"A": "aa", "v": "vv", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        check=True,
    )

    told = [(FRAGMENTS[word] or "<>").replace("<>", value) for word in words]
    assert done.stdout.decode() == "\0".join([*told, "end", f"next {value}", ""])
    assert done.stderr == b""


@given(st.text(), st.dictionaries(names, texts))
def test_nothing_else_is_touched(text: str, chosen: dict[str, str]) -> None:
    unswept = {f"never_{name}": value for name, value in chosen.items()}
    if not any(f"{{{name}}}" in text for name in unswept):
        assert fill(text, unswept) == text
        spec = a_spec(command=("x", text or "y"), sweep={n: (v,) for n, v in unswept.items()})
        assert render(spec, 0).command == spec.command


@given(texts, texts)
def test_exact_arguments_are_filled_in_as_they_are(a: str, b: str) -> None:
    spec = a_spec(
        command=("run", "--a={a}", "{b}{a}", "${a}", "{{a}}", "{ a }", "{c}"),
        env={"A": "x{a}", "a": "{z}"},
        sweep={"a": (a,), "b": (b,)},
    )
    made = render(spec, 0)

    assert made.command == ("run", f"--a={a}", f"{b}{a}", "${a}", f"{{{a}}}", "{ a }", "{c}")
    assert made.env == {"A": f"x{a}", "a": "{z}", "STOKER_SWEEP_a": a, "STOKER_SWEEP_b": b}
    assert render(made, 0) == made


numbers = st.integers(-30, 30).map(str)


@given(
    st.lists(
        st.one_of(texts, numbers, st.sampled_from(["1..3", "0.1..2", "..", "a\\,b"])),
        min_size=1,
        max_size=12,
    )
)
def test_what_is_shown_can_be_typed(each: list[str]) -> None:
    assert read_values(write_values(tuple(each))) == tuple(each)
