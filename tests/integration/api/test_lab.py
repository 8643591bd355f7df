"""Settings, pause, announcement, audit trail and server log over HTTP, as each role sees them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
import sqlalchemy as sa

from stoker.api.app import ROUTES
from stoker.client import Client, Refused
from stoker.domain.trail import Trail
from tests.helpers.api_server import ApiServer, serving

from .conftest import by_name


class Lab(NamedTuple):
    server: ApiServer
    root: str
    ana: str
    bo: str

    def get(self, path: str, token: str = "") -> Any:
        return self.server.request("GET", path, token=token or self.root).json

    def do(self, method: str, path: str, body: object = None, token: str = "") -> tuple[int, Any]:
        reply = self.server.request(method, path, body, token=token or self.root)
        return reply.status, reply.json

    def acts(self) -> list[tuple[str, str, str]]:
        found = self.get("/audit")["acts"]
        return [(act["who"], act["act"], act["on"]) for act in reversed(found)]


@contextmanager
def open_lab(home: Path) -> Iterator[Lab]:
    with serving(home, by_name, is_lab=True) as server:
        root = server.add_person("root", role="admin")
        yield Lab(server, root, server.add_person("ana"), server.add_person("bo"))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with open_lab(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """For tests that mind nothing that others have done."""
    with open_lab(tmp_path_factory.mktemp("home")) as made:
        yield made


MINE = ("/settings", "/announcement", "/pause", "/audit", "/server-log")


@pytest.mark.parametrize(
    "route",
    [r for r in ROUTES if r.path.startswith(MINE) and not r.path.endswith("stream")],
    ids=lambda r: f"{r.method} {r.path}",
)
def test_admins_change_and_everybody_looks(shared: Lab, route: Any) -> None:
    lab = shared
    bodies = {
        "/settings/{setting}": {"value": "fifo"},
        "/announcement": {"text": "x"},
        "/pause": {},
    }
    path = route.path.replace("{setting}", "policy")
    body = bodies.get(route.path) if route.method == "PUT" else None
    reply = lab.server.request(route.method, path, body, token=lab.ana)
    if route.access == "admin":
        assert (reply.status, reply.json["code"]) == (403, "admins_only")
    else:
        assert (reply.status, route.method) == (200, "GET")
    reader = lab.server.add_person("cy", role="admin", scopes=["tasks:read"])
    refused = lab.server.request(route.method, path, body, token=reader).status == 403
    assert refused == (route.access == "admin")
    assert lab.server.request(route.method, path, body, token=lab.root).status == 200


# ---- settings


def test_a_setting_is_changed_read_refused_and_set_back(lab: Lab) -> None:
    (policy,) = [one for one in lab.get("/settings", lab.ana) if one["name"] == "policy"]
    assert (policy["value"], policy["source"], policy["choices"]) == (
        "balance",
        "default",
        ["balance", "fifo", "fairshare"],
    )
    status, after = lab.do("PUT", "/settings/policy", {"value": "fifo"})
    assert (status, after["value"], after["default"], after["source"]) == (
        200, "fifo", "balance", "changed",
    )  # fmt: skip
    assert lab.server.flow.policy.order == "fifo"
    for body, code in (
        ({"value": "best"}, "not_a_choice"),
        ({"value": None}, "wrong_type"),
        ({}, "missing_field"),
    ):
        status, refusal = lab.do("PUT", "/settings/policy", body)
        assert (status, refusal["code"]) == (422, code)
    status, refusal = lab.do("PUT", "/settings/listen", {"value": "x"})
    assert (status, refusal["code"], refusal["field"]) == (404, "no_such_setting", "listen")
    assert lab.do("DELETE", "/settings/policy")[1]["source"] == "default"
    assert lab.acts() == [
        ("root", "settings.set", "policy"),
        ("root", "settings.unset", "policy"),
    ]
    reply = lab.server.request("GET", "/settings", token=lab.ana, headers={"Accept-Language": "zh"})
    assert "谁先运行" in reply.json[0]["about"]


@pytest.mark.parametrize("policy", ["balance", "fifo"])
def test_another_policy_while_tasks_wait(lab: Lab, policy: str) -> None:
    """ana was in line first, but holds three cards: balance lets bo go first, fifo does not."""

    def submit(token: str, gpus: int) -> str:
        spec = {"command": ["true"], "name": "forever", "gpus": gpus}
        return str(lab.do("POST", "/tasks", spec, token)[1]["id"])

    submit(lab.ana, 3)
    lab.do("PUT", "/pause", {})
    hers, his = submit(lab.ana, 1), submit(lab.bo, 1)
    assert lab.do("PUT", "/settings/policy", {"value": policy})[0] == 200
    lab.do("DELETE", "/pause")

    first, second = (his, hers) if policy == "balance" else (hers, his)
    lab.server.until(lambda: lab.get(f"/tasks/{first}")["task"]["state"] == "RUNNING")
    assert lab.get(f"/tasks/{second}")["task"]["state"] == "QUEUED"


# ---- what everybody is told


def test_every_answer_carries_what_everybody_is_told(lab: Lab) -> None:
    server, text = lab.server, "周五 22:00 维护: please save 100 %"
    assert server.request("GET", "/tasks", token=lab.ana).headers["Stoker-Announcement"] is None
    assert lab.do("PUT", "/announcement", {"text": f"  {text} "})[0] == 200
    lab.do("PUT", "/pause", {"why": "new disks"})

    for path, status in (("/tasks", 200), ("/tasks/99", 404), ("/nodes", 200)):
        reply = server.request("GET", path, token=lab.ana)
        assert reply.status == status
        assert unquote(reply.headers["Stoker-Announcement"]) == text
        paused = json.loads(unquote(reply.headers["Stoker-Paused"]))
        assert (paused["by"], paused["why"]) == ("root", "new disks")
    for path, token in (("/health", "stk_nobody"), ("/tasks", "stk_nobody")):
        assert server.request("GET", path, token=token).headers["Stoker-Announcement"] is None
    assert lab.get("/announcement", lab.bo)["text"] == text
    with Client(server.url, lab.ana) as client:
        client.health()
        list(client.tasks())
        assert client.announcement == text
        assert client.pause is not None
    lab.do("DELETE", "/announcement")
    lab.do("DELETE", "/pause")
    with Client(server.url, lab.ana) as client:
        list(client.tasks())
        assert client.announcement == ""
        assert client.pause is None
    assert lab.get("/announcement", lab.bo) == {"text": None, "by": None, "at": None}
    assert [act for _, act, _ in lab.acts()] == [
        "announcement.set", "scheduling.pause", "announcement.clear", "scheduling.resume",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "a\r\nSet-Cookie: x=1", "\x1b[2J", "x" * 501, "   "])
def test_what_is_no_plain_line_is_not_announced(shared: Lab, text: str) -> None:
    before = shared.acts()
    status, refusal = shared.do("PUT", "/announcement", {"text": text})
    assert (status, refusal["field"]) == (422, "text")
    assert shared.acts() == before


def test_who_waits_is_told_of_the_pause(lab: Lab) -> None:
    lab.do("PUT", "/pause", {"why": "new disks"})
    _, made = lab.do("POST", "/tasks", {"command": ["true"]}, lab.ana)
    assert made["state"] == "QUEUED"
    why = lab.get(f"/tasks/{made['id']}/why", lab.ana)
    assert why["reasons"][0]["code"] == "paused"
    assert why["reasons"][0]["message"].startswith("Scheduling is paused by root since ")
    assert why["reasons"][0]["message"].endswith(": new disks")
    assert lab.get("/pause", lab.ana)["paused"] is True
    assert any("paused" in problem for problem in lab.get("/health")["problems"])
    assert lab.do("DELETE", "/pause")[1]["paused"] is False
    lab.server.until(
        lambda: lab.get(f"/tasks/{made['id']}", lab.ana)["task"]["state"] == "FINISHED"
    )


# ---- the audit trail


def test_what_admins_do_to_nodes_and_tasks_is_known(lab: Lab) -> None:
    lab.do("POST", "/nodes/testbed/drain", {"why": "fan"})
    lab.do("POST", "/nodes/testbed/resume")
    lab.do("POST", "/nodes/nowhere/resume")
    lab.server.request("GET", "/tasks/export", token=lab.root)
    lab.server.request("GET", "/tasks/export?owner=root", token=lab.root)
    lab.server.request("GET", "/tasks/export", token=lab.ana)
    assert lab.acts() == [
        ("root", "node.drain", "node testbed"),
        ("root", "node.resume", "node testbed"),
        ("root", "tasks.export", "tasks of everybody"),
    ]


def test_pages_filters_and_the_chain(lab: Lab) -> None:
    for value in range(1, 8):
        lab.do("PUT", "/settings/keep_days", {"value": value})
    other = lab.server.add_person("eva", role="admin")
    lab.do("PUT", "/settings/policy", {"value": "fifo"}, other)

    page = lab.get("/audit?limit=3&who=root")
    assert [act["seq"] for act in page["acts"]] == [7, 6, 5]
    assert [act["seq"] for act in lab.get(f"/audit?who=root&before={page['next']}")["acts"]] == [
        4, 3, 2, 1,
    ]  # fmt: skip
    assert [act["who"] for act in lab.get("/audit?act=settings&limit=1")["acts"]] == ["eva"]
    head = lab.get("/audit/verify")["head"]
    lines = lab.server.request("GET", "/audit/export", token=lab.root).body.splitlines()
    trail = Trail(head)
    assert all(trail.follows(**json.loads(line)) for line in lines)
    assert (trail.count, trail.noted) == (9, 8)  # the export itself is the last one
    assert lab.get(f"/audit/verify?head={head}")["noted"] == 8
    assert lab.get(f"/audit/verify?head={head[::-1]}")["noted"] is None


def test_a_trail_that_was_touched_is_found(lab: Lab) -> None:
    for value in range(1, 5):
        lab.do("PUT", "/settings/keep_days", {"value": value})
    engine = sa.create_engine(f"sqlite:///{lab.server.home}/stoker.db")
    with engine.begin() as connection:
        kept = connection.execute(sa.text("SELECT body FROM audit WHERE seq = 2")).scalar()
        harm = sa.text("UPDATE audit SET body = replace(body, 'root', 'ana') WHERE seq = 2")
        connection.execute(harm)
    found = lab.get("/audit/verify")
    assert (found["count"], found["broken"]) == (1, 2)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE audit SET body = :b WHERE seq = 2"), {"b": kept})
    engine.dispose()
    assert lab.get("/audit/verify")["broken"] is None


# ---- the server's log


def news(lab: Lab, token: str) -> list[str]:
    return [line["message"] for line in lab.get("/server-log", token)["lines"]]


def test_everybody_reads_what_happened_and_nothing_private(lab: Lab) -> None:
    spec = {"command": ["echo", "secret-word"], "name": "secret-name", "gpus": 1}
    _, made = lab.do("POST", "/tasks", spec, lab.ana)
    id = made["id"]
    lab.server.until(lambda: lab.get(f"/tasks/{id}", lab.ana)["task"]["state"] == "FINISHED")
    lab.do("PUT", "/announcement", {"text": "hello"})

    lines = news(lab, lab.bo)
    assert lines[0] == "Node testbed is up (GPUs: 4)."
    assert f"ana submitted task {id} (GPUs: 1)." in lines
    assert f"Task {id} of ana started on testbed." in lines
    assert f"Task {id} of ana has ended: succeeded." in lines
    assert lines[-1] == "root announced: hello"
    assert "secret" not in json.dumps(lab.get("/server-log", lab.bo))

    lab.do("PUT", "/settings/others_see", {"value": "nothing"})
    assert [line for line in news(lab, lab.bo) if "ana" in line] == []
    assert f"ana submitted task {id} (GPUs: 1)." in news(lab, lab.ana)
    assert f"ana submitted task {id} (GPUs: 1)." in news(lab, lab.root)


def test_the_log_goes_on_where_it_was_left(lab: Lab) -> None:
    begin = lab.get("/server-log", lab.bo)["next"]
    lab.do("PUT", "/announcement", {"text": "one"})
    lab.do("POST", "/tasks", {"command": ["true"], "hold": True}, lab.ana)
    with Client(lab.server.url, lab.bo) as client:
        stream = client.follow_server_log(begin)
        codes = sorted(next(stream).code for _ in range(2))
        lab.do("PUT", "/pause", {})
        assert (codes, next(stream).code) == (["announced", "submitted"], "paused")
        stream.close()  # type: ignore[attr-defined]
    refused = lab.server.request("GET", "/server-log/stream?after=x", token=lab.bo)
    assert (refused.status, refused.json["code"]) == (422, "bad_log_cursor")


def test_admins_read_the_log_itself(lab: Lab) -> None:
    journal = logging.getLogger("stoker.test-of-the-journal")
    handler = lab.server.journal
    journal.addHandler(handler)
    try:
        journal.warning("event=seen token=%s", "stk_" + "s" * 43)
        page = lab.get("/server-log/full")
        assert page["lines"][-1]["text"].endswith("event=seen token=stk_***")
        with Client(lab.server.url, lab.root) as client:
            stream = client.follow_full_server_log(page["next"])
            journal.warning("event=later")
            assert next(stream).text.endswith("event=later")
            stream.close()  # type: ignore[attr-defined]
        with Client(lab.server.url, lab.ana) as client, pytest.raises(Refused) as refused:
            client.full_server_log()
        assert refused.value.code == "admins_only"
    finally:
        journal.removeHandler(handler)
