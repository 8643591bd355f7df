"""Queues, teams and quotas as people type them, against a lab's server and a real one's config.toml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stoker.config import DEBUG_QUEUE
from stoker.engines.fake import Behaviour
from tests.helpers.api_server import ApiServer, serving

from .conftest import ROOT, Stoker

Run = Callable[..., str]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("lab")
    with serving(folder, lambda _: Behaviour(run_for_s=None), is_lab=True) as server:
        yield server


@pytest.fixture(scope="module")
def root(lab: ApiServer) -> Run:
    return _person(lab, "root", role="admin")


@pytest.fixture(scope="module")
def ana(lab: ApiServer) -> Run:
    return _person(lab, "ana")


@pytest.fixture(scope="module")
def bo(lab: ApiServer) -> Run:
    return _person(lab, "bo")


def _person(lab: ApiServer, name: str, **known: Any) -> Run:
    """The command line of somebody who has a token."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "LC_"))}
    env |= {"STOKER_URL": lab.url, "STOKER_TOKEN": lab.add_person(name, **known)}
    env |= {"PYTHONPATH": str(ROOT / "src"), "LANG": "C.UTF-8"}

    def run(*args: str, code: int = 0, **more: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "stoker", *args],
            capture_output=True, text=True, env=env | more, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_a_debug_queue_from_the_first_line_to_its_removal(root: Run, ana: Run) -> None:
    said = root(
        "queue", "add", "debug", "--default-limit", "10m", "--longest", "15m", "--priority", "10",
        "--most-cards-each", "2", "--nodes", "testbed,lab9",
    )  # fmt: skip
    assert "stoker submit -q debug" in said
    assert "lab9" in said
    assert "There is a queue debug already." in root("queue", "add", "debug", code=2)

    listed = ana("queue", "ls")
    head, debug, default = listed.splitlines()
    assert head.split()[:2] == ["QUEUE", "PRIORITY"]
    assert debug.split()[:5] == ["debug", "10", "0", "0", "0"]
    assert "10 min, up to 15 min" in debug
    assert default.split()[0] == "default"
    assert all(len(line) <= 100 for line in (head, default))

    ana("submit", "-q", "debug", "--hold", "--", "true")
    refused = ana("submit", "-q", "debug", "-t", "1h", "--", "true", code=2)
    assert "queue debug may take 15 min" in refused
    root("queue", "edit", "debug", "--default-limit", "none")
    shown = ana("queue", "show", "debug", LANG="zh_CN.UTF-8")
    assert "最长 15 分钟" in shown
    assert json.loads(ana("queue", "show", "debug", "--json"))["yours"] == 1

    assert "--move-to" in root("queue", "rm", "debug", code=2)
    assert "Waiting tasks that went to default: 1" in root(
        "queue", "rm", "debug", "--move-to", "default"
    )
    assert "there are: default" in ana("submit", "-q", "debug", "--", "true", code=2)


def test_a_team_with_a_queue_and_a_quota(root: Run, ana: Run, bo: Run) -> None:
    assert root("team", "ls") == "There is no team.\n"
    root("team", "add", "vision", "--add", "ana", "--most-cards", "2")
    root("queue", "add", "vision", "--teams", "vision")
    assert "vision" not in bo("queue", "ls")
    refused = bo("submit", "-q", "vision", "--", "true", code=2)
    assert "queue vision is for others; you may use: default" in refused

    ana("submit", "-q", "vision", "-g", "2", "--", "sleep", "9")
    over = ana("submit", "-g", "3", "--", "true", code=2)
    assert "stoker quota set --team vision 3" in over
    waits = ana("submit", "-g", "1", "--", "true").split()[1].rstrip(":.")
    assert "The members of team vision may hold 2 GPUs together" in ana("why", waits)

    assert root("team", "ls").splitlines()[1].split() == ["vision", "2", "of", "2", "ana"]
    rows = [line.split() for line in root("quota", "ls").splitlines()]
    assert ["ana", "2", "none", "vision"] in rows
    assert ["team", "vision", "2", "2", "-"] in rows
    assert "may hold 3 GPUs together" in root("quota", "set", "--team", "vision", "3")
    root("team", "edit", "vision", "--add", "bo", "--remove", "ana")
    assert root("team", "ls").splitlines()[1].split()[-1] == "bo"
    assert "which would be open to others" in root("team", "rm", "vision", code=2)
    root("queue", "rm", "vision")
    assert "in no team now: bo" in root("team", "rm", "vision")


def test_quotas_of_people(root: Run, bo: Run) -> None:
    assert "bo may hold 1 GPUs" in root("quota", "set", "bo", "1")
    assert "stoker quota set bo 2" in bo("submit", "-g", "2", "--", "true", code=2)
    assert "any number" in root("quota", "set", "bo", "none")
    assert "CARDS" in root("quota", "set", "bo", "many", code=2)
    assert "There is no person zed." in root("quota", "set", "zed", "1", code=2)
    assert "dmin" in bo("quota", "set", "bo", "9", code=2)


def test_labels(root: Run, ana: Run) -> None:
    root("queue", "add", "fast", "--labels", "nvlink")
    assert "no node has this label yet" in root("queue", "edit", "fast", "--about", "quick ones")
    assert "a100, nvlink" in root("nodes", "label", "testbed", "--add", "nvlink,a100")
    assert "labels: a100, nvlink" in ana("nodes")
    assert "has these labels: nvlink" in root("nodes", "label", "testbed", "--remove", "a100")
    assert "There is no node x." in root("nodes", "label", "x", "--add", "y", code=2)
    assert root("queue", "edit", "fast", code=2).startswith("stoker: Nothing to change")
    root("queue", "rm", "fast")


def test_tab_offers_the_queues_there_are(root: Run, ana: Run) -> None:
    root("queue", "add", "night", "--about", "after ten")
    for words in (["submit", "-q", ""], ["queue", "show", ""], ["queue", "rm", "--move-to", ""]):
        offered = ana("__complete", "zsh", *words)
        assert "night\tafter ten" in offered
    root("queue", "rm", "night")


def test_queues_of_the_configuration(own: Stoker) -> None:
    own.home.mkdir(mode=0o700)
    (own.home / "config.toml").write_text(DEBUG_QUEUE)
    own.up()

    (debug, _) = json.loads(own("queue", "ls", "--json").stdout)
    assert (debug["name"], debug["configured"]) == ("debug", True)
    assert debug["terms"]["longest_s"] == 900
    id = own.submit("-q", "debug", "--hold", "--", "true")
    assert own.task(id)["spec"]["time_limit_s"] == 900
    refused = own("queue", "rm", "debug", "--move-to", "default", code=2)
    assert "config.toml" in refused.stderr
    own("queue", "edit", "debug", "--longest", "30m")
    assert json.loads(own("queue", "show", "debug", "--json").stdout)["configured"] is False
