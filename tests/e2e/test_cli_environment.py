"""Environments as a student meets them: the active one, by name, by folder, none, and bad ones."""

from __future__ import annotations

import shutil
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.conda import make_conda

from .conftest import Stoker

WHERE = "import os, sys; print(os.environ.get('CONDA_PREFIX'), sys.argv[1:])"
ACTIVATE = 'export TINY_HOME="$CONDA_PREFIX/share"\n'


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stoker]:
    """A Stoker that was started where conda is known."""
    made = Stoker(tmp_path_factory.mktemp("lab"))
    root = made.folder / "conda 根"
    made.env["MAMBA_ROOT_PREFIX"] = str(root)
    for name in ("stoker-ml", "stoker-nlp"):
        make_conda(root / "envs" / name, activate=ACTIVATE, variables={"FROM_STATE": name})
    venv.create(made.work / "my 环境")
    made.up()
    yield made
    assert made.clean_up() == []


def conda_of(lab: Stoker, name: str = "stoker-ml") -> Path:
    return Path(lab.env["MAMBA_ROOT_PREFIX"]) / "envs" / name


def output(lab: Stoker, id: str) -> str:
    lab("wait", id)
    return lab.output(id).decode().strip()


def active(kind: str, folder: Path) -> dict[str, str]:
    return {kind: str(folder)}


def test_an_active_virtual_environment_is_used_and_said(lab: Stoker) -> None:
    folder = lab.work / "my 环境"
    env = active("VIRTUAL_ENV", folder)
    said = lab(
        "submit", "--", "python", "-c", "import sys, os; print(sys.prefix, os.getcwd())", env=env
    )
    id = said.stdout.split()[1]

    assert f"\nIt runs in the environment that is active here: {folder}.\n" in said.stdout
    assert output(lab, id) == f"{folder} {lab.work}"
    assert lab.task(id)["spec"]["environment"] == str(folder)
    shown = lab("show", id).stdout
    assert f"--environment '{folder}'" in shown


def test_an_active_conda_environment_is_used_with_all_it_sets(lab: Stoker) -> None:
    line = 'echo "$CONDA_DEFAULT_ENV|$FROM_STATE|$TINY_HOME"; command -v python'
    prefix = conda_of(lab)
    said = lab("submit", "-c", line, env=active("CONDA_PREFIX", prefix)).stdout
    assert output(lab, said.split()[1]) == (
        f"stoker-ml|stoker-ml|{prefix}/share\n{prefix}/bin/python"
    )


def test_by_name_by_folder_and_in_a_script(lab: Stoker) -> None:
    prefix, words = conda_of(lab), ["a  b", "", "$HOME;"]
    ids = [lab.submit("--environment", "stoker-ml", "--", "python", "-c", WHERE, *words)]
    (lab.work / "here").symlink_to(prefix)
    ids.append(lab.submit("--environment", "./here", "--", "python", "-c", WHERE, *words))
    assert output(lab, ids[0]) == f"{prefix} {words}"
    assert output(lab, ids[1]) == f"{lab.work}/here {words}"

    script = lab.work / "train.sh"
    script.write_text("#!/bin/sh\n#STOKER --environment stoker-nlp\necho $CONDA_DEFAULT_ENV\n")
    env = active("VIRTUAL_ENV", lab.work / "my 环境")
    said = lab("submit", "train.sh", env=env).stdout
    assert "It runs in the environment stoker-nlp." in said
    assert output(lab, said.split()[1]) == "stoker-nlp"
    said = lab("submit", "--environment", "stoker-ml", "train.sh", env=env).stdout
    assert output(lab, said.split()[1]) == "stoker-ml"


def test_none_is_none_whatever_is_active(lab: Stoker) -> None:
    env = active("VIRTUAL_ENV", lab.work / "my 环境")
    said = lab("submit", "--environment", "none", "-c", "echo ${VIRTUAL_ENV-nothing}", env=env)
    assert "environment" not in said.stdout
    assert output(lab, said.stdout.split()[1]) == "nothing"


def test_another_machines_server_is_not_given_it_silently(lab: Stoker) -> None:
    """The name of this machine in front of the same server looks like any other machine."""
    env = active("VIRTUAL_ENV", lab.work / "my 环境") | {"STOKER_URL": "http://stoker.invalid:9"}
    refused = lab("submit", "--", "true", env=env, code=3)
    assert "Not in " in refused.stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("stoker-mll", "There are, nearest first: stoker-ml, stoker-nlp"),
        ("./nothing-here", "/nothing-here on"),
        ("/usr", "/usr is neither a conda nor a virtual environment"),
        ("docker://pytorch/pytorch", "images are not supported in this version yet"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(lab: Stoker, typed: str, said: str) -> None:
    refused = lab("submit", "--environment", typed, "--", "true", code=2)
    assert refused.stderr.startswith("stoker: environment: ")
    assert said in refused.stderr
    assert said in lab("submit", "--dry-run", "--environment", typed, "--", "true", code=2).stderr


def test_a_broken_interpreter_is_refused(lab: Stoker) -> None:
    prefix = make_conda(lab.folder / "broken", python="#!/bin/sh\necho no libc >&2; exit 1\n")
    refused = lab("submit", "--", "true", env=active("CONDA_PREFIX", prefix), code=2)
    assert f"{prefix}: bin/python: no libc." in refused.stderr


def test_one_that_vanishes_before_the_start_fails_the_task_and_says_so(lab: Stoker) -> None:
    prefix = make_conda(lab.folder / "short lived")
    id = lab.submit("--hold", "--environment", str(prefix), "--", "python", "-c", "1")
    shutil.rmtree(prefix)
    lab("release", id)
    lab("wait", id, code=1)
    task = lab.task(id)
    assert (task["outcome"], task["reason"]) == ("failed", "environment_missing")
    assert task["message"] == (f"The environment {prefix} it should run in is not there any more.")
    refused = lab("resubmit", id, code=2)
    assert f"there is no {prefix}" in refused.stderr

    again = lab("edit", id, "--environment", "stoker-ml").stdout
    assert "--environment" in again
    assert "stoker-ml" in again


def test_an_edit_changes_it(lab: Stoker) -> None:
    id = lab.submit(
        "--hold", "--environment", "stoker-ml", "-c", "echo ${CONDA_DEFAULT_ENV-nothing}"
    )
    lab("edit", id, "--gpus", "1", env=active("VIRTUAL_ENV", lab.work / "my 环境"))
    assert lab.task(id)["spec"]["environment"] == "stoker-ml"
    lab("edit", id, "--environment", "./my 环境")
    assert lab.task(id)["spec"]["environment"] == str(lab.work / "my 环境")
    lab("edit", id, "--unset", "environment")
    lab("release", id)
    assert output(lab, id) == "nothing"
