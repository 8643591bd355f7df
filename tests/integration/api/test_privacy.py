"""What another person sees of a task, by every route, every stream and every command.

Ana's tasks are full of canaries: words that nobody but her and admins may ever read. Bo asks for
everything there is to ask for, under each rule of the lab, and every byte of every answer is
searched.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stoker.api import reduced
from stoker.api.app import ROUTES
from stoker.api.route import Route
from stoker.cli.run import COMMANDS
from stoker.domain.person import Person
from stoker.domain.task import fields
from stoker.engines.base import CardUse, LaunchOrder, NodeSampled
from stoker.engines.fake import Behaviour
from stoker.lab.book import Put
from tests.helpers.api_server import ApiServer, Reply, serving

SECRET = ("CANARY-value", "CANARY-output", "CANARY-detail", "CANARY-foreign", "CANARY-home")
"""Never shown to others, whatever the rule."""
PRIVATE = (
    "CANARY-argument", "CANARY-script", "CANARY-workdir", "CANARY-stdout", "CANARY-stderr",
    "CANARY-environment", "CANARY-description", "CANARY-sweep", "CANARY-card",
)  # fmt: skip
"""Shown to others only where the lab shows them everything."""
CANARIES = SECRET + PRIVATE
LEVELS = ("queue", "all", "nothing")

FULL: dict[str, Any] = {
    "command": ["train", "CANARY-argument"],
    "description": "CANARY-description",
    "workdir": "/CANARY-workdir",
    "env": {"KEY": "CANARY-value"},
    "environment": "/CANARY-environment",
    "stdout": "/CANARY-stdout",
    "stderr": "/CANARY-stderr",
    "gpus": 1,
    "gpu_id_args": "--CANARY-card=",
}


def behave(order: LaunchOrder) -> Behaviour:
    if order.owner != "ana":
        return Behaviour(code=int(order.spec.name == "fails"))
    if order.spec.name == "forever":
        return Behaviour(run_for_s=None, output=b"CANARY-output")
    return Behaviour(code=1, reason="file_missing", detail="CANARY-detail", output=b"CANARY-output")


class Lab:
    """Ana with her tasks, Bo who looks, and an admin."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.ana, self.bo = server.add_person("ana"), server.add_person("bo")
        self.root = server.add_person("root", role="admin")
        self.gone = self.submit(**FULL, hold=True)
        self.request("DELETE", f"/tasks/{self.gone}", token=self.ana)
        self.ended = self.submit(**FULL, name="seen-ended")
        self.runs = self.submit(**(FULL | {"gpus": 4}), name="forever")
        self.sweep = self.submit(
            name="seen-sweep",
            command=["x", "{part}"],
            sweep={"part": ["CANARY-sweep", "CANARY-sweep-2"]},
        )
        self.waits = self.submit(**(FULL | {"gpus": 2}), name="seen-waits")
        self.held = self.submit(command="echo CANARY-script", hold=True, after=[self.runs])
        self.own = self.submit(name="mine", command=["x", "own"], gpus=4, token=self.bo)
        for id in (self.ended, self.sweep, f"{self.sweep}_0"):
            self.until(id, "FINISHED")
        self.until(self.runs, "RUNNING")
        server.on_loop(self._sample)

    @property
    def tasks(self) -> tuple[str, ...]:
        """All of Ana's that are there."""
        return (self.ended, self.runs, self.sweep, f"{self.sweep}_0", self.waits, self.held)

    def request(self, method: str, path: str, body: object = None, **more: Any) -> Reply:
        return self.server.request(method, path, body, **more)

    def look(self, path: str) -> Reply:
        """As Bo."""
        return self.request("GET", path, token=self.bo)

    def submit(self, *, token: str = "", **spec: object) -> str:
        reply = self.request("POST", "/tasks", spec, token=token or self.ana)
        assert reply.status == 201, reply.body
        return str(reply.json["id"])

    def task(self, id: str) -> Any:
        return self.request("GET", f"/tasks/{id}", token=self.ana).json["task"]

    def until(self, id: str, state: str) -> None:
        self.server.until(lambda: self.task(id)["state"] == state)

    def events(self) -> list[Any]:
        """What the stream tells Bo, up to his own newest event."""
        seen = []
        last = self.look("/events?limit=500").json["events"][-1]["seq"]
        with self.server.sse("/events/stream?after=0", token=self.bo) as stream:
            for event in stream:
                seen.append(event.json)
                if event.json["seq"] == last:
                    return seen
        raise AssertionError("the stream ended")

    def news(self) -> list[Any]:
        """What the server's log tells Bo from the beginning on, up to the newest line."""
        seen, last = [], self.look("/server-log?limit=2000").json["lines"][-1]
        with self.server.sse("/server-log/stream?after=0-0-0", token=self.bo) as stream:
            for event in stream:
                seen.append(event.json)
                if event.json == last:
                    return seen
        raise AssertionError("the stream ended")

    def _sample(self) -> None:
        gpu = self.server.engine.nodes["testbed"].gpus[0].uuid
        use = CardUse(
            uuid=gpu,
            memory_used_mib=1,
            utilisation=1,
            foreign=("carl:77:CANARY-foreign --x", "bo:78:own-process"),
        )
        self.server.flow.nodes["testbed"].sample = NodeSampled(
            node="testbed", at=datetime.now(UTC), load1=0.5, memory_available_mib=1,
            disk_free_mib=1, cards=(use,),
        )  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with serving(tmp_path_factory.mktemp("CANARY-home"), behave, is_lab=True) as server:
        yield Lab(server)


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, lab: Lab) -> str:
    lab.server.others_see(request.param)
    return str(request.param)


