"""What activation does to the variables of a command; the scripts are really sourced."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from stoker.runner.activate import activated, collect, sourced
from stoker.runner.envs import Environment, Unusable

ENV = {b"PATH": b"/usr/bin:/bin", b"HOME": b"/home/ana", b"MINE": b"said", b"PYTHONHOME": b"/old"}


def a_conda(prefix: Path, *scripts: str) -> Environment:
    folder = prefix / "etc" / "conda" / "activate.d"
    folder.mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    for number, text in enumerate(scripts):
        (folder / f"{number} 脚本.sh").write_text(text)
    return Environment("conda", bytes(prefix), b"ml")


def test_a_virtual_environment() -> None:
    env = activated(Environment("venv", b"/v", b"v"), ENV, frozenset())
    assert env == {
        b"PATH": b"/v/bin:/usr/bin:/bin", b"HOME": b"/home/ana", b"MINE": b"said",
        b"VIRTUAL_ENV": b"/v",
    }  # fmt: skip


def test_a_conda_environment(tmp_path: Path) -> None:
    found = a_conda(tmp_path)
    packages = tmp_path / "etc" / "conda" / "env_vars.d"
    packages.mkdir()
    (packages / "a.json").write_text('{"A": "package", "B": "package"}')
    (packages / "broken.json").write_text("{")
    said = {"B": "person", "HOME": "***unset***", "MINE": "other", "PATH": "/evil", "n": 5}
    (tmp_path / "conda-meta" / "state").write_text(json.dumps({"version": 1, "env_vars": said}))

    env = activated(found, ENV, frozenset({b"MINE"}))

    prefix = bytes(tmp_path)
    assert env == {
        b"PATH": prefix + b"/bin:/usr/bin:/bin", b"MINE": b"said", b"PYTHONHOME": b"/old",
        b"CONDA_PREFIX": prefix, b"CONDA_DEFAULT_ENV": b"ml", b"CONDA_SHLVL": b"1",
        b"CONDA_PROMPT_MODIFIER": b"(ml) ", b"A": b"package", b"B": b"person", b"n": b"5",
    }  # fmt: skip


def test_scripts_are_sourced_in_order_and_the_person_wins(tmp_path: Path) -> None:
    found = a_conda(
        tmp_path,
        "export A='one\ntwo' MINE=theirs; unset HOME; set -eu; set -- x y; cd /",
        'export B="$A, $CONDA_PREFIX"; export PATH="$CONDA_PREFIX/more:$PATH"; shift 9 || true',
        "false; [ -z '' ] && return 3",
        "export LAST=1; local_only=2",
    )
    kept = frozenset({b"MINE"})
    before = activated(found, {**ENV, b"PWD": b"/work", b"BASH_ENV": b"/no/such"}, kept)

    after = sourced(found, before, kept)

    prefix = bytes(tmp_path)
    assert after == {
        **{name: value for name, value in before.items() if name != b"HOME"},
        b"A": b"one\ntwo",
        b"B": b"one\ntwo, " + prefix,
        b"PATH": prefix + b"/more:" + prefix + b"/bin:/usr/bin:/bin",
        b"LAST": b"1",
    }


def test_what_a_script_leaves_running_holds_nobody_up(tmp_path: Path) -> None:
    found = a_conda(tmp_path, "sleep 600 & export LEFT=$!")
    env = sourced(found, activated(found, ENV, frozenset()), frozenset())
    os.kill(int(env[b"LEFT"]), signal.SIGKILL)


def test_a_script_that_ends_the_shell_is_said(tmp_path: Path) -> None:
    found = a_conda(tmp_path, "exit 7")
    with pytest.raises(Unusable) as caught:
        sourced(found, activated(found, ENV, frozenset()), frozenset())
    assert caught.value.code == "environment_broken"
    assert caught.value.detail == f"{tmp_path}: its activate.d scripts fail (code 7)"


def test_a_script_that_hangs_is_ended(tmp_path: Path) -> None:
    found = a_conda(tmp_path, "exec sleep 600")
    env = activated(found, ENV, frozenset())
    with pytest.raises(TimeoutError):
        sourced(found, env, frozenset(), time.monotonic() + 0.1)


def test_a_program_is_read_to_its_end(tmp_path: Path) -> None:
    def run(*argv: str) -> tuple[int, bytes]:
        return collect([word.encode() for word in argv], ENV, (1, 2))

    assert run("/bin/sh", "-c", "echo out; echo err >&2; exit 3") == (3, b"out\nerr\n")
    assert run("/bin/sh", "-c", "kill -9 $$") == (-9, b"")
    assert run("/no/such/program")[0] == 127
    code, said = run("/bin/sh", "-c", "head -c 300000 /dev/zero")
    assert (code, len(said)) == (0, 300000)
