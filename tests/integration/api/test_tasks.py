"""Tasks over HTTP: what is accepted is recorded exactly, what is refused says which field and why."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.domain.errors import StoreDown
from stoker.wire import MOST_IN_BATCH
from tests.helpers.api_server import ApiServer

ODD = [
    "", " ", "'", '"', "\\", "$(touch /tmp/x)", "`id`", "a\nb\r\n\tc", "-rf", "--", "炼丹 🔥",
    "a" * 65_536, "\x7f\x1b[31m", "\u2028\u202e", "%s %n {x}", "é vs e\u0301", "\ufeff", "\U0010ffff",
]  # fmt: skip


def test_a_task_is_recorded_and_runs(server: ApiServer) -> None:
    reply = server.request("POST", "/tasks", {"command": ["echo", "hi"], "name": "n", "gpus": 1})
    assert reply.status == 201
    created = reply.json
    assert isinstance(created["id"], str)
    assert created["state"] == "STARTING"
    task = server.wait_for(created["id"], "FINISHED")
    assert (task["outcome"], task["reason"], task["exit_code"]) == ("succeeded", "exit_zero", 0)
    assert task["message"] == "It ended well."
    assert task["spec"]["command"] == ["echo", "hi"]


def test_everything_about_a_task(server: ApiServer) -> None:
    id = server.submit(gpus=2)
    server.wait_for(id, "FINISHED")
    shown = server.request("GET", f"/tasks/{id}").json
    assert [event["event"] for event in shown["events"]] == [
        "Submitted", "Placed", "Started", "Ended",
    ]  # fmt: skip
    assert shown["attempts"][0]["gpu_ids"] == shown["task"]["gpu_ids"]
    assert len(shown["attempts"]) == 1
    assert (shown["waits"], shown["unconfirmed"]) == ([], False)
    assert (shown["task"]["origin"], shown["task"]["array"]) == (None, None)


def test_a_held_task_says_why_it_waits_until_it_is_released(server: ApiServer) -> None:
    id = server.submit(hold=True)
    shown = server.request("GET", f"/tasks/{id}").json
    assert [why["code"] for why in shown["waits"]] == ["held"]
    assert server.request("POST", f"/tasks/{id}/hold").json["state"] == "HELD"
    released = server.request("POST", f"/tasks/{id}/release")
    assert (released.status, released.json["state"]) == (200, "QUEUED")
    server.wait_for(id, "FINISHED")
    again = server.request("POST", f"/tasks/{id}/release")
    assert (again.status, again.json["code"]) == (409, "not_held")


def test_cancel_ends_a_running_and_a_waiting_task(server: ApiServer) -> None:
    running = server.submit(name="forever")
    server.wait_for(running, "RUNNING")
    reply = server.request("POST", f"/tasks/{running}/cancel")
    assert (reply.status, reply.json["state"]) == (200, "STOPPING")
    task = server.wait_for(running, "FINISHED")
    assert (task["outcome"], task["stopped_by"]) == ("cancelled", "ana")
    waiting = server.submit(hold=True)
    assert server.request("POST", f"/tasks/{waiting}/cancel").json["state"] == "FINISHED"
    again = server.request("POST", f"/tasks/{waiting}/cancel")
    assert (again.status, again.json["code"]) == (409, "already_finished")


@pytest.mark.parametrize("id", ["999999", "0", "-1", "x", "01", "1_", "1_0", "%00", "1%2f2", "９"])
def test_a_task_that_is_not_there(server: ApiServer, id: str) -> None:
    for method, rest in [("GET", ""), ("GET", "/log"), ("GET", "/log/stream"), ("POST", "/cancel")]:
        reply = server.request(method, f"/tasks/{quote(id, safe='%')}{rest}")
        assert (reply.status, reply.json["code"]) in ((404, "unknown_task"), (404, "not_found"))


@pytest.mark.parametrize(
    ("spec", "status", "code", "field"),
    [
        ({"command": []}, 422, "empty_command", "command"),
        ({"command": ["a", "b\0c"]}, 422, "nul", "command[1]"),
        ({"command": "a", "env": {"A": "\0"}}, 422, "nul", "env.A"),
        ({"command": "a", "workdir": "here"}, 422, "not_absolute", "workdir"),
        ({"command": "a", "gpus": 5}, 422, "too_many_gpus", "gpus"),
        ({"command": "a", "gpus": 1, "gpu_ids": [7]}, 422, "no_such_gpu", "gpu_ids"),
        ({"command": "a", "queue": "q"}, 422, "unknown_queue", "queue"),
        ({"command": "a", "notify": ["q"]}, 422, "bad_wish", "notify[0]"),
        ({"command": "a", "after": ["1", "x"]}, 422, "bad_after", "after[1]"),
        ({"command": "a", "after": ["999999"]}, 422, "dependency_unknown", "after[0]"),
        ({"command": "a", "array": "0-"}, 422, "bad_array", "array"),
        ({"command": "a", "array": "0-9999999"}, 422, "array_too_large", "array"),
        ({"command": "a", "start_after": "soon"}, 422, "bad_start_after", "start_after"),
        ({"command": "a", "start_after": "2030-01-01"}, 422, "time_zone_missing", "start_after"),
        (
            {"command": "a", "gpus": 1, "mode": "shared"},
            422,
            "shared_needs_memory",
            "gpu_memory_mib",
        ),
        ({"command": "a", "mode": "reuse"}, 422, "needs_gpus", "mode"),
        ({"command": "a", "gpus": 1, "gpu_memory_mib": 9}, 422, "needs_shared", "gpu_memory_mib"),
        ({"command": "a", "gpus": 1, "gpu_model": ["H100"]}, 422, "no_such_model", "gpu_model"),
        ({"command": "a", "node": "nowhere"}, 422, "no_such_node", "node"),
        ({"command": "a", "gpus": "1"}, 422, "wrong_type", "gpus"),
        ({"command": "a", "gpu": 1}, 422, "unknown_field", "gpu"),
        ({}, 422, "missing_field", "command"),
    ],
)
def test_a_bad_task_is_refused_by_field(
    server: ApiServer, spec: dict[str, Any], status: int, code: str, field: str
) -> None:
    reply = server.request("POST", "/tasks", spec)
    assert (reply.status, reply.json["code"], reply.json["field"]) == (status, code, field)
    assert reply.json["message"]
    batch = server.request("POST", "/tasks/batch", {"tasks": [{"command": "true"}, spec]})
    assert (batch.status, batch.json["code"]) == (status, code)
    assert batch.json["field"] == f"tasks[1].{field}"


def test_a_batch_is_all_or_nothing(own_server: ApiServer) -> None:
    good = {"command": ["true"], "hold": True}
    bad = own_server.request(
        "POST", "/tasks/batch", {"tasks": [good] * 50 + [{**good, "gpus": 99}]}
    )
    assert (bad.status, bad.json["field"]) == (422, "tasks[50].gpus")
    assert own_server.request("GET", "/tasks").json["tasks"] == []
    made = own_server.request("POST", "/tasks/batch", {"tasks": [good] * 50})
    assert (made.status, len(set(made.json["ids"]))) == (201, 50)
    too_many = own_server.request("POST", "/tasks/batch", {"tasks": [good] * (MOST_IN_BATCH + 1)})
    assert (too_many.status, too_many.json["code"]) == (422, "too_many")


@pytest.mark.parametrize(
    ("raw", "headers", "status", "code"),
    [
        (b"{", {}, 400, "json_ends_early"),
        (b"[1,]", {}, 422, "wrong_type"),
        (b'{"command": "\xff"}', {}, 400, "not_utf8"),
        (b"", {}, 400, "json_ends_early"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "not_json_type"),
        (b"{}", {"Content-Encoding": "gzip"}, 415, "not_json_type"),
        (b"{}", {"Content-Type": ""}, 415, "not_json_type"),
    ],
)
def test_a_body_that_is_no_json(
    server: ApiServer, raw: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    reply = server.request("POST", "/tasks", raw=raw, headers=headers)
    assert (reply.status, reply.json["code"]) == (status, code)


def test_bytes_that_are_not_utf8_are_pointed_at(server: ApiServer) -> None:
    reply = server.request("POST", "/tasks", raw=b'{"command": "ab\xff"}')
    assert reply.json["message"] == "not valid UTF-8 at byte 15."


def test_a_body_that_is_too_large(server: ApiServer) -> None:
    reply = server.request("POST", "/tasks", raw=b'"' + b"x" * (33 << 20) + b'"')
    assert (reply.status, reply.json["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("text", ODD, ids=lambda text: repr(text)[:20])
def test_odd_text_arrives_and_comes_back_exactly(server: ApiServer, text: str) -> None:
    spec = {
        "command": ["printf", text, text],
        "name": text[:200],
        "description": text[:4000],
        "env": {"ODD": text, "LÄNGE": "x"},
        "hold": True,
    }
    id = server.submit(**spec)
    shown = server.task(id)["spec"]
    assert {name: shown[name] for name in spec} == spec


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))),
    name=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200),
)
def test_any_text_comes_back_exactly(server: ApiServer, words: list[str], name: str) -> None:
    id = server.submit(command=["x", *words], name=name, hold=True)
    shown = server.task(id)["spec"]
    assert (shown["command"], shown["name"]) == (["x", *words], name)


def test_messages_are_in_the_language_asked_for(server: ApiServer) -> None:
    chinese = server.request("GET", "/tasks/999999", headers={"Accept-Language": "zh-CN,en;q=0.5"})
    english = server.request("GET", "/tasks/999999", headers={"Accept-Language": "fr"})
    assert "没有" in chinese.json["message"] or "任务" in chinese.json["message"]
    assert english.json["message"] == "There is no task 999999."


def test_paging_shows_every_task_once(own_server: ApiServer) -> None:
    tasks = [{"command": ["true"], "name": f"t{i}", "hold": True} for i in range(1000)]
    ids = own_server.request("POST", "/tasks/batch", {"tasks": tasks}).json["ids"]
    for sort, expected in [("id", ids), ("-id", ids[::-1]), ("position", ids), ("-finished", None)]:
        seen: list[str] = []
        path = f"/tasks?limit=64&sort={sort}"
        cursor = ""
        while True:
            page = own_server.request("GET", path + cursor).json
            seen += [task["id"] for task in page["tasks"]]
            if page["next"] is None:
                break
            own_server.submit(hold=True) if sort == "-id" else None  # what is new disturbs nobody
            cursor = f"&cursor={page['next']}"
        if expected is None:
            assert set(ids) <= set(seen)
        elif sort == "-id":
            assert seen == expected
        else:
            assert [id for id in seen if id in set(ids)] == expected
        assert len(seen) == len(set(seen))


def test_filters(own_server: ApiServer) -> None:
    held = own_server.submit(hold=True, name="Alpha")
    done = own_server.submit(name="beta")
    own_server.wait_for(done, "FINISHED")
    running = own_server.submit(name="forever")
    own_server.wait_for(running, "RUNNING")

    def found(query: str) -> list[str]:
        return [task["id"] for task in own_server.request("GET", f"/tasks?{query}").json["tasks"]]

    assert found("") == [running, done, held]
    assert found("state=HELD") == found("state=waiting") == [held]
    assert found("state=live") == [running]
    assert found("state=unfinished&sort=id") == [held, running]
    assert found("state=finished") == found("outcome=succeeded") == [done]
    assert found("state=HELD&state=FINISHED&sort=id") == [held, done]
    assert found("name=ALPHA") == [held]
    assert found("owner=ana&limit=1") == [running]
    assert found("owner=nobody") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"), ("limit=501", "limit"), ("limit=x", "limit"), ("state=held", "state[0]"),
        ("sort=name", "sort"), ("cursor=x", "cursor"), ("cursor=%00", "cursor"), ("x=1", "x"),
        ("outcome=fine", "outcome"), ("name=%ff", "name"), ("limit=1&limit=2", "limit"),
        ("cursor=WyJpZCIsdHJ1ZSwxLDEsLTFd&sort=id", "cursor"), ("owner=", "owner"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_named(server: ApiServer, query: str, field: str) -> None:
    reply = server.request("GET", f"/tasks?{query}")
    assert reply.status in (400, 422)
    assert reply.json["field"] == field


def test_a_disk_that_refuses_is_said_and_reads_go_on(own_server: ApiServer) -> None:
    id = own_server.submit(hold=True)
    store = own_server.flow.store

    class Refusing:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def record(self, changes: object) -> int:
            raise StoreDown(why="disk full")

    own_server.on_loop(lambda: setattr(own_server.flow, "store", Refusing()))
    for path, body in [("/tasks", {"command": "true"}), (f"/tasks/{id}/cancel", None)]:
        reply = own_server.request("POST", path, body)
        assert (reply.status, reply.json["code"]) == (503, "store_down")
        assert int(reply.headers["Retry-After"]) > 0
    assert own_server.task(id)["state"] == "HELD"
    assert own_server.request("GET", "/health").json["status"] == "degraded"
    own_server.on_loop(lambda: setattr(own_server.flow, "store", store))
    assert own_server.request("POST", f"/tasks/{id}/cancel").status == 200


def test_what_nobody_foresaw_is_answered_without_its_words(
    own_server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    own_server.on_loop(lambda: setattr(own_server.flow, "view", None))
    reply = own_server.request("POST", "/tasks", {"command": "true", "env": {"SECRET": "hunter2"}})
    assert (reply.status, reply.json["code"]) == (500, "internal")
    assert "event=request_failed" in caplog.text
    assert "hunter2" not in caplog.text + reply.body.decode()


def test_the_answer_is_json_that_others_read_too(server: ApiServer) -> None:
    server.submit(name='"\\\u2028')
    assert json.loads(server.request("GET", "/tasks").body)["tasks"]