def found(data: bytes, canaries: tuple[str, ...] = CANARIES) -> list[str]:
    return [canary for canary in canaries if canary.encode() in data]


def forbidden(level: str) -> tuple[str, ...]:
    return SECRET if level == "all" else CANARIES


# ---- every way to ask


NAMED = {"node": "testbed", "person": "ana", "queue": "default", "team": "x", "setting": "policy"}


def filled(route: Route, id: str) -> str:
    return route.path.format(id=id, **NAMED)


def test_no_answer_holds_what_is_private(lab: Lab, level: str) -> None:
    asked = 0
    for route in ROUTES:
        if route.scope == "account" and route.method != "GET":
            continue  # of no task, and Bo wants to stay who he is
        for id in lab.tasks if "{id}" in route.path else ("",):
            if route.media_type == "text/event-stream":
                if "{id}" in route.path:
                    with lab.server.sse(filled(route, id), token=lab.bo) as stream:
                        assert stream.status in (403, 404)
                        assert found(stream.response.read()) == []
                continue
            reply = lab.request(route.method, filled(route, id), token=lab.bo)
            assert found(reply.body, forbidden(level)) == [], (route.method, filled(route, id))
            asked += 1
    assert asked > len(lab.tasks) * 10
    assert found(repr(lab.events()).encode(), forbidden(level)) == []
    assert found(repr(lab.news()).encode(), CANARIES) == []


def test_lists_and_exports_with_every_filter(lab: Lab, level: str) -> None:
    filters = [
        "elements=true", f"array={lab.sweep}", "owner=ana", "name=seen", "outcome=failed",
        "sort=position", "sort=finished", "state=waiting&sort=-position",
    ]  # fmt: skip
    for query in filters:
        assert found(lab.look(f"/tasks?{query}").body, forbidden(level)) == []
    for query in ("format=csv", "format=jsonl&elements=true", "owner=bo"):
        reply = lab.look(f"/tasks/export?{query}")
        assert reply.status == 200
        assert found(reply.body) == []
        assert b"ana" not in reply.body


def test_nothing_private_can_be_searched_for(lab: Lab) -> None:
    lab.server.others_see("queue")
    for canary in CANARIES:
        assert lab.look(f"/tasks?name={canary}").json["tasks"] == []


BODIES = {"move": {"to": "first"}, "extend": {"add_s": 60}}


