"""Fair use over HTTP: who takes too much is told, and nobody else notices."""

from __future__ import annotations

from pathlib import Path

from stoker.lab.book import Put
from tests.helpers.api_server import ApiServer, serving


def limit(server: ApiServer, **rules: int) -> None:
    changes = [Put("rule", name, value) for name, value in rules.items()]
    server.run(server.flow.book.amend(changes))


def test_who_submits_too_fast_waits_and_others_do_not(tmp_path: Path) -> None:
    with serving(tmp_path, is_lab=True) as server:
        ana, bo = server.add_person("ana"), server.add_person("bo")
        limit(server, submits_per_s=1, submits_burst=2, spec_bytes=2000)
        task = {"command": ["true"], "hold": True}
        for _ in range(2):
            assert server.request("POST", "/tasks", task, token=ana).status == 201

        refused = server.request("POST", "/tasks", task, token=ana)

        assert (refused.status, refused.json["code"]) == (429, "too_many_submits")
        assert refused.headers["Retry-After"] == "1"
        assert server.request("POST", "/tasks", task, token=bo).status == 201
        batch = {"tasks": [task] * 10}
        assert server.request("POST", "/tasks/batch", batch, token=bo).status == 201
        large = task | {"description": "x" * 3000}
        refused = server.request(
            "POST", "/tasks/batch", {"tasks": [large]}, token=server.add_person("cy")
        )
        assert (refused.status, refused.json["code"]) == (413, "task_too_large")


def test_a_full_disk_refuses_submits_and_nothing_else(tmp_path: Path) -> None:
    with serving(tmp_path, is_lab=True) as server:
        ana = server.add_person("ana")
        task = server.request("POST", "/tasks", {"command": ["true"], "hold": True}, token=ana)
        limit(server, disk_full_percent=1)

        refused = server.request("POST", "/tasks", {"command": ["true"]}, token=ana)

        assert (refused.status, refused.json["code"]) == (503, "disk_nearly_full")
        id = task.json["id"]
        assert server.request("GET", f"/tasks/{id}", token=ana).status == 200
        assert server.request("POST", f"/tasks/{id}/cancel", token=ana).status == 200


def test_one_person_s_streams_leave_room_for_others(tmp_path: Path) -> None:
    with serving(tmp_path, is_lab=True) as server:
        ana, bo = server.add_person("ana"), server.add_person("bo")
        limit(server, streams_each=2)
        with (
            server.sse("/events/stream", token=ana) as one,
            server.sse("/events/stream", token=ana),
        ):
            refused = server.request("GET", "/events/stream", token=ana)

            assert (refused.status, refused.json["code"]) == (429, "too_many_streams")
            assert "2" in refused.json["message"]
            assert server.request("GET", "/tasks/export", token=ana).status == 429
            with server.sse("/events/stream", token=bo) as others:
                assert others.status == 200
            one.close()
            server.until(lambda: server.on_loop(lambda: server.app._streams.open) == 1)
            with server.sse("/events/stream", token=ana) as again:
                assert again.status == 200
