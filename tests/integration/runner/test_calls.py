"""Questions to a node: each is done by a process of its own, as the account, within a time."""

from __future__ import annotations

import os
import pwd
import sys
import time
import venv
from pathlib import Path
from typing import Any

import pytest

from stoker.runner.protocol import Answer, Call
from tests.helpers.conda import PYTHON, make_conda
from tests.helpers.runner_client import Client, RunnerProcess, alive, wait_until
from tests.integration.runner.conftest import NOBODY, StartRunner


def call(client: Client, environment: str, **fields: Any) -> Answer:
    client.send(Call(77, "check_environment", args={"environment": environment}, **fields))
    return client.expect(Answer, lambda answer: answer.id == 77)


def test_a_check_says_what_it_found(shared: Client, place: Path) -> None:
    venv.create(place / "venv", symlinks=True)
    version = sys.version.split()[0]
    conda = make_conda(place / "conda 环境" / "envs" / "ml")

    found = call(shared, str(conda))
    assert found.result == {"code": "", "prefix": str(conda), "kind": "conda", "python": version}
    assert call(shared, str(place / "venv")).result["kind"] == "venv"
    for_r = make_conda(place / "r", python=None)
    assert call(shared, str(for_r)).result["python"] == ""


def test_a_check_by_name_lists_what_there_is(start_runner: StartRunner, place: Path) -> None:
    root = place / "root"
    for name in ("ml", "nlp"):
        make_conda(root / "envs" / name)
    client = start_runner(env={"MAMBA_ROOT_PREFIX": str(root)}).client()

    assert call(client, "ml").result["prefix"] == str(root / "envs" / "ml")
    missing = call(client, "no-such-name-here").result
    assert missing["code"] == "environment_missing"
    assert {"ml", "nlp"} <= set(missing["names"])


@pytest.mark.parametrize(
    ("python", "activate", "why"),
    [
        ("#!/no/such/interpreter\n", "", "code 127"),
        ("#!/bin/sh\necho 'no libpython' >&2; exit 1\n", "", "no libpython"),
        ("#!/bin/sh\nkill -SEGV $$\n", "", "signal 11"),
        (PYTHON, "exit 3", "activate.d scripts fail (code 3)"),
    ],
)
def test_a_check_finds_what_does_not_work(
    shared: Client, place: Path, python: str, activate: str, why: str
) -> None:
    prefix = make_conda(place / "broken", python=python, activate=activate)
    found = call(shared, str(prefix)).result
    assert found["code"] == "environment_broken"
    assert str(prefix) in found["detail"]
    assert why in found["detail"]


def test_a_check_that_hangs_holds_up_nobody_and_leaves_nothing(
    runner: RunnerProcess, client: Client, place: Path
) -> None:
    marks = place / "pids"
    hangs = f"#!/bin/sh\nsetsid sh -c 'echo $$ >> {marks}; exec sleep 600' & echo $$ >> {marks}; exec sleep 600\n"
    prefix = make_conda(place / "hangs", python=hangs)
    begun = time.monotonic()
    client.send(Call(1, "check_environment", args={"environment": str(prefix)}, timeout_s=5))
    wait_until(lambda: marks.exists() and len(marks.read_text().split()) == 2)
    pids = [int(word) for word in marks.read_text().split()]

    launch = client.launch("true")
    end = client.ended(launch).exit
    assert end is not None
    assert end.code == 0
    is_answered = any(isinstance(message, Answer) for message in client.seen)
    assert not is_answered or time.monotonic() - begun > 5

    answer = next((m for m in client.seen if isinstance(m, Answer)), None) or client.expect(Answer)
    assert (answer.id, answer.error) == (1, "timeout")
    wait_until(lambda: not any(map(alive, pids)), "everything of it has ended")


def test_one_account_cannot_ask_without_end(client: Client, place: Path) -> None:
    prefix = make_conda(place / "hangs", python="#!/bin/sh\nexec sleep 600\n")
    for number in range(12):
        client.send(
            Call(number, "check_environment", args={"environment": str(prefix)}, timeout_s=2)
        )
    answers = [client.expect(Answer) for _ in range(12)]
    assert [answer.error for answer in answers].count("busy") == 4
    wait_until(lambda: call(client, "/usr").error == "", "there is room again")


def test_what_makes_no_sense_is_refused(shared: Client) -> None:
    shared.send(Call(1, "format_disk"))
    assert shared.expect(Answer).error == "unknown_verb"
    shared.send(Call(2, "check_environment", args={"environment": "x" * 100_000}))
    assert "too long" in shared.expect(Answer).error
    shared.send(Call(3, "check_environment", "no-such-account", {"environment": "x"}))
    assert shared.expect(Answer).error == "account_unknown"
    assert call(shared, "").result["code"] == "environment_missing"


def test_a_check_is_done_as_the_account(shared: Client, place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: runs as another account")
    name = pwd.getpwuid(NOBODY).pw_name
    mark = place / "marks"
    mark.mkdir()
    mark.chmod(0o777)
    open_to_all = make_conda(place / "open", activate=f'echo "$(id -u)" >> {mark}/uid\n')
    closed = make_conda(place / "closed")
    closed.chmod(0o700)

    assert call(shared, str(open_to_all), account=name).result["code"] == ""
    assert (mark / "uid").read_text() == f"{NOBODY}\n"
    assert call(shared, str(closed), account=name).result["code"] == "environment_broken"