def test_refusals_of_acts_hold_nothing_and_change_nothing(lab: Lab, level: str) -> None:
    before = {id: lab.task(id)["version"] for id in lab.tasks}
    for route in ROUTES:
        if route.task is None or route.method == "GET":
            continue
        body: Any = BODIES.get(route.path.rpartition("/")[2], {"command": ["true"]})
        for id in lab.tasks:
            path = route.path.replace("{id}", id)
            reply = lab.request(
                route.method,
                path,
                body if route.body is not None else None,
                token=lab.bo,
                headers={"If-Match": "1"},
            )
            code = "unknown_task" if level == "nothing" else "not_yours"
            assert (reply.status, reply.json["code"]) == (404 if level == "nothing" else 403, code)
            assert found(reply.body) == []
    assert {id: lab.task(id)["version"] for id in lab.tasks} == before


# ---- what is seen


def test_others_see_the_queue(lab: Lab) -> None:
    lab.server.others_see("queue")
    rows = {row["id"]: row for row in lab.look("/tasks").json["tasks"]}

    assert set(rows) == {lab.ended, lab.runs, lab.sweep, lab.waits, lab.held, lab.own}
    ended = rows[lab.ended]
    assert ended["reduced"] is True
    assert (ended["owner"], ended["outcome"], ended["reason"]) == ("ana", "failed", "file_missing")
    assert (
        ended["message"]
        == "It looked for a file that is not there. Check the path and the working folder."
    )
    assert ended["spec"]["name"] == "seen-ended"
    assert ended["spec"]["gpus"] == 1
    assert (ended["spec"]["command"], ended["spec"]["env"], ended["spec"]["array"]) == ("", {}, "")
    assert rows[lab.sweep]["array"]["size"] == 2
    assert rows[lab.held]["spec"]["after"] == [lab.runs]
    assert rows[lab.own].get("reduced") is None
    assert rows[lab.own]["spec"]["command"] == ["x", "own"]


def test_a_task_of_another_in_detail(lab: Lab) -> None:
    lab.server.others_see("queue")
    seen = lab.look(f"/tasks/{lab.ended}").json
    whole = lab.request("GET", f"/tasks/{lab.ended}", token=lab.ana).json

    assert [event["event"] for event in seen["events"]] == [e["event"] for e in whole["events"]]
    attempt, known = seen["attempts"][0], whole["attempts"][0]
    assert (attempt["id"], attempt["node"], attempt["gpu_ids"]) == ("", "testbed", known["gpu_ids"])
    assert (attempt["end"]["reason"], attempt["end"]["detail"]) == ("file_missing", "")
    assert known["end"]["detail"] == "CANARY-detail"
    placed = next(event for event in seen["events"] if event["event"] == "Placed")
    assert set(placed["values"]) == {"allocation"}
    assert known["id"] not in repr(seen)


def test_all_shows_what_is_run_but_no_output_and_no_environment(lab: Lab) -> None:
    lab.server.others_see("all")
    rows = {row["id"]: row for row in lab.look("/tasks?elements=true").json["tasks"]}

    assert rows[lab.ended]["spec"]["command"] == ["train", "CANARY-argument"]
    assert rows[lab.ended]["spec"]["env"] == {}
    assert rows[lab.ended]["reduced"] is True
    assert rows[f"{lab.sweep}_0"]["sweep"] == {"part": "CANARY-sweep"}
    assert lab.look(f"/tasks/{lab.ended}/log").json["code"] == "not_yours"


