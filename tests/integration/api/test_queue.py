"""What a person does with tasks over HTTP: edit, move, delete, hand over again, arrays, and why."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.api_server import ApiServer, Reply

SPEC = {"command": ["true"]}


def task_of(server: ApiServer, id: str) -> Any:
    return server.task(id)


def edit(server: ApiServer, id: str, version: object = None, **changes: object) -> Reply:
    """PUT the spec as it is, with changes."""
    task = server.task(id)
    headers = {"If-Match": str(task["version"] if version is None else version)}
    return server.request("PUT", f"/tasks/{id}/spec", task["spec"] | changes, headers=headers)


def fill(server: ApiServer, gpus: int = 4) -> str:
    """Something that holds cards until it is cancelled."""
    id = server.submit(name="forever", gpus=gpus)
    server.wait_for(id, "RUNNING")
    return id


# ---- why


def test_why_a_task_waits(own_server: ApiServer) -> None:
    holder = fill(own_server, 3)
    id = own_server.submit(gpus=2)
    why = own_server.request("GET", f"/tasks/{id}/why").json
    assert why["starts"] is None
    assert [(one["code"], one["values"]["free"]) for one in why["reasons"]] == [("gpus_busy", 1)]
    assert why["reasons"][0]["message"].startswith("Needs 2 of the 4 GPUs on testbed")
    assert why["holders"] == [
        {"task": holder, "owner": "ana", "node": "testbed", "gpu_ids": [0, 1, 2], "ends": None}
    ]
    assert why["place"] == {"ahead": 0, "more": False, "waiting": 1}
    assert why["estimate"]["at"] is None
    assert why["estimate"]["basis"]["code"] == "estimate_unknown"
    fewer = next(one for one in why["suggestions"] if one["code"] == "try_fewer_gpus")
    assert fewer["options"] == {"gpus": 1}
    waits = own_server.request("GET", f"/tasks/{id}").json["waits"]
    assert waits == why["reasons"]
    assert own_server.request("GET", f"/tasks/{id}?waits=false").json["waits"] == []
    in_chinese = own_server.request(
        "GET", f"/tasks/{id}/why", headers={"Accept-Language": "zh"}
    ).json
    assert in_chinese["reasons"][0]["message"].startswith("需要 testbed 上")
    running = own_server.request("GET", f"/tasks/{holder}/why").json
    assert (running["reasons"], running["estimate"]) == ([], None)


def test_what_a_suggestion_says_is_true(own_server: ApiServer) -> None:
    fill(own_server, 3)
    id = own_server.submit(gpus=2)
    why = own_server.request("GET", f"/tasks/{id}/why").json
    fewer = next(one for one in why["suggestions"] if one["code"] == "try_fewer_gpus")
    assert edit(own_server, id, **fewer["options"]).status == 200
    own_server.wait_for(id, "FINISHED")


def test_a_preview_records_nothing_and_refuses_alike(own_server: ApiServer) -> None:
    starts = own_server.request("POST", "/tasks/preview", SPEC | {"gpus": 2}).json["starts"]
    assert starts == [{"node": "testbed", "gpu_ids": [0, 1]}]
    fill(own_server)
    waits = own_server.request("POST", "/tasks/preview", SPEC | {"gpus": 2}).json
    assert waits["starts"] is None
    assert waits["reasons"][0]["code"] == "gpus_busy"
    held = own_server.request("POST", "/tasks/preview", SPEC | {"hold": True}).json
    assert (held["starts"], held["reasons"][0]["code"]) == (None, "held")
    refused: list[dict[str, object]] = [{"gpus": 9}, {"command": []}, {"after": ["99"]}]
    for bad in refused:
        said = own_server.request("POST", "/tasks/preview", SPEC | bad)
        assert said.json == own_server.request("POST", "/tasks", SPEC | bad).json
        assert said.status == 422
    assert len(own_server.request("GET", "/tasks").json["tasks"]) == 1


# ---- edit


def test_an_edit_needs_the_version_that_was_seen(own_server: ApiServer) -> None:
    id = own_server.submit(hold=True)
    missing = own_server.request("PUT", f"/tasks/{id}/spec", SPEC)
    assert (missing.status, missing.json["code"]) == (428, "if_match_missing")
    for odd in ("x", "*", 'W/"1"', "-1", '"1', "", "1, 2", "9" * 30):
        reply = edit(own_server, id, odd)
        assert (reply.status, reply.json["field"]) == (422, "If-Match"), odd
    for fine in ('"1"', "2"):
        assert edit(own_server, id, fine, gpus=int(fine[1:2] or fine)).status == 200, fine
    stale = edit(own_server, id, 1, gpus=4)
    assert (stale.status, stale.json["code"]) == (412, "stale_edit")
    assert task_of(own_server, id)["spec"]["gpus"] == 2


def test_an_edit_is_checked_like_a_submit(server: ApiServer) -> None:
    id = server.submit(hold=True)
    reply = edit(server, id, gpus=9)
    assert (reply.status, reply.json["code"], reply.json["field"]) == (422, "too_many_gpus", "gpus")
    circle = edit(server, id, after=[id])
    assert (circle.status, circle.json["code"]) == (422, "dependency_circular")
    other = server.submit(hold=True, after=[id])
    circle = edit(server, id, after=[other])
    assert (circle.json["code"], circle.json["field"]) == ("dependency_circular", "after[0]")
    unknown = server.request("PUT", "/tasks/999999/spec", SPEC, headers={"If-Match": "1"})
    assert unknown.status == 404


def test_an_edited_task_keeps_its_number_and_a_finished_one_gets_another(
    own_server: ApiServer,
) -> None:
    id = own_server.submit(hold=True, name="a")
    edited = edit(own_server, id, name="b").json
    assert (edited["id"], edited["state"], edited["spec"]["name"]) == (id, "HELD", "b")
    done = own_server.submit(name="done")
    own_server.wait_for(done, "FINISHED")
    made = edit(own_server, done, name="again").json
    assert made["id"] != done
    assert made["origin"] == done
    assert task_of(own_server, done)["spec"]["name"] == "done"
    own_server.wait_for(made["id"], "FINISHED")
    running = fill(own_server)
    refused = edit(own_server, running, name="x")
    assert (refused.status, refused.json["code"]) == (409, "still_running")


# ---- line


def test_moving_in_line(own_server: ApiServer) -> None:
    fill(own_server)
    first, second, third = (own_server.submit(gpus=4) for _ in range(3))

    def order() -> list[str]:
        found = own_server.request("GET", "/tasks?state=waiting&sort=position").json["tasks"]
        return [task["id"] for task in found]

    def move(id: str, to: str, other: str | None = None) -> Reply:
        body = {"to": to} if other is None else {"to": to, "other": other}
        return own_server.request("POST", f"/tasks/{id}/move", body)

    assert order() == [first, second, third]
    assert move(third, "first").status == 200
    assert order() == [third, first, second]
    move(third, "last")
    assert order() == [first, second, third]
    move(third, "before", second)
    assert order() == [first, third, second]
    move(first, "after", second)
    assert order() == [third, second, first]
    for body, field, code in [
        ({"to": "before"}, "other", "missing_field"),
        ({"to": "first", "other": "1"}, "other", "move_without_other"),
        ({"to": "before", "other": "x"}, "other", "not_an_id"),
        ({"to": "up"}, "to", "not_a_choice"),
        ({}, "to", "missing_field"),
    ]:
        reply = own_server.request("POST", f"/tasks/{first}/move", body)
        assert (reply.status, reply.json["field"], reply.json["code"]) == (422, field, code)
    done = own_server.submit(name="x")
    own_server.wait_for(done, "FINISHED")
    assert move(done, "first").json["code"] == "not_waiting"
    assert move(first, "before", done).json["code"] == "not_same_line"


def test_requeue_and_resubmit(own_server: ApiServer) -> None:
    running = fill(own_server)
    again = own_server.request("POST", f"/tasks/{running}/requeue")
    assert (again.status, again.json["state"]) == (200, "STOPPING")
    held = own_server.submit(hold=True, name="x")
    assert own_server.request("POST", f"/tasks/{held}/requeue").json["code"] == "not_running"
    made = own_server.request("POST", f"/tasks/{held}/resubmit")
    assert made.status == 201
    new = own_server.wait_for(made.json["id"], "FINISHED")
    assert (new["origin"], new["spec"]["name"], new["spec"]["hold"]) == (held, "x", False)


# ---- dependencies


def test_a_dependency_that_cannot_come_true(own_server: ApiServer) -> None:
    first = own_server.submit(hold=True)
    second = own_server.submit(after=[f"{first}:ok"])
    why = own_server.request("GET", f"/tasks/{second}/why").json
    assert [one["code"] for one in why["reasons"]] == ["after_pending"]
    assert why["estimate"]["basis"]["code"] == "estimate_person"
    early = own_server.request("POST", f"/tasks/{second}/release?anyway=true")
    assert (early.status, early.json["code"]) == (409, "nothing_to_waive")
    own_server.request("POST", f"/tasks/{first}/cancel")
    why = own_server.until(
        lambda: (
            (found := own_server.request("GET", f"/tasks/{second}/why").json)["reasons"][0]["code"]
            == "after_failed"
            and found
        )
    )
    assert why["reasons"][0]["values"]["outcome"] == "cancelled"
    assert why["suggestions"][0]["code"] == "try_anyway"
    assert own_server.request("POST", f"/tasks/{second}/release").json["code"] == "not_held"
    assert own_server.request("POST", f"/tasks/{second}/release?anyway=true").status == 200
    own_server.wait_for(second, "FINISHED")


def test_deleting_shows_and_takes_who_waits(own_server: ApiServer) -> None:
    first = own_server.submit(hold=True)
    second = own_server.submit(after=[f"{first}:ok"])
    third = own_server.submit(after=[second])
    other = own_server.submit(hold=True)
    listed = own_server.request("GET", f"/tasks/{first}/successors").json
    assert [task["id"] for task in listed] == [second, third]
    assert own_server.request("GET", f"/tasks/{other}/successors").json == []
    assert own_server.request("GET", "/tasks/999999/successors").status == 404
    only = own_server.request("DELETE", f"/tasks/{other}")
    assert (only.status, only.json) == (200, {"deleted": [other]})
    assert own_server.request("GET", f"/tasks/{other}").status == 404
    gone = own_server.request("DELETE", f"/tasks/{first}?with_successors=true").json["deleted"]
    assert gone == [first, second, third]
    assert own_server.request("GET", "/tasks").json["tasks"] == []
    events = own_server.request("GET", "/events").json["events"]
    assert [event["task"] for event in events if event["event"] == "Deleted"] == [other, *gone]
    assert int(own_server.submit(hold=True)) > int(other)
    running = fill(own_server)
    refused = own_server.request("DELETE", f"/tasks/{running}")
    assert (refused.status, refused.json["code"]) == (409, "still_running")
    assert own_server.request("DELETE", f"/tasks/{first}").status == 404


def test_deleting_only_the_predecessor(own_server: ApiServer) -> None:
    first = own_server.submit(hold=True)
    any_end = own_server.submit(after=[first])
    success = own_server.submit(after=[f"{first}:ok"])
    assert own_server.request("DELETE", f"/tasks/{first}").json == {"deleted": [first]}
    own_server.wait_for(any_end, "FINISHED")
    why = own_server.request("GET", f"/tasks/{success}/why").json
    assert why["reasons"][0]["code"] == "after_deleted"
    own_server.request("POST", f"/tasks/{success}/release?anyway=true")
    own_server.wait_for(success, "FINISHED")


# ---- arrays


def test_an_array_is_one_row(own_server: ApiServer) -> None:
    fill(own_server, 2)
    id = own_server.submit(name="forever", gpus=1, array="0-9%4")
    own_server.until(lambda: task_of(own_server, id)["array"]["live"] == 2)
    task = task_of(own_server, id)
    assert task["state"] == "QUEUED"
    counts = {"succeeded": 0, "failed": 0, "cancelled": 0, "timed_out": 0, "lost": 0}
    assert task["array"] == counts | {"size": 10, "waiting": 8, "live": 2}
    rows = own_server.request("GET", "/tasks?state=unfinished").json["tasks"]
    assert [row["id"] for row in rows] == [id, "1"]
    assert rows[0]["array"] == task["array"]

    def elements(query: str = "") -> list[str]:
        path = f"/tasks?array={id}{query}"
        return [row["id"] for row in own_server.request("GET", path).json["tasks"]]

    assert elements() == [f"{id}_0", f"{id}_1"]
    everything = own_server.request("GET", "/tasks?elements=true&sort=id").json["tasks"]
    assert [row["id"] for row in everything] == ["1", id, f"{id}_0", f"{id}_1"]

    folded = own_server.request("GET", f"/tasks/{id}_7").json
    assert (folded["task"]["state"], folded["task"]["version"]) == ("QUEUED", 0)
    assert (folded["attempts"], folded["events"]) == ([], [])
    assert folded["waits"]
    why = own_server.request("GET", f"/tasks/{id}_7/why").json
    assert why["reasons"][0]["code"] == "gpus_busy"
    assert own_server.request("GET", f"/tasks/{id}_10").status == 404

    log = own_server.request("GET", f"/tasks/{id}/log")
    assert (log.status, log.json["code"]) == (404, "array_log")
    assert f"stoker logs {id}_0" in log.json["hint"]
    assert own_server.request("GET", f"/tasks/{id}/log/stream").json["code"] == "array_log"
    early = own_server.request("GET", f"/tasks/{id}_7/log")
    assert (early.status, early.json["code"]) == (404, "no_attempt_yet")
    assert own_server.request("POST", f"/tasks/{id}_7/move", {"to": "first"}).status == 409

    gone = own_server.request("POST", f"/tasks/{id}_7/cancel").json
    assert (gone["id"], gone["state"], gone["outcome"]) == (f"{id}_7", "FINISHED", "cancelled")
    assert task_of(own_server, id)["array"]["cancelled"] == 1
    assert elements("&sort=id") == [f"{id}_0", f"{id}_1", f"{id}_7"]
    assert elements("&state=finished") == [f"{id}_7"]

    own_server.request("POST", f"/tasks/{id}/cancel")
    ended = own_server.wait_for(id, "FINISHED")
    assert (ended["outcome"], ended["array"]) == (
        "cancelled", counts | {"size": 10, "waiting": 0, "live": 0, "cancelled": 10},
    )  # fmt: skip


def test_an_array_that_succeeds(own_server: ApiServer) -> None:
    id = own_server.submit(name="x", gpus=1, array="1,3,5-7%2")
    ended = own_server.wait_for(id, "FINISHED")
    assert (ended["outcome"], ended["reason"]) == ("succeeded", "all_succeeded")
    assert ended["array"]["succeeded"] == ended["array"]["size"] == 5
    assert ended["message"] == "All of its elements succeeded."
    assert own_server.request("GET", f"/tasks/{id}_3/log").body == b"x"


def test_an_element_of_a_sweep_says_its_values(own_server: ApiServer) -> None:
    sweep = {"lr": ["1e-3", "1e-4"], "seed": ["0", "1"]}
    command = ["train", "{lr}", "{seed}"]
    id = own_server.submit(name="x {lr}", command=command, sweep=sweep, array="0,3%1", hold=True)
    folded = task_of(own_server, f"{id}_3")
    assert folded["sweep"] == {"lr": "1e-4", "seed": "1"}
    assert (folded["spec"]["command"], folded["spec"]["sweep"]) == (command, sweep)
    assert task_of(own_server, id)["sweep"] is None
    assert own_server.request("GET", f"/tasks/{id}_1").status == 404
    own_server.request("POST", f"/tasks/{id}/release")
    ended = own_server.wait_for(id, "FINISHED")
    assert ended["array"]["succeeded"] == ended["array"]["size"] == 2
    rows = own_server.request("GET", f"/tasks?array={id}").json["tasks"]
    assert [row["sweep"]["lr"] for row in rows] == ["1e-3", "1e-4"]
    assert own_server.request("GET", f"/tasks/{id}_3/log").body == b"x 1e-4"
    refused = own_server.request("POST", f"/tasks/{id}/resubmit?failed=true")
    assert (refused.status, refused.json["code"]) == (409, "none_failed")
    assert own_server.request("POST", f"/tasks/{id}/resubmit?failed=yes").status == 422


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"sweep": {"lr": "1"}}, "sweep"),
        ({"sweep": {"lr": [1]}}, "sweep[0]"),
        ({"sweep": {"lr": []}}, "sweep.lr"),
        ({"sweep": {"x": ["1"]}}, "sweep.x"),
        ({"sweep": {"lr": ["1"]}, "array": "1"}, "array"),
    ],
)
def test_a_bad_sweep_names_the_field(
    server: ApiServer, fields: dict[str, object], field: str
) -> None:
    refused = server.request("POST", "/tasks", {"command": "x {lr}"} | fields)
    assert (refused.status, refused.json["field"]) == (422, field)


@pytest.mark.parametrize("query", ["array=0", "array=x", "array=1_2", "elements=1", "elements="])
def test_bad_parameters_of_lists(server: ApiServer, query: str) -> None:
    reply = server.request("GET", f"/tasks?{query}")
    assert (reply.status, reply.json["field"]) == (422, query.partition("=")[0])


# ---- nodes


def test_a_node_is_drained_and_resumed(own_server: ApiServer) -> None:
    drained = own_server.request("POST", "/nodes/testbed/drain", {"why": "new driver"})
    assert drained.status == 200
    assert drained.json["drained"] == "new driver"
    assert own_server.request("GET", "/nodes").json[0]["drained"] == "new driver"
    id = own_server.submit()
    why = own_server.request("GET", f"/tasks/{id}/why").json
    assert why["reasons"][0]["code"] == "node_drained"
    assert "new driver" in why["reasons"][0]["message"]
    resumed = own_server.request("POST", "/nodes/testbed/resume")
    assert (resumed.status, resumed.json["drained"]) == (200, None)
    own_server.wait_for(id, "FINISHED")
    own_server.request("POST", "/nodes/testbed/drain", {})
    assert own_server.request("GET", "/nodes").json[0]["drained"]
    for verb, body in (("drain", {}), ("resume", None)):
        unknown = own_server.request("POST", f"/nodes/nowhere/{verb}", body)
        assert (unknown.status, unknown.json["code"]) == (404, "unknown_node")
    long = own_server.request("POST", "/nodes/testbed/drain", {"why": "x" * 501})
    assert (long.status, long.json["field"]) == (422, "why")


def test_cards_say_who_has_them_and_whom_they_are_kept_for(own_server: ApiServer) -> None:
    holder = fill(own_server, 3)
    big = own_server.submit(gpus=4)
    cards = own_server.until(
        lambda: (
            (found := own_server.request("GET", "/nodes").json[0]["cards"])[3]["kept_for"] and found
        )
    )
    assert [card["task"] for card in cards] == [holder, holder, holder, None]
    assert [card["tasks"] for card in cards] == [[holder], [holder], [holder], []]
    assert cards[3]["kept_for"] == big
    assert cards[3]["kept_since"] is not None
    small = own_server.submit(gpus=1)
    why = own_server.request("GET", f"/tasks/{small}/why").json
    assert why["reasons"][0]["code"] == "gpus_kept"
    assert why["reasons"][0]["values"]["task"] == big
