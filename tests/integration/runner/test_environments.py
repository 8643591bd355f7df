"""The environment of a command: activated by its own process, as its owner."""

from __future__ import annotations

import os
import pwd
import venv
from pathlib import Path
from typing import Any

import pytest

from stoker.runner.protocol import GpuHold
from tests.helpers.conda import make_conda
from tests.helpers.runner_client import Client, alive, wait_until
from tests.integration.runner.conftest import NOBODY


def ran(client: Client, place: Path, *argv: str, **fields: Any) -> tuple[str, Any]:
    """What a command wrote, and how it ended."""
    out = place / "out"
    out.unlink(missing_ok=True)
    launch = client.launch(*argv, stdout=str(out), **fields)
    end = client.ended(launch).exit
    client.forget(launch)
    return out.read_text() if out.exists() else "", end


@pytest.fixture(scope="module")
def conda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = (
        'echo activating\nexport TINY_LIB="$CONDA_PREFIX/lib" MINE=theirs\n'
        "export CUDA_VISIBLE_DEVICES=9 STOKER_TASK_ID=9 FROM_STATE_SEEN=$FROM_STATE\n"
    )
    root = tmp_path_factory.mktemp("conda 环境")
    variables = {"FROM_STATE": "a b", "MINE": "state"}
    return make_conda(root / "envs" / "ml", activate=script, variables=variables)


def test_a_conda_environment_is_active_and_the_person_and_the_cards_win(
    shared: Client, place: Path, conda: Path
) -> None:
    line = "for name in CONDA_PREFIX CONDA_DEFAULT_ENV FROM_STATE_SEEN TINY_LIB MINE"
    line += " CUDA_VISIBLE_DEVICES STOKER_TASK_ID; do eval echo \\$$name; done; command -v python"
    said, end = ran(
        shared, place, "sh", "-c", line, "sh",
        environment=str(conda), env={"MINE": "said"}, gpus=[GpuHold(2, "x")], task="17",
    )  # fmt: skip
    assert end.code == 0
    assert said.splitlines() == [
        "activating", str(conda), "ml", "a b", f"{conda}/lib", "said", "2", "17",
        f"{conda}/bin/python",
    ]  # fmt: skip


def test_arguments_are_exact_and_the_program_is_the_environments(
    shared: Client, place: Path, conda: Path
) -> None:
    words = ["a  b", "", "$HOME `id` ;", "'\"", "-c", "\n", "火"]
    script = "import sys; print(sys.argv[1:])"
    said, _ = ran(shared, place, "python", "-c", script, *words, environment=str(conda))
    assert said == f"activating\n{words}\n"

    _, end = ran(shared, place, "no-such-program", environment=str(conda))
    assert (end.cause, end.reason, end.detail) == (
        "refused",
        "command_not_found",
        "no-such-program",
    )


def test_the_persons_path_comes_after_the_environments(
    shared: Client, place: Path, conda: Path
) -> None:
    env = {"PATH": "/mine:/usr/bin:/bin"}
    said, _ = ran(shared, place, "sh", "-c", "echo $PATH", environment=str(conda), env=env)
    assert said.splitlines()[-1] == f"{conda}/bin:/mine:/usr/bin:/bin"


def test_a_virtual_environment_is_active(shared: Client, place: Path) -> None:
    folder = place / "my 环境"
    venv.create(folder)
    script = "import sys, os; print(sys.prefix); print(os.environ['VIRTUAL_ENV'])"
    said, _ = ran(shared, place, "python", "-c", script, environment=str(folder))
    assert said.splitlines() == [str(folder), str(folder)]


@pytest.mark.parametrize(
    ("environment", "reason"),
    [("/no/such", "environment_missing"), ("/usr", "not_an_environment")],
)
def test_one_that_is_not_there_refuses_the_start(
    shared: Client, place: Path, environment: str, reason: str
) -> None:
    _, end = ran(shared, place, "true", environment=environment)
    assert (end.cause, end.reason, end.detail, end.code) == ("refused", reason, environment, None)


def test_a_task_in_a_script_that_hangs_can_be_stopped(shared: Client, place: Path) -> None:
    prefix = make_conda(place / "hangs", activate=f"echo $$ > {place}/pid; sleep 600; :")
    launch = shared.launch("true", environment=str(prefix))
    pid = int(wait_until(lambda: (place / "pid").exists() and (place / "pid").read_text()))
    shared.stop(launch, grace_s=0)

    end = shared.ended(launch).exit

    assert end is not None
    assert (end.cause, alive(pid)) == ("cancel", False)


def test_it_is_activated_as_the_account(shared: Client, place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: runs as another account")
    name = pwd.getpwuid(NOBODY).pw_name
    open_to_all = make_conda(place / "open", activate="id -u\n")
    closed = make_conda(place / "closed")
    closed.chmod(0o700)

    said, _ = ran(shared, place, "true", environment=str(open_to_all), account=name)
    assert said == f"{NOBODY}\n"
    _, end = ran(shared, place, "true", environment=str(closed), account=name)
    assert (end.cause, end.reason) == ("refused", "environment_broken")
    assert end.detail == f"{closed}: Permission denied"