def test_nothing_means_that_there_is_nothing(lab: Lab) -> None:
    lab.server.others_see("nothing")
    missing = lab.look("/tasks/99999").json

    assert [row["id"] for row in lab.look("/tasks").json["tasks"]] == [lab.own]
    assert lab.look("/tasks?owner=ana").json == {"tasks": [], "next": None}
    assert {event["task"] for event in lab.events()} == {lab.own}
    for id in lab.tasks:
        for below in ("", "/why", "/successors", "/log"):
            said = lab.look(f"/tasks/{id}{below}").json
            assert said == missing | {"message": missing["message"].replace("99999", id)}
    for path in (
        f"/tasks/{lab.own}", f"/tasks/{lab.own}/why", "/nodes", "/tasks", "/events", "/share",
        "/server-log?limit=2000", "/queues", "/teams", "/quotas", "/announcement", "/settings",
    ):  # fmt: skip
        assert b"ana" not in lab.look(path).body, path
    assert {line["values"]["task"] for line in lab.news() if "task" in line["values"]} == {lab.own}
    why = lab.look(f"/tasks/{lab.own}/why").json
    assert why["holders"] == [
        {"task": "", "owner": "", "node": "testbed", "gpu_ids": [0, 1, 2, 3], "ends": None}
    ]
    cards = lab.look("/nodes").json[0]["cards"]
    assert [(card["busy"], card["task"], card["tasks"]) for card in cards] == [(True, None, [])] * 4


def test_what_is_not_there_can_be_named_nowhere(lab: Lab) -> None:
    lab.server.others_see("nothing")
    for id in (lab.runs, lab.held, "99999"):
        wish = {"command": ["true"], "after": [f"{id}:ok"], "hold": True}
        for path, body in (
            ("/tasks", wish),
            ("/tasks/preview", wish),
            ("/tasks/batch", {"tasks": [wish]}),
        ):
            reply = lab.request("POST", path, body, token=lab.bo)
            assert (reply.status, reply.json["code"]) == (422, "dependency_unknown")
        version = str(lab.request("GET", f"/tasks/{lab.own}", token=lab.bo).json["task"]["version"])
        edit = lab.request(
            "PUT", f"/tasks/{lab.own}/spec", wish, token=lab.bo, headers={"If-Match": version}
        )
        assert edit.json["code"] == "dependency_unknown"
        move = {"to": "before", "other": id}
        reply = lab.request("POST", f"/tasks/{lab.own}/move", move, token=lab.bo)
        assert (reply.status, reply.json["code"]) == (409, "not_same_line")
        reply = lab.look(f"/tasks/export?id={id}")
        assert (reply.status, reply.json["code"]) == (404, "unknown_task")


def test_under_queue_one_may_wait_for_anothers_task(lab: Lab) -> None:
    lab.server.others_see("queue")
    mine = lab.submit(command=["true"], after=[lab.runs], token=lab.bo)

    why = lab.look(f"/tasks/{mine}/why").json
    assert why["reasons"][0]["values"] == {"task": lab.runs, "when": "any"}
    theirs = lab.request("GET", f"/tasks/{lab.runs}/successors", token=lab.ana).json
    row = next(row for row in theirs if row["id"] == mine)
    assert (row["reduced"], row["spec"]["command"]) == (True, "")
    lab.request("DELETE", f"/tasks/{mine}", token=lab.bo)


def test_foreign_processes_are_anothers_business(lab: Lab, level: str) -> None:
    card = lab.look("/nodes").json[0]["cards"][0]
    whole = lab.request("GET", "/nodes", token=lab.root).json[0]["cards"][0]

    assert card["foreign"] == ["carl:77", "bo:78:own-process"]
    assert whole["foreign"] == ["carl:77:CANARY-foreign --x", "bo:78:own-process"]


def test_exports_are_ones_own(lab: Lab, level: str) -> None:
    refused = lab.look("/tasks/export?owner=ana")
    assert (refused.status, refused.json["code"]) == (403, "export_not_yours")
    mine = lab.request("GET", "/tasks/export", token=lab.ana)
    assert found(mine.body, ("CANARY-argument", "CANARY-detail"))
    everybody = lab.request("GET", "/tasks/export?owner=ana", token=lab.root)
    assert everybody.body == mine.body


def test_owners_and_admins_see_everything(lab: Lab, level: str) -> None:
    for token in (lab.ana, lab.root):
        row = lab.request("GET", f"/tasks/{lab.ended}", token=token).json["task"]
        assert "reduced" not in row
        assert {name: row["spec"][name] for name in FULL} == FULL
        listed = lab.request("GET", "/tasks", token=token).body
        assert found(listed, ("CANARY-value", "CANARY-argument", "CANARY-detail"))
        assert b'"reduced":true' not in listed or token == lab.ana


