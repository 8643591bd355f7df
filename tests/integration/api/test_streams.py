"""Logs and events as they happen: every byte and event once, over any number of connections."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from msgspec import structs

from stoker.api.serve import GRACEFUL_S
from tests.helpers.api_server import ApiServer

TEXT = "epoch 1 · loss 0.5 · 炼丹 🔥 done\n"


def write(server: ApiServer, id: str, output: bytes) -> None:
    """The running task's output is this from now on."""
    attempt = server.request("GET", f"/tasks/{id}").json["attempts"][-1]["id"]

    def act() -> None:
        run = server.engine.runs[attempt]
        run.behaviour = structs.replace(run.behaviour, output=output)

    server.on_loop(act)


def finish(server: ApiServer, id: str) -> None:
    attempt = server.request("GET", f"/tasks/{id}").json["attempts"][-1]["id"]
    server.on_loop(lambda: server.engine.finish(attempt))


def running_task(server: ApiServer) -> str:
    id = server.submit(name="forever")
    server.wait_for(id, "RUNNING")
    return id


# ---- by offset


def test_output_by_offset(server: ApiServer) -> None:
    id = server.submit(name="0123456789")
    server.wait_for(id, "FINISHED")
    for query, offset, data in [
        ("", 0, b"0123456789"),
        ("offset=4", 4, b"456789"),
        ("offset=4&limit=3", 4, b"456"),
        ("offset=-3", 7, b"789"),
        ("offset=-99", 0, b"0123456789"),
        ("offset=10", 10, b""),
    ]:
        reply = server.request("GET", f"/tasks/{id}/log?{query}")
        assert (reply.status, reply.body) == (200, data)
        assert reply.headers["Stoker-Offset"] == str(offset)
        assert reply.headers["Stoker-Next-Offset"] == str(offset + len(data))
        assert (reply.headers["Stoker-Size"], reply.headers["Stoker-Ended"]) == ("10", "true")
        assert reply.headers["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("stream=out", 422, "stream"), ("limit=0", 422, "limit"), ("offset=x", 422, "offset"),
        ("limit=1048577", 422, "limit"), ("attempt=", 422, "attempt"), ("after=1", 422, "after"),
        ("attempt=nonsense", 404, None), ("stream=stderr", 404, "stream"),
        ("offset=99999999999999999999999", 422, "offset"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_named(
    server: ApiServer, query: str, status: int, field: str | None
) -> None:
    id = server.submit()
    server.wait_for(id, "FINISHED")
    reply = server.request("GET", f"/tasks/{id}/log?{query}")
    assert (reply.status, reply.json["field"]) == (status, field)


def test_output_of_a_task_that_has_not_started(server: ApiServer) -> None:
    id = server.submit(hold=True)
    reply = server.request("GET", f"/tasks/{id}/log")
    assert (reply.status, reply.json["code"]) == (404, "no_attempt_yet")


# ---- the log stream


def collect(server: ApiServer, id: str, query: str = "", stop_after: int = 10**9) -> Any:
    """Text, next offset, and the task of the `end` event (None when we left before it)."""
    text, position = "", None
    with server.sse(f"/tasks/{id}/log/stream{query}") as stream:
        assert stream.status == 200
        for event in stream:
            if event.event == "end":
                return text, position, event.json
            piece = event.json
            assert piece["next"] == int(event.id)
            assert position is None or piece["offset"] == position
            text, position = text + piece["text"], piece["next"]
            if len(text) >= stop_after:
                break
    return text, position, None


def test_a_stream_follows_the_output_to_its_end(server: ApiServer) -> None:
    id = running_task(server)
    output = TEXT.encode()
    write(server, id, output)
    with server.sse(f"/tasks/{id}/log/stream") as stream:
        events = iter(stream)
        assert next(events).json["text"] == TEXT
        write(server, id, output + b"more")
        assert next(events).json["text"] == "more"
        write(server, id, output + b"more" + "炼".encode()[:2])  # the rest of it comes later
        write(server, id, output + b"more" + "炼".encode())
        assert next(events).json["text"] == "炼"
        finish(server, id)
        end = next(events)
        assert (end.event, end.json["state"], end.json["id"]) == ("end", "FINISHED", id)
        assert next(events, None) is None


def test_a_stream_can_be_cut_anywhere_and_resumed(server: ApiServer) -> None:
    """Cut at random places, in the middle of characters' bytes too: joined it is the output."""
    id = running_task(server)
    output = (TEXT * 40_000).encode()[: (1 << 20) + 77_777].decode("utf-8", "ignore").encode()
    write(server, id, output)
    dice = random.Random(7)
    got, position, end = "", 0, None
    threading.Timer(0.3, finish, (server, id)).start()
    cuts = 0
    while end is None:
        size = dice.choice([1, 1000, 200_000])
        text, after, end = collect(server, id, f"?offset={position}", stop_after=size)
        got, position = got + text, position if after is None else after
        cuts += 1
    assert cuts > 3
    assert got.encode() == output


def test_last_event_id_counts_more_than_the_offset(server: ApiServer) -> None:
    id = server.submit(name="0123456789")
    server.wait_for(id, "FINISHED")
    with server.sse(f"/tasks/{id}/log/stream?offset=0", **{"Last-Event-ID": "8"}) as stream:
        events = list(stream)
    assert [event.event for event in events] == ["message", "end"]
    assert events[0].json == {
        "attempt": server.request("GET", f"/tasks/{id}").json["attempts"][0]["id"],
        "offset": 8,
        "next": 10,
        "text": "89",
    }
    for bad in ("x", "-1", "9" * 30):
        with server.sse(f"/tasks/{id}/log/stream", **{"Last-Event-ID": bad}) as refused:
            assert refused.status == 422
            assert b"Last-Event-ID" in refused.response.read()


def test_bytes_that_are_no_text_are_replaced_and_counted(server: ApiServer) -> None:
    id = running_task(server)
    output = b"a\xffb\xf0\x9f\x94c" + "🔥".encode() + b"\xe7\x82"
    write(server, id, output)
    finish(server, id)
    text, position, _ = collect(server, id)
    assert text == output.decode("utf-8", "replace")
    assert position == len(output)


def test_a_tail(server: ApiServer) -> None:
    id = server.submit(name="0123456789")
    server.wait_for(id, "FINISHED")
    assert collect(server, id, "?offset=-3")[:2] == ("789", 10)
    assert collect(server, id, "?offset=99")[:2] == ("", None)


def test_a_stream_waits_for_a_task_that_has_not_started(server: ApiServer) -> None:
    id = server.submit(name="later", hold=True)
    with server.sse(f"/tasks/{id}/log/stream") as stream:
        assert stream.status == 200
        server.request("POST", f"/tasks/{id}/release")
        events = list(stream)
    assert [event.event for event in events] == ["message", "end"]
    assert events[0].json["text"] == "later"


def test_a_task_that_never_started_just_ends(server: ApiServer) -> None:
    id = server.submit(hold=True)
    server.request("POST", f"/tasks/{id}/cancel")
    text, _, end = collect(server, id)
    assert (text, end["outcome"]) == ("", "cancelled")


def test_a_stream_waits_while_the_node_is_out_of_reach(server: ApiServer) -> None:
    id = running_task(server)
    write(server, id, b"before")
    with server.sse(f"/tasks/{id}/log/stream") as stream:
        events = iter(stream)
        assert next(events).json["text"] == "before"
        server.on_loop(lambda: server.engine.lose("testbed"))
        server.until(lambda: server.request("GET", f"/tasks/{id}").json["unconfirmed"])
        reply = server.request("GET", f"/tasks/{id}/log")
        assert (reply.status, reply.json["code"]) == (503, "node_unreachable")
        write(server, id, b"before, after")
        server.on_loop(lambda: server.engine.find("testbed"))
        assert next(events).json["text"] == ", after"
        finish(server, id)
        assert next(events).event == "end"


# ---- the event stream


def test_events_by_page(own_server: ApiServer) -> None:
    ids = [own_server.submit(hold=True) for _ in range(30)]
    seen, after = [], 0
    while True:
        page = own_server.request("GET", f"/events?after={after}&limit=7").json
        assert page["reset"] is False
        if not page["events"]:
            assert page["next"] == after
            break
        seen += page["events"]
        after = page["next"]
    assert [event["task"] for event in seen] == ids
    stale = own_server.request("GET", f"/events?after={after + 1}").json
    assert stale == {"events": [], "next": after, "reset": True}


def test_events_as_they_happen_over_many_connections(server: ApiServer) -> None:
    start = server.request("GET", "/events?after=9223372036854775807").json["next"]
    ids = [server.submit(hold=True) for _ in range(5)]
    position, last, seen = start, str(start), []
    for _ in range(5):  # one connection each, always resumed by the id of the last event
        with server.sse("/events/stream", **{"Last-Event-ID": last}) as stream:
            event = stream.next()
        assert event.event == "event"
        assert event.json["seq"] > position
        position, last = event.json["seq"], event.id
        seen.append(event.json["task"])
    assert seen == ids
    with server.sse(f"/events/stream?after={position}") as stream:
        id = server.submit(hold=True)
        assert stream.next().json["task"] == id


@pytest.mark.parametrize("query", ["", "?after=9007199254740992"])
def test_a_stream_without_a_good_cursor_begins_with_reset(server: ApiServer, query: str) -> None:
    server.submit(hold=True)
    last = server.request("GET", "/events?after=9223372036854775807").json["next"]
    with server.sse(f"/events/stream{query}") as stream:
        events = iter(stream)
        reset = next(events)
        assert (reset.event, reset.json) == ("reset", {"last": last})
        id = server.submit(hold=True)
        event = next(events)
        assert (event.json["seq"], event.json["task"]) == (last + 1, id)


def test_a_cursor_of_other_records_is_answered_with_reset(server: ApiServer) -> None:
    """After `stoker reset` numbers begin anew: the same number is another event."""
    server.submit(hold=True)
    with server.sse("/events/stream") as stream:
        number, dot, records = stream.next().id.partition(".")
    assert dot
    assert records
    with server.sse("/events/stream", **{"Last-Event-ID": f"{number}.000000000000"}) as stream:
        assert stream.next().event == "reset"


def test_many_events_arrive_in_order_without_a_gap(own_server: ApiServer) -> None:
    with own_server.sse("/events/stream?after=0") as stream:
        tasks = [{"command": ["true"], "gpus": 1}] * 300
        own_server.request("POST", "/tasks/batch", {"tasks": tasks})
        seen = []
        for event in stream:
            seen.append(event.json)
            if sum(e["event"] == "Ended" for e in seen) == 300:
                break
    assert [event["seq"] for event in seen] == sorted({event["seq"] for event in seen})
    for name in ("Submitted", "Placed", "Started", "Ended"):
        assert sum(event["event"] == name for event in seen) == 300


# ---- all streams


def test_idle_streams_say_that_they_live(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.api.events.KEEP_ALIVE_S", 0.05)
    monkeypatch.setattr("stoker.api.logs.KEEP_ALIVE_S", 0.05)
    id = server.submit(hold=True)
    for path in (f"/tasks/{id}/log/stream", "/events/stream?after=0"):
        with server.sse(path) as stream:
            assert any(line.startswith(b":") for line in stream.response)


def test_open_streams_do_not_hold_up_the_shutdown(own_server: ApiServer) -> None:
    id = running_task(own_server)
    streams = [own_server.sse(f"/tasks/{id}/log/stream") for _ in range(5)]
    streams += [own_server.sse("/events/stream") for _ in range(5)]
    assert own_server.stop() < GRACEFUL_S - 0.5
    for stream in streams:
        assert "end" not in [event.event for event in stream]  # so the client comes back
        stream.close()


def test_a_stalled_client_holds_up_the_shutdown_only_so_long(own_server: ApiServer) -> None:
    id = running_task(own_server)
    write(own_server, id, b"x" * (30 << 20))
    with own_server.sse(f"/tasks/{id}/log/stream"):
        assert own_server.stop() < GRACEFUL_S + 5


def test_a_client_that_takes_nothing_costs_no_memory_and_delays_nobody(server: ApiServer) -> None:
    id = running_task(server)
    write(server, id, b"x" * (30 << 20))
    stalled = [server.sse(f"/tasks/{id}/log/stream") for _ in range(10)]
    server.until(lambda: server.app._streams.open >= 10)
    before = resident_mib()
    for _ in range(50):
        assert server.request("GET", "/health").status == 200
    assert resident_mib() - before < 60
    for stream in stalled:
        stream.close()
    server.until(lambda: server.app._streams.open == 0)
    finish(server, id)


def resident_mib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) >> 10
