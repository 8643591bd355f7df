"""Queues, teams, quotas and labels over HTTP: who sees and changes what, and that it counts at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.engines.fake import Behaviour
from stoker.lab.policy import POLICY_KINDS
from tests.helpers.api_server import ApiServer, Reply, serving


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[ApiServer]:
    with serving(tmp_path, is_lab=True) as server:
        yield server


@pytest.fixture
def root(lab: ApiServer) -> str:
    return lab.add_person("root", role="admin")


def put(lab: ApiServer, token: str, path: str, version: int, **body: Any) -> Reply:
    headers = {"If-Match": f'"{version}"'}
    return lab.request("PUT", path, body, token=token, headers=headers)


def queue(lab: ApiServer, token: str, name: str, **terms: Any) -> Any:
    made = put(lab, token, f"/queues/{name}", 0, **terms)
    assert made.status == 200, made.body
    return made.json


def team(lab: ApiServer, token: str, name: str, *members: str, **terms: Any) -> Any:
    assert put(lab, token, f"/teams/{name}", 0, **terms).status == 200
    wish = {"add": list(members)}
    joined = lab.request("POST", f"/teams/{name}/members", wish, token=token)
    assert joined.status == 200, joined.body
    return joined.json


def submit(lab: ApiServer, token: str, **spec: Any) -> Reply:
    return lab.request("POST", "/tasks", {"command": ["true"]} | spec, token=token)


def names(reply: Reply) -> list[str]:
    assert reply.status == 200, reply.body
    return [one["name"] for one in reply.json]


def told(reply: Reply) -> tuple[int, str, str | None]:
    return reply.status, reply.json["code"], reply.json["field"]


def acts(lab: ApiServer) -> list[tuple[str, str]]:
    return [(a.act.act, a.act.on) for a in reversed(lab.run(lab.flow.store.audited(None, 100)))]


# ---- queues


def test_a_queue_is_made_changed_and_removed(lab: ApiServer, root: str) -> None:
    made = queue(lab, root, "debug", default_limit_s=600, longest_s=900, priority=10)
    assert (made["version"], made["terms"]["longest_s"], made["restricted"]) == (2, 900, False)

    ana = lab.add_person("ana")
    assert names(lab.request("GET", "/queues", token=ana)) == ["debug", "default"]
    task = submit(lab, ana, queue="debug", gpus=1, hold=True).json["id"]
    assert (
        lab.request("GET", f"/tasks/{task}", token=ana).json["task"]["spec"]["time_limit_s"] == 600
    )
    seen = lab.request("GET", "/queues/debug", token=ana).json
    assert (seen["waiting"], seen["yours"], seen["running"]) == (1, 1, 0)

    changed = put(lab, root, "/queues/debug", 2, longest_s=60)
    assert (changed.json["version"], changed.json["terms"]["priority"]) == (3, 0)
    refused = submit(lab, ana, queue="debug")
    assert told(refused) == (422, "too_long", "time_limit_s")

    full = lab.request("DELETE", "/queues/debug", token=root)
    assert told(full) == (409, "queue_has_waiting", None)
    assert "move-to" in full.json["hint"]
    gone = lab.request("DELETE", "/queues/debug?move_to=default", token=root)
    assert gone.json == {"name": "debug", "moved": 1}
    assert (
        lab.request("GET", f"/tasks/{task}", token=ana).json["task"]["spec"]["queue"] == "default"
    )
    assert told(submit(lab, ana, queue="debug")) == (422, "unknown_queue", "queue")
    assert acts(lab) == [("queue.add", "debug"), ("queue.edit", "debug"), ("queue.rm", "debug")]


@pytest.mark.parametrize(
    ("name", "terms", "code", "field"),
    [
        ("a b", {}, "bad_name", "name"),
        ("-x", {}, "bad_name", "name"),
        ("x" * 65, {}, "bad_name", "name"),
        ("x", {"engine": "slurm"}, "not_yet", "engine"),
        ("x", {"people": ["nobody"]}, "unknown_person", "people"),
        ("x", {"teams": ["nobody"]}, "no_such_team", "teams"),
        ("x", {"labels": ["a b"]}, "bad_name", "labels"),
        ("x", {"nodes": []}, "too_short", "nodes"),
        ("x", {"most_cards": 0}, "too_small", "most_cards"),
        ("x", {"longest_s": 0}, "too_small", "longest_s"),
        ("x", {"priority": 1001}, "too_large", "priority"),
        ("x", {"about": "a\nb"}, "control_characters", "about"),
        ("x", {"default_limit_s": 900, "longest_s": 60}, "limits_contradict", "default_limit_s"),
        ("x", {"rank": "best"}, "not_a_choice", "rank"),
        ("x", {"colour": "red"}, "unknown_field", "colour"),
    ],
)
def test_what_cannot_be_a_queue_is_refused_by_field(
    lab: ApiServer, root: str, name: str, terms: dict[str, Any], code: str, field: str
) -> None:
    refused = put(lab, root, f"/queues/{name.replace(' ', '%20')}", 0, **terms)
    assert told(refused) == (422, code, field)
    assert acts(lab) == []


def test_nobody_overwrites_what_he_has_not_seen(lab: ApiServer, root: str) -> None:
    queue(lab, root, "debug")
    assert told(put(lab, root, "/queues/debug", 0)) == (409, "queue_exists", None)
    assert told(put(lab, root, "/queues/debug", 1)) == (412, "stale_entry", None)
    assert told(put(lab, root, "/queues/other", 1)) == (404, "no_such_queue", None)
    assert lab.request("PUT", "/queues/debug", {}, token=root).status == 428
    assert put(lab, root, "/queues/default", 1, most_cards_each=2).status == 200
    assert told(lab.request("DELETE", "/queues/default", token=root)) == (
        409,
        "default_queue",
        None,
    )


def test_a_queue_for_some_is_hidden_from_the_others(lab: ApiServer, root: str) -> None:
    ana, bo = lab.add_person("ana"), lab.add_person("bo")
    team(lab, root, "vision", "ana")
    queue(lab, root, "vision", teams=["vision"], people=["root"])

    assert names(lab.request("GET", "/queues", token=ana)) == ["default", "vision"]
    seen = lab.request("GET", "/queues/vision", token=ana).json
    assert (seen["restricted"], seen["terms"]["teams"], seen["terms"]["people"]) == (True, [], [])
    assert lab.request("GET", "/queues/vision", token=root).json["terms"]["teams"] == ["vision"]
    assert submit(lab, ana, queue="vision", hold=True).status == 201

    assert names(lab.request("GET", "/queues", token=bo)) == ["default"]
    assert told(lab.request("GET", "/queues/vision", token=bo)) == (404, "no_such_queue", None)
    refused = submit(lab, bo, queue="vision")
    assert told(refused) == (403, "queue_not_yours", "queue")
    assert "default" in refused.json["message"]
    assert told(put(lab, bo, "/queues/mine", 0))[:2] == (403, "admins_only")


def test_tasks_that_may_not_wait_elsewhere_stop_the_removal(lab: ApiServer, root: str) -> None:
    ana = lab.add_person("ana")
    queue(lab, root, "long")
    queue(lab, root, "debug", longest_s=60)
    tasks = [submit(lab, ana, queue="long", hold=True).json["id"] for _ in range(3)]

    for target, code in (("debug", "cannot_move"), ("long", "same_queue"), ("x", "no_such_queue")):
        refused = lab.request("DELETE", f"/queues/long?move_to={target}", token=root)
        assert refused.json["code"] == code
    for task in tasks:
        spec = lab.request("GET", f"/tasks/{task}", token=ana).json["task"]["spec"]
        assert (spec["queue"], spec["time_limit_s"]) == ("long", None)
    assert "long" in names(lab.request("GET", "/queues", token=root))


def test_arrays_and_their_elements_move_with_the_queue(lab: ApiServer, root: str) -> None:
    ana = lab.add_person("ana")
    queue(lab, root, "long")
    array = submit(lab, ana, queue="long", hold=True, array="0-4", gpus=1).json["id"]
    lab.request("POST", f"/tasks/{array}_2/hold", token=ana)

    gone = lab.request("DELETE", "/queues/long?move_to=default", token=root)

    assert gone.status == 200
    assert lab.on_loop(lambda: lab.flow.in_line) == {"ana": {"default": 5}}
    seen = lab.request("GET", "/queues/default", token=root).json
    assert (seen["waiting"], seen["yours"]) == (5, 0)


def test_too_many_that_wait(lab: ApiServer, root: str) -> None:
    ana = lab.add_person("ana")
    queue(lab, root, "few", most_waiting=2)
    assert submit(lab, ana, queue="few", hold=True, array="0-1").status == 201
    refused = submit(lab, ana, queue="few", hold=True)
    assert told(refused) == (429, "queue_full", "queue")
    assert refused.headers["Retry-After"]
    assert told(lab.request("POST", "/tasks/batch", {"tasks": [
        {"command": ["true"]}, {"command": ["true"], "queue": "few", "hold": True},
    ]}, token=ana)) == (429, "queue_full", "tasks[1].queue")  # fmt: skip


# ---- teams and quotas


def test_a_team_is_made_filled_and_removed(lab: ApiServer, root: str) -> None:
    ana, _ = lab.add_person("ana"), lab.add_person("bo")
    made = team(lab, root, "vision", "ana", "bo", most_cards=4)
    assert (made["members"], made["most_cards"], made["cards"]) == (["ana", "bo"], 4, 0)

    assert names(lab.request("GET", "/teams", token=ana)) == ["vision"]
    assert names(lab.request("GET", "/teams", token=lab.add_person("cy"))) == []
    team(lab, root, "nlp", "bo")
    left = lab.request("POST", "/teams/vision/members", {"remove": ["bo"]}, token=root)
    assert told(left) == (422, "not_in_team", "remove")
    unknown = lab.request("POST", "/teams/vision/members", {"add": ["dee"]}, token=root)
    assert told(unknown) == (422, "unknown_person", "add")
    missing = lab.request("POST", "/teams/none/members", {"add": ["bo"]}, token=root)
    assert told(missing) == (404, "no_such_team", None)

    queue(lab, root, "vision", teams=["vision"])
    used = lab.request("DELETE", "/teams/vision", token=root)
    assert told(used) == (409, "team_in_queues", None)
    lab.request("DELETE", "/queues/vision", token=root)
    gone = lab.request("DELETE", "/teams/vision", token=root)
    assert gone.json == {"name": "vision", "members": ["ana"]}
    assert lab.flow.book.people["ana"].team == ""
    assert ("quota.set", "team vision") in acts(lab)
    assert [one for one in acts(lab) if one[0].startswith("team.")] == [
        ("team.add", "vision"), ("team.members", "vision"), ("team.add", "nlp"),
        ("team.members", "nlp"), ("team.rm", "vision"),
    ]  # fmt: skip


def test_quotas_count_at_once(lab: ApiServer, root: str) -> None:
    ana, bo = lab.add_person("ana"), lab.add_person("bo")
    assert lab.request("PUT", "/people/ana/quota", {"most_cards": 2}, token=root).json == {
        "person": "ana", "team": "", "most_cards": 2, "cards": 0,
    }  # fmt: skip
    refused = submit(lab, ana, gpus=3)
    assert told(refused) == (422, "over_quota", "gpus")
    assert "stoker quota set ana 3" in refused.json["hint"]
    assert submit(lab, bo, gpus=3, hold=True).status == 201

    team(lab, root, "vision", "ana", "bo", most_cards=1)
    assert told(submit(lab, bo, gpus=2)) == (422, "over_quota_team", "gpus")
    mine = lab.request("GET", "/quotas", token=ana).json
    assert [(q["person"], q["team"], q["most_cards"]) for q in mine["people"]] == [
        ("ana", "vision", 2)
    ]
    assert [(t["name"], t["most_cards"]) for t in mine["teams"]] == [("vision", 1)]
    every = lab.request("GET", "/quotas", token=root).json
    assert [q["person"] for q in every["people"]] == ["ana", "bo", "root"]

    assert lab.request("PUT", "/people/ana/quota", {"most_cards": None}, token=root).status == 200
    for body, code in (({}, "missing_field"), ({"most_cards": -1}, "too_small")):
        bad = lab.request("PUT", "/people/ana/quota", body, token=root)
        assert told(bad) == (422, code, "most_cards")
    nobody = lab.request("PUT", "/people/dee/quota", {"most_cards": 1}, token=root)
    assert told(nobody) == (404, "unknown_person", None)


def test_who_waits_for_a_quota_is_told_in_both_languages(tmp_path: Path) -> None:
    with serving(tmp_path, lambda _: Behaviour(run_for_s=None), is_lab=True) as lab:
        _waits_for_a_quota(lab)


def _waits_for_a_quota(lab: ApiServer) -> None:
    ana, bo = lab.add_person("ana"), lab.add_person("bo")
    team(lab, lab.add_person("root", role="admin"), "vision", "ana", "bo", most_cards=3)
    assert submit(lab, ana, gpus=2).json["state"] == "STARTING"
    waits = submit(lab, bo, gpus=2).json["id"]

    for language, sentence in (("en", "The members of team vision"), ("zh", "小组 vision 的成员")):
        why = lab.request(
            "GET", f"/tasks/{waits}/why", token=bo, headers={"Accept-Language": language}
        )
        (reason,) = [r for r in why.json["reasons"] if r["code"] == "quota_team"]
        assert reason["message"].startswith(sentence)


# ---- labels


def test_a_queue_finds_its_nodes_by_labels(lab: ApiServer, root: str) -> None:
    ana = lab.add_person("ana")
    made = queue(lab, root, "fast", labels=["fast"], nodes=["testbed", "other"])
    assert (made["missing_labels"], made["missing_nodes"]) == (["fast"], ["other"])
    assert submit(lab, ana, queue="fast").status == 422

    labelled = lab.request("PUT", "/nodes/testbed/labels", {"labels": ["fast", "a100"]}, token=root)
    assert labelled.json["labels"] == ["a100", "fast"]
    assert lab.request("GET", "/queues/fast", token=root).json["missing_labels"] == []
    assert submit(lab, ana, queue="fast").status == 201
    bad = lab.request("PUT", "/nodes/testbed/labels", {"labels": ["a b"]}, token=root)
    assert told(bad) == (422, "bad_name", "labels")
    missing = lab.request("PUT", "/nodes/none/labels", {"labels": []}, token=root)
    assert told(missing) == (404, "unknown_node", None)


def test_all_of_it_changes_the_policy() -> None:
    assert {"person", "team", "queue", "node"} <= POLICY_KINDS