def test_an_admins_token_without_that_scope_sees_what_a_user_sees(lab: Lab) -> None:
    lab.server.others_see("queue")
    token = lab.server.add_person("part", role="admin", scopes=["tasks:read", "tasks:write"])
    for path in ("/tasks", f"/tasks/{lab.ended}", "/events?limit=500", "/nodes"):
        assert found(lab.request("GET", path, token=token).body) == []


def test_whose_a_deleted_task_was_is_remembered(lab: Lab) -> None:
    lab.server.others_see("nothing")
    gone = lab.submit(command=["true"], hold=True, token=lab.bo)
    lab.request("DELETE", f"/tasks/{gone}", token=lab.root)

    told = [
        (event["task"], event["event"]) for event in lab.look("/events?limit=500").json["events"]
    ]

    assert (gone, "Deleted") in told
    assert all(task != lab.gone for task, _ in told)


def test_strangers_learn_nothing_about_nodes_people_and_paths(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.server.flow, "shared_account", "CANARY-account")
    for token in ("", "stk_wrong"):
        headers = {"Authorization": f"Bearer {token}"}
        health = lab.request("GET", "/health", headers=headers).json
        version = lab.request("GET", "/version", headers=headers).json
        assert set(health) == {"status", "problems", "notices", "waiting", "live"}
        assert (health["problems"], health["notices"]) == ([], [])
        assert version["home"] == ""
    assert "CANARY-home" in lab.request("GET", "/version", token=lab.root).json["home"]
    assert "CANARY-account" in lab.look("/health").json["notices"][0]


def test_the_servers_log_says_of_others_what_the_queue_says(lab: Lab) -> None:
    lab.server.others_see("queue")
    told = {
        (line["code"], line["values"].get("person"), line["values"].get("task"))
        for line in lab.news()
    }

    assert {("ended", "ana", lab.ended), ("started", "ana", lab.runs)} <= told
    assert ("deleted", "ana", lab.gone) in told
    for line in lab.news():
        assert set(line["values"]) <= {"task", "person", "gpus", "node", "outcome", "why", "text"}


def test_the_servers_log_remembers_whose_a_deleted_task_was(lab: Lab) -> None:
    lab.server.others_see("nothing")
    gone = lab.submit(command=["true"], hold=True, token=lab.bo)
    lab.request("DELETE", f"/tasks/{gone}", token=lab.bo)

    told = [(line["code"], line["values"].get("task")) for line in lab.news()]

    assert ("deleted", gone) in told
    assert ("deleted", lab.gone) not in told


def test_where_others_stand_is_shown_with_the_queue_only(lab: Lab, level: str) -> None:
    people = {row["person"] for row in lab.look("/share").json["table"]}

    assert ("ana" in people) is (level != "nothing")
    for path in ("/share?person=ana", "/share?person=nobody", "/tokens?person=ana"):
        refused = lab.look(path)
        assert (refused.status, refused.json["code"]) == (403, "admins_only")


def test_the_audit_trail_and_the_log_itself_are_for_admins(lab: Lab, level: str) -> None:
    for path in ("/audit", "/audit/verify", "/audit/export", "/server-log/full", "/people"):
        refused = lab.look(path)
        assert (refused.status, refused.json["code"]) == (403, "admins_only")
        assert lab.request("GET", path, token=lab.root).status == 200
    with lab.server.sse("/server-log/full/stream", token=lab.bo) as stream:
        assert stream.status == 403


# ---- what belongs to others stays as it is


def test_deleting_with_successors_stops_at_others_tasks(lab: Lab) -> None:
    lab.server.others_see("queue")
    first = lab.submit(command=["true"], hold=True, token=lab.bo)
    mine = lab.submit(command=["true"], after=[f"{first}:ok"], token=lab.bo)
    theirs = lab.submit(command=["true"], after=[f"{first}:ok"])

    refused = lab.request("DELETE", f"/tasks/{first}?with_successors=true", token=lab.bo)

    assert (refused.status, refused.json["code"]) == (403, "successors_not_yours")
    assert "1 of the tasks" in refused.json["message"]
    for id in (first, mine, theirs):
        assert lab.request("GET", f"/tasks/{id}", token=lab.root).status == 200
    deleted = lab.request("DELETE", f"/tasks/{first}?with_successors=true", token=lab.root)
    assert set(deleted.json["deleted"]) == {first, mine, theirs}


