"""Who may do what, seen over HTTP: the first of the rules; all routes are in the matrix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.api_server import ApiServer, serving


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[ApiServer]:
    with serving(tmp_path, is_lab=True) as server:
        yield server


def test_everybody_is_who_the_token_says(lab: ApiServer) -> None:
    ana, bo = lab.add_person("ana"), lab.add_person("bo")

    task = lab.request("POST", "/tasks", {"command": ["true"], "hold": True}, token=ana).json["id"]

    assert lab.request("GET", f"/tasks/{task}", token=ana).json["task"]["owner"] == "ana"
    refused = lab.request("POST", f"/tasks/{task}/cancel", token=bo)
    assert (refused.status, refused.json["code"]) == (403, "not_yours")
    assert lab.request("GET", f"/tasks/{task}/log", token=bo).json["code"] == "not_yours"
    assert lab.request("POST", f"/tasks/{task}/cancel", token=ana).status == 200


def test_an_admin_acts_on_others_tasks_and_that_is_known(lab: ApiServer) -> None:
    ana, root = lab.add_person("ana"), lab.add_person("root", role="admin")
    task = lab.request("POST", "/tasks", {"command": ["true"], "hold": True}, token=ana).json["id"]

    assert lab.request("POST", f"/tasks/{task}/cancel", token=root).status == 200

    acts = lab.run(lab.flow.store.audited(None, 10))
    assert [(a.act.who, a.act.act, a.act.on) for a in acts] == [
        ("root", "task.cancel", f"task {task} of ana")
    ]


def test_a_token_is_good_for_what_it_says(lab: ApiServer) -> None:
    reader = lab.add_person("ana", scopes=["tasks:read"])
    fake_admin = lab.add_person("bo", role="admin", scopes=["tasks:read", "tasks:write"])

    assert lab.request("GET", "/tasks", token=reader).status == 200
    refused = lab.request("POST", "/tasks", {"command": ["true"]}, token=reader)
    assert (refused.status, refused.json["code"]) == (403, "missing_scope")
    drain = lab.request("POST", "/nodes/testbed/drain", {"why": "x"}, token=fake_admin)
    assert drain.json["code"] == "missing_scope"
    user = lab.add_person("cy", scopes=["tasks:read", "tasks:write", "account"])
    drain = lab.request("POST", "/nodes/testbed/drain", {"why": "x"}, token=user)
    assert (drain.status, drain.json["code"]) == (403, "admins_only")


def test_who_is_locked_is_not_let_in(lab: ApiServer) -> None:
    token = lab.add_person("ana", locked=True)

    refused = lab.request("GET", "/tasks", token=token)

    assert (refused.status, refused.json["code"]) == (403, "account_locked")