def test_a_new_try_takes_only_ones_own_successors_along(lab: Lab) -> None:
    lab.server.others_see("queue")
    first = lab.submit(command=["true"], name="fails", token=lab.bo)
    lab.server.until(lambda: lab.look(f"/tasks/{first}").json["task"]["state"] == "FINISHED")
    mine = lab.submit(command=["true"], after=[f"{first}:ok"], token=lab.bo)
    theirs = lab.submit(command=["true"], after=[f"{first}:ok"])

    again = lab.request("POST", f"/tasks/{first}/resubmit", token=lab.bo).json["id"]

    assert lab.look(f"/tasks/{mine}").json["task"]["spec"]["after"] == [f"{again}:ok"]
    assert lab.task(theirs)["spec"]["after"] == [f"{first}:ok"]
    for id in (mine, theirs):
        lab.request("DELETE", f"/tasks/{id}", token=lab.root)


def test_every_field_of_a_task_has_been_decided_about() -> None:
    """A new field is private until it is named in `api.reduced`, and its like is named here."""
    names = {field.name for field in fields()}
    assert names - reduced.ALL_FIELDS == {"env", "notify"}
    assert names - reduced.QUEUE_FIELDS >= {
        "command", "env", "workdir", "stdout", "stderr", "environment", "description", "sweep",
        "array", "notify", "gpu_id_args",
    }  # fmt: skip
    assert names >= reduced.ALL_FIELDS


# ---- the command line

VERBS: dict[str, list[list[str]]] = {
    "ls": [[], ["-a"], ["--json"], ["-a", "--elements", "--json"], ["{id}"], ["--json", "{id}"]],
    "show": [["{id}"], ["--json", "{id}"]],
    "why": [["{id}"], ["--json", "{id}"]],
    "top": [["--once"], ["--once", "--json"]],
    "logs": [["{id}"], ["-f", "{id}"]],
    "cancel": [["{id}"]],
    "hold": [["{id}"]],
    "release": [["{id}"], ["--anyway", "{id}"]],
    "edit": [["{id}", "--name", "x"]],
    "move": [["{id}", "--first"]],
    "resubmit": [["{id}"], ["--failed", "{id}"]],
    "requeue": [["{id}"]],
    "delete": [["--yes", "{id}"], ["--yes", "--with-successors", "{id}"]],
    "export": [["--format", "jsonl"], ["--owner", "ana"], ["{id}"]],
    "nodes": [[], ["--json"]],
    "drain": [["testbed"]],
    "resume": [["testbed"]],
    "submit": [["--dry-run", "--gpus", "4", "--", "true"]],
    "version": [[]],
    "extend": [["{id}", "+1h"]],
    "share": [[], ["--json"]],
    "server-log": [[], ["-n", "2000", "--json"]],
    "queue": [["ls"], ["ls", "--json"]],
    "quota": [["ls"]],
    "audit": [["ls"], ["export"]],
}
"""How each command that may tell of tasks is called."""
ACTS = (
    "cancel", "hold", "release", "edit", "move", "resubmit", "requeue", "delete", "drain", "resume",
    "logs", "extend", "audit",
)  # fmt: skip
WITHOUT_TASKS = {
    "up", "down", "reset", "backup", "restore", "db", "upgrade-check", "service", "config", "help",
    "completion", "wait",
    "user", "login", "logout", "token", "passwd", "me", "team", "settings", "pause", "announce",
    "notify",
}  # fmt: skip
"""Commands of the serving machine, and those that tell of no task; `wait` says one word."""


def test_every_command_has_been_decided_about() -> None:
    assert set(COMMANDS) == set(VERBS) | WITHOUT_TASKS
    assert set(VERBS) & WITHOUT_TASKS == set()


def run_as_bo(lab: Lab, home: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    known = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "LC_"))}
    mine = {"STOKER_URL": lab.server.url, "STOKER_TOKEN": lab.bo, "STOKER_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "stoker", *args],
        env=known | mine | {"LANG": "C.UTF-8"},
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("verb", VERBS)
def test_no_command_shows_or_does_it(lab: Lab, tmp_path: Path, verb: str) -> None:
    lab.server.others_see("queue")
    for args in VERBS[verb]:
        done = run_as_bo(lab, tmp_path, verb, *[a.replace("{id}", lab.ended) for a in args])
        assert found(done.stdout + done.stderr) == [], args
        if verb in ACTS:
            assert done.returncode == 2, done
            assert b"belongs to ana" in done.stderr or b"Only admins" in done.stderr
        elif verb != "export":
            assert done.returncode == 0, done.stderr


def test_commands_say_that_a_task_is_anothers(lab: Lab, tmp_path: Path) -> None:
    lab.server.others_see("queue")
    listed = run_as_bo(lab, tmp_path, "ls").stdout.decode().splitlines()
    shown = run_as_bo(lab, tmp_path, "show", lab.held).stdout.decode()

    assert listed[0].split() == ["ID", "OWNER", "STATE", "SINCE", "GPU", "NODE", "TASK"]
    held = next(line for line in listed if line.startswith(f"{lab.held} "))
    assert held.split()[1:3] == ["ana", "held"]
    assert held.endswith("·")
    assert "not yours: only ana and admins see what it runs" in shown


def test_tab_offers_others_tasks_only_to_look_at(lab: Lab, tmp_path: Path) -> None:
    lab.server.others_see("queue")

    def offered(verb: str) -> str:
        return run_as_bo(lab, tmp_path, "__complete", "zsh", verb, "").stdout.decode()

    assert lab.waits in offered("why").split()
    assert lab.own in offered("cancel").split()
    assert lab.waits not in offered("cancel").split()


# ---- nobody is named where others are not there


def test_who_goes_first_is_not_said_where_others_are_not_there(tmp_path: Path) -> None:
    with serving(tmp_path, behave, is_lab=True) as server:
        ana, bo = server.add_person("ana"), server.add_person("bo")
        server.others_see("nothing")

        def submitted(token: str, **spec: object) -> str:
            reply = server.request("POST", "/tasks", {"command": ["x"]} | spec, token=token)
            return str(reply.json["id"])

        submitted(ana, name="forever", gpus=2)
        first = submitted(ana, gpus=4)
        mine = submitted(bo, gpus=1)

        def reasons(token: str) -> list[Any]:
            found: list[Any] = server.request("GET", f"/tasks/{mine}/why", token=token).json[
                "reasons"
            ]
            return found

        server.until(lambda: "gpus_kept_unnamed" in [reason["code"] for reason in reasons(bo)])
        assert "task" not in reasons(bo)[0]["values"]
        assert "somebody's task" in reasons(bo)[0]["message"]
        cards = server.request("GET", "/nodes", token=bo).json[0]["cards"]
        assert [card["kept_for"] for card in cards] == [""] * 4
        theirs = server.request("GET", "/nodes", token=ana).json[0]["cards"]
        assert [card["kept_for"] for card in theirs] == [first] * 4
        assert sum(card["task"] is not None for card in theirs) == 2

        server.run(server.flow.book.amend([Put("person", "ana", Person(name="ana", weight=-1))]))
        server.until(lambda: "behind_unnamed" in [reason["code"] for reason in reasons(bo)])
        detail = server.request("GET", f"/tasks/{mine}", token=bo)
        assert b"ana" not in detail.body
        assert "behind_unnamed" in [reason["code"] for reason in detail.json["waits"]]
        assert b"ana" not in server.request("GET", "/share", token=bo).body
        server.others_see("queue")
        share = server.request("GET", "/share", token=bo).json
        assert "ana" in " ".join(share["sentences"])
