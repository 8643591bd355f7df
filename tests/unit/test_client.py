"""The client against a server that misbehaves on purpose: real HTTP on loopback, scripted answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET6
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from typing_extensions import override

from stoker.client import Client, Refused, ServerUnreachable, StreamReset, TaskSpec
from stoker.wire import EventView

VIEW = {
    "id": "1", "owner": "ana", "state": "RUNNING", "version": 1, "attempts": 1, "node": "n",
    "submitted_at": "2030-01-01T00:00:00Z", "started_at": None, "finished_at": None,
    "gpu_ids": [], "outcome": None, "reason": None, "message": None, "exit_code": None,
    "signal": None, "stopped_by": None, "spec": {"command": "x"},
}  # fmt: skip
DONE = VIEW | {"state": "FINISHED", "outcome": "succeeded"}


def detail(view: dict[str, Any]) -> dict[str, Any]:
    return {"task": view, "waits": [], "attempts": [], "events": [], "unconfirmed": False}


def event(seq: int, task: str, name: str) -> str:
    body = {"seq": seq, "task": task, "event": name, "at": "2030-01-01T00:00:00Z", "values": {}}
    return f"event: event\nid: {seq}\ndata: {json.dumps(body)}\n\n"


def piece(offset: int, data: bytes, attempt: str = "a") -> str:
    text = data.decode("utf-8", "replace")
    body = {"attempt": attempt, "offset": offset, "next": offset + len(data), "text": text}
    return f"id: {body['next']}\ndata: {json.dumps(body)}\n\n"


RESET = 'event: reset\nid: 7\ndata: {"last":7}\n\n'
END = f"event: end\nid: 0\ndata: {json.dumps(DONE)}\n\n"


class Request:
    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        self.method, self.path = handler.command, parts.path.removeprefix("/api/v1")
        self.query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self.headers = dict(handler.headers)
        self.body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))


Answer = tuple[int, bytes, dict[str, str]] | str | None
"""(status, body, headers), or text of a stream that then breaks off, or None: no answer at all."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer: ClassVar[Callable[[Request], Answer]]
    seen: ClassVar[list[Request]]

    def _do(self) -> None:
        request = Request(self)
        self.seen.append(request)
        answer = type(self).answer(request)
        if answer is None:
            self.close_connection = True
        elif isinstance(answer, str):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in (answer[n : n + 5].encode() for n in range(0, len(answer), 5)):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.close_connection = True
        else:
            status, body, headers = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815 - the library's names

    @override
    def log_message(self, *_: Any) -> None:
        pass


class Fake:
    """A server with one function for an answer."""

    def __init__(self, answer: Callable[[Request], Answer], host: str = "127.0.0.1") -> None:
        self.seen: list[Request] = []
        handler = type("Scripted", (Handler,), {"answer": staticmethod(answer), "seen": self.seen})
        kind = type("V6", (ThreadingHTTPServer,), {"address_family": AF_INET6})
        self._server = (kind if ":" in host else ThreadingHTTPServer)((host, 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


Start = Callable[..., Fake]


@pytest.fixture
def start() -> Iterator[Start]:
    fakes: list[Fake] = []

    def begin(answer: Callable[[Request], Answer], host: str = "127.0.0.1") -> Fake:
        fakes.append(Fake(answer, host))
        return fakes[-1]

    yield begin
    for fake in fakes:
        fake.close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("STOKER_", "LC_", "LANG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    return tmp_path


def introduce(home: Path, url: str, pid: int | None = None, token: str = "stk_secret") -> None:
    facts = {"url": url, "pid": pid or os.getpid(), "started_at": "", "version": "1"}
    (home / "server.json").write_text(json.dumps(facts))
    (home / "token").write_text(f"{token}\n")


def write_down(home: Path, text: str, mode: int = 0o600) -> None:
    (home / "client.toml").write_text(text)
    (home / "client.toml").chmod(mode)


def ok(body: Any, **headers: str) -> Answer:
    return 200, json.dumps(body).encode(), headers


# ---- where it is


def test_a_server_elsewhere_is_written_down(start: Start, home: Path) -> None:
    fake, own = start(lambda _: ok([])), start(lambda _: ok([]))
    introduce(home, own.url)
    write_down(home, f'url = "{fake.url}"\ntoken = "stk_remote"\n')
    assert Client().nodes() == []
    assert fake.seen[0].headers["Authorization"] == "Bearer stk_remote"
    assert Client(home=home).nodes() == []  # the one that serves this folder
    assert own.seen[0].headers["Authorization"] == "Bearer stk_secret"
    assert Client(fake.url + "/").nodes() == []
    assert fake.seen[1].headers["Authorization"] == "Bearer stk_remote"
    third = start(lambda _: ok([]))
    assert Client(third.url).nodes() == []  # nobody else gets that token
    assert "Authorization" not in third.seen[0].headers


@pytest.mark.parametrize(
    ("written", "named"),
    [
        (b"url = ", "Invalid value"),
        (b'token = "t"', "url"),
        (b'url = "lab1"', "url"),
        (b'url = "http://lab1:7433"\ntoken = 7', "token"),
        (b'url = "http://lab1:7433"\ntoken = "\xe7\x82\x89"', "token"),
        (b'url = "http://lab1:7433"\nkey = "t"', "key"),
        (b'url = "http://lab1:7433"\nca = 7', "ca"),
        (b'url = "http://lab1\xff"', "utf-8"),
    ],
)
def test_what_is_written_down_wrongly_is_refused(home: Path, written: bytes, named: str) -> None:
    (home / "client.toml").write_bytes(written)
    with pytest.raises(ServerUnreachable) as found:
        Client().nodes()
    assert found.value.why == "bad_file"
    assert named in found.value.detail
    assert str(home / "client.toml") in str(found.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_token_that_others_can_read_is_refused(home: Path, mode: int) -> None:
    write_down(home, 'url = "http://lab1:7433"\ntoken = "stk_x"\n', mode)
    with pytest.raises(ServerUnreachable) as found:
        Client().nodes()
    assert found.value.why == "bad_mode"
    assert f"chmod 600 {home / 'client.toml'}" in str(found.value)
    write_down(home, 'url = "http://127.0.0.1:1"\n', mode)  # an address is no secret
    with pytest.raises(ServerUnreachable) as found:
        Client().nodes()
    assert found.value.why == "no_connection"


def test_it_finds_the_server_of_this_account(start: Start, home: Path) -> None:
    fake = start(lambda _: ok([]))
    introduce(home, fake.url)
    assert Client().nodes() == []
    assert fake.seen[0].headers["Authorization"] == "Bearer stk_secret"
    assert fake.seen[0].headers["Accept-Language"] == "en"


def test_who_logged_out_of_his_own_server_has_its_token_still(start: Start, home: Path) -> None:
    own, other = start(lambda _: ok([])), start(lambda _: ok([]))
    introduce(home, own.url)
    write_down(home, f'url = "{own.url}"\n')
    Client().nodes()
    assert own.seen[0].headers["Authorization"] == "Bearer stk_secret"
    write_down(home, f'url = "{other.url}"\n')
    Client().nodes()
    assert "Authorization" not in other.seen[0].headers


def test_it_asks_in_the_language_of_the_terminal(
    start: Start, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = start(lambda _: ok([]))
    introduce(home, fake.url)
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    Client().nodes()
    assert fake.seen[0].headers["Accept-Language"] == "zh"


def test_an_address_that_was_given_wins(
    start: Start, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = start(lambda _: ok([])), start(lambda _: ok([]))
    introduce(home, mine.url)
    monkeypatch.setenv("STOKER_URL", other.url + "/")
    monkeypatch.setenv("STOKER_TOKEN", "other")
    Client().nodes()
    assert other.seen[0].headers["Authorization"] == "Bearer other"
    Client(mine.url, "third").nodes()
    assert mine.seen[0].headers["Authorization"] == "Bearer third"
    Client(home=home).nodes()
    assert mine.seen[1].headers["Authorization"] == "Bearer stk_secret"


def test_my_token_is_not_sent_to_a_stranger(
    start: Start, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = start(lambda _: ok([])), start(lambda _: ok([]))
    introduce(home, mine.url)
    monkeypatch.setenv("STOKER_URL", other.url)
    Client().nodes()
    assert "Authorization" not in other.seen[0].headers
    monkeypatch.setenv("STOKER_URL", mine.url)
    Client().nodes()
    assert mine.seen[0].headers["Authorization"] == "Bearer stk_secret"


def test_whoever_took_a_dead_servers_address_gets_nothing(start: Start, home: Path) -> None:
    fake = start(lambda _: ok([]))
    dead = subprocess.Popen(["true"])
    dead.wait()
    introduce(home, fake.url, dead.pid)
    with pytest.raises(ServerUnreachable) as error:
        Client().nodes()
    assert error.value.why == "gone"
    introduce(home, fake.url, 1 if os.getuid() else 2**22 - 1)  # not of this account, or nobody
    with pytest.raises(ServerUnreachable):
        Client().nodes()
    assert fake.seen == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"url": 1, "pid": "x"}', "\xff"])
def test_a_broken_address_file_is_no_server(home: Path, text: str) -> None:
    (home / "server.json").write_text(text, encoding="latin-1")
    with pytest.raises(ServerUnreachable) as error:
        Client().nodes()
    assert (error.value.why, error.value.where) == ("no_server", str(home))


def test_ipv6(start: Start) -> None:
    fake = start(lambda _: ok([]), "::1")
    assert Client(fake.url, "t").nodes() == []
    assert fake.seen[0].headers["Host"].startswith("[::1]:")


def test_a_path_in_front(start: Start) -> None:
    fake = start(lambda _: ok([]))
    Client(fake.url + "/lab/", "t").nodes()
    assert fake.seen[0].path == "/lab/api/v1/nodes"


# ---- requests


def test_a_refusal_is_told_as_it_was_said(start: Start) -> None:
    problem = {"code": "too_large", "message": "zu groß", "field": "gpus", "hint": "h"}
    fake = start(lambda _: (422, json.dumps(problem).encode(), {}))
    with pytest.raises(Refused) as error:
        Client(fake.url, "t").submit(TaskSpec(command="x"))
    said = error.value
    assert (said.code, said.message, said.field, said.hint, said.status) == (
        "too_large", "zu groß", "gpus", "h", 422,
    )  # fmt: skip


@pytest.mark.parametrize("body", [b"", b"<html>502</html>", b"\xff", b"[]"])
def test_a_refusal_by_somebody_else(start: Start, body: bytes) -> None:
    fake = start(lambda _: (502, body, {}))
    with pytest.raises(Refused) as error:
        Client(fake.url, "t").nodes()
    assert (error.value.code, error.value.status) == ("http_502", 502)


def test_a_submit_is_sent_once_whatever_happens(start: Start) -> None:
    fake = start(lambda _: None)
    with pytest.raises(ServerUnreachable) as error:
        Client(fake.url, "t").submit(TaskSpec(command="x"))
    assert error.value.why == "no_answer"
    assert len(fake.seen) == 1


def test_a_question_is_asked_again(start: Start) -> None:
    answers: list[Answer] = [None, ok([])]
    fake = start(lambda _: answers.pop(0))
    assert Client(fake.url, "t").nodes() == []
    assert len(fake.seen) == 2


def test_what_is_said_is_sent(start: Start) -> None:
    fake = start(lambda _: (201, b'{"id": "17", "state": "QUEUED", "new": 1}', {}))
    spec = TaskSpec(command=("a", "训练"), gpus=2)
    created = Client(fake.url, "t").submit(spec, said=["command", "stderr", "env"])
    assert (created.id, created.state) == ("17", "QUEUED")
    sent = json.loads(fake.seen[0].body)
    # the rest is for the server to say: the person may have settings
    assert sent == {"command": ["a", "训练"], "gpus": 2, "stderr": "merge", "env": {}}
    assert fake.seen[0].headers["Content-Type"] == "application/json"


def test_pages_are_asked_for_as_they_are_needed(start: Start) -> None:
    pages = {
        None: {"tasks": [VIEW], "next": "c1"},
        "c1": {"tasks": [VIEW | {"id": "2"}], "next": "c2"},
        "c2": {"tasks": [VIEW | {"id": "3"}], "next": None},
    }
    fake = start(lambda request: ok(pages[request.query.get("cursor")]))
    found = Client(fake.url, "t").tasks(state=["unfinished"], page=1)
    assert next(found).id == "1"
    assert len(fake.seen) == 1
    assert [task.id for task in found] == ["2", "3"]
    assert fake.seen[2].query == {"state": "unfinished", "limit": "1", "cursor": "c2"}


@pytest.mark.parametrize("body", [b"<html>", b"", b"\xff", b"{}", b'{"tasks": 1}'])
def test_whoever_answers_must_be_a_stoker(start: Start, body: bytes) -> None:
    fake = start(lambda _: (200, body, {}))
    with pytest.raises(ServerUnreachable) as error:
        list(Client(fake.url, "t").tasks())
    assert error.value.why == "not_stoker"
    with pytest.raises(ServerUnreachable) as error:
        Client(fake.url, "t").log("1")
    assert error.value.why == "not_stoker"


@pytest.mark.parametrize("token", ["a\nb", "训练", "a\x7f"])
def test_a_token_that_cannot_be_one(start: Start, token: str) -> None:
    fake = start(lambda _: ok([]))
    with pytest.raises(ServerUnreachable) as error:
        Client(fake.url, token).nodes()
    assert error.value.why == "bad_token"
    assert fake.seen == []


WHY = {
    "starts": [{"node": "a", "gpu_ids": [0]}],
    "reasons": [{"code": "held", "message": "m", "values": {"n": 1}, "new": 2}],
    "holders": [{"task": "1", "owner": "o", "node": "a", "gpu_ids": [1], "ends": None}],
    "place": {"ahead": 1, "more": False, "waiting": 2},
    "estimate": {"at": "2030-01-01T00:00:00Z", "basis": {"code": "c", "message": "m"}},
    "suggestions": [{"code": "c", "message": "m", "values": {}, "options": {"gpus": 1}}],
}
NODE = {
    "name": "a b", "up": True, "since": None, "why": "", "cpus": 1, "cpus_held": 0,
    "memory_mib": 1, "memory_held_mib": 0, "memory_available_mib": None, "load1": None,
    "disk_free_mib": None, "limits": [], "gpu_error": "", "cards": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "method", "path", "query", "body", "answer"),
    [
        (lambda c: c.why("1"), "GET", "/tasks/1/why", {}, None, WHY),
        (lambda c: c.release("1"), "POST", "/tasks/1/release", {}, None, VIEW),
        (lambda c: c.release("1", anyway=True), "POST", "/tasks/1/release", {"anyway": "true"},
         None, VIEW),
        (lambda c: c.move("1", "first"), "POST", "/tasks/1/move", {},
         {"to": "first", "other": None}, VIEW),
        (lambda c: c.move("1", "after", "2"), "POST", "/tasks/1/move", {},
         {"to": "after", "other": "2"}, VIEW),
        (lambda c: c.requeue("1"), "POST", "/tasks/1/requeue", {}, None, VIEW),
        (lambda c: c.resubmit("1"), "POST", "/tasks/1/resubmit", {}, None,
         {"id": "2", "state": "QUEUED"}),
        (lambda c: c.resubmit("1", failed=True), "POST", "/tasks/1/resubmit", {"failed": "true"}, None,
         {"id": "2", "state": "QUEUED"}),
        (lambda c: c.successors("1"), "GET", "/tasks/1/successors", {}, None, [VIEW]),
        (lambda c: c.delete("1"), "DELETE", "/tasks/1", {}, None, {"deleted": ["1"]}),
        (lambda c: c.delete("1_2", with_successors=True), "DELETE", "/tasks/1_2",
         {"with_successors": "true"}, None, {"deleted": ["1_2", "3"]}),
        (lambda c: c.drain("a b", "why"), "POST", "/nodes/a%20b/drain", {}, {"why": "why"}, NODE),
        (lambda c: c.resume("a b"), "POST", "/nodes/a%20b/resume", {}, None, NODE),
        (lambda c: list(c.tasks(elements=True)), "GET", "/tasks", {"elements": "true"}, None,
         {"tasks": [VIEW], "next": None}),
        (lambda c: list(c.tasks(array="17")), "GET", "/tasks", {"array": "17"}, None,
         {"tasks": [VIEW | {"array": {"size": 3, "live": 1}}], "next": None}),
    ],
)  # fmt: skip
def test_every_verb_is_asked_for_as_it_is_declared(
    start: Start,
    call: Callable[[Client], object],
    method: str,
    path: str,
    query: dict[str, str],
    body: object,
    answer: object,
) -> None:
    fake = start(lambda _: ok(answer))
    assert call(Client(fake.url, "t"))
    (request,) = fake.seen
    assert (request.method, request.path, request.query) == (method, path, query)
    assert (json.loads(request.body) if request.body else None) == body


def test_an_edit_says_which_version_it_is_about(start: Start) -> None:
    fake = start(lambda _: ok(VIEW | {"id": "9", "origin": "1"}))
    edited = Client(fake.url, "t").edit("1", TaskSpec(command="x", gpus=2), 7)
    assert (edited.id, edited.origin) == ("9", "1")
    (request,) = fake.seen
    assert (request.method, request.path) == ("PUT", "/tasks/1/spec")
    assert request.headers["If-Match"] == '"7"'
    assert json.loads(request.body)["gpus"] == 2


def test_a_preview_is_a_spec_and_an_answer(start: Start) -> None:
    fake = start(lambda _: ok(WHY))
    found = Client(fake.url, "t").preview(TaskSpec(command="x"))
    assert found.starts is not None
    assert found.starts[0].node == "a"
    assert found.reasons[0].values == {"n": 1}
    assert found.suggestions[0].options == {"gpus": 1}
    assert fake.seen[0].path == "/tasks/preview"


@pytest.mark.parametrize("method", ["move", "delete", "edit"])
def test_nothing_that_changes_something_is_sent_twice(start: Start, method: str) -> None:
    fake = start(lambda _: None)
    client = Client(fake.url, "t")
    acts: dict[str, Callable[[], object]] = {
        "move": lambda: client.move("1", "last"),
        "delete": lambda: client.delete("1"),
        "edit": lambda: client.edit("1", TaskSpec(command="x"), 1),
    }
    with pytest.raises(ServerUnreachable):
        acts[method]()
    assert len(fake.seen) == 1


def test_an_id_cannot_change_the_path(start: Start) -> None:
    fake = start(lambda _: (404, b"{}", {}))
    with pytest.raises(Refused):
        Client(fake.url, "t").task("1/../../nodes?x")
    assert fake.seen[0].path == "/tasks/1%2F..%2F..%2Fnodes%3Fx"


def test_an_interrupt_leaves_a_client_that_works(start: Start) -> None:
    """Ctrl-C in a notebook: whoever asks next gets an answer of his own, not the one that was due."""
    answered = threading.Event()

    def answer(request: Request) -> Answer:
        if request.path == "/tasks":
            os.kill(os.getpid(), signal.SIGINT)  # the client waits for us now
            answered.wait(30)
            return ok({"id": "1", "state": "QUEUED"})
        if request.path == "/events/stream" and not request.headers.get("Last-Event-ID"):
            return RESET
        if request.path == "/events/stream":
            os.kill(os.getpid(), signal.SIGINT)
            answered.wait(30)
        return ok(VIEW)

    fake = start(answer)
    client = Client(fake.url, "t")
    client.hold("1")
    # a run in the background begins with this signal ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            client.submit(TaskSpec(command="x"))
        assert client.hold("1").id == "1"
        with pytest.raises(KeyboardInterrupt):
            list(client.events())
        assert client.hold("1").id == "1"
    finally:
        answered.set()
        signal.signal(signal.SIGINT, before)
    assert [request.path for request in fake.seen].count("/tasks") == 1


# ---- streams


def test_a_log_is_followed_through_breaks_without_a_byte_twice(start: Start) -> None:
    whole = "step 1\nstep 2\n训练\n".encode()
    streams = [
        piece(0, whole[:4]) + piece(4, whole[4:9])[:-8],  # breaks off inside a message
        piece(4, whole[4:9]) + ": still here\n\n",
        piece(0, whole[:4]) + piece(2, whole[2:]),  # says again what was said
        END,
    ]
    fake = start(lambda _: streams.pop(0))
    got = list(Client(fake.url, "t").follow_log("1"))
    assert b"".join(got) == whole
    assert [request.headers.get("Last-Event-ID") for request in fake.seen] == [
        None, "4", "9", str(len(whole)),
    ]  # fmt: skip
    assert fake.seen[1].query["attempt"] == "a"


def test_bytes_that_are_no_text_are_exact_all_the_same(start: Start) -> None:
    whole = b"a\xffb\xf0\x9f\x98c" + "\ufffd".encode() + b"d"

    def answer(request: Request) -> Answer:
        if request.path.endswith("/stream"):
            return piece(0, whole[:4]) + piece(4, whole[4:]) + END
        begin, limit = int(request.query["offset"]), int(request.query["limit"])
        data = whole[begin : begin + limit][:3]  # less than was asked for
        headers = {"Stoker-Offset": str(begin), "Stoker-Size": "99", "Stoker-Ended": "false"}
        return 200, data, headers

    assert b"".join(Client(start(answer).url, "t").follow_log("1")) == whole


def test_a_hole_in_a_log_is_passed(start: Start) -> None:
    fake = start(lambda _: piece(0, b"ab") + piece(100, b"yz") + END)
    assert list(Client(fake.url, "t").follow_log("1")) == [b"ab", b"yz"]


def test_a_stream_that_cannot_go_on_says_why(start: Start) -> None:
    problem = {"code": "log_missing", "message": "gone"}
    fake = start(lambda _: f"event: problem\ndata: {json.dumps(problem)}\n\n")
    with pytest.raises(Refused, match="gone"):
        list(Client(fake.url, "t").follow_log("1"))


def test_events_from_now_on(start: Start) -> None:
    streams = [RESET + event(8, "1", "Started"), event(9, "1", "Ended")]
    fake = start(lambda _: streams.pop(0))
    news = Client(fake.url, "t").events()
    assert next(news) == StreamReset(7)
    assert [item.seq for _ in range(2) if isinstance(item := next(news), EventView)] == [8, 9]
    assert fake.seen[0].query == {}
    assert fake.seen[1].headers["Last-Event-ID"] == "8"


def test_waiting_survives_a_restart_at_another_address(start: Start, home: Path) -> None:
    finished = {"1": False, "2": False}

    def task(request: Request) -> Answer:
        id = request.path.rpartition("/")[2]
        return ok(detail((DONE if finished[id] else VIEW) | {"id": id}))

    def second(request: Request) -> Answer:
        if not request.path.startswith("/events"):
            return task(request)
        assert request.headers["Last-Event-ID"] == "8"
        finished["2"] = True
        return event(9, "3", "Ended") + event(10, "2", "Ended")

    def first(request: Request) -> Answer:
        if not request.path.startswith("/events"):
            return task(request)
        finished["1"] = True
        introduce(home, start(second).url)  # it goes away after this and comes back elsewhere
        return RESET + event(8, "1", "Ended")

    introduce(home, start(first).url)
    assert [task.outcome for task in Client().wait(["1", "2"]).values()] == ["succeeded"] * 2


def test_waiting_for_what_has_long_ended(start: Start) -> None:
    fake = start(lambda r: RESET if r.path.startswith("/events") else ok(detail(DONE)))
    assert Client(fake.url, "t").wait(["1", "1"])["1"].state == "FINISHED"


def test_waiting_for_what_does_not_exist(start: Start) -> None:
    problem = json.dumps({"code": "unknown_task", "message": "no"}).encode()
    fake = start(lambda r: RESET if r.path.startswith("/events") else (404, problem, {}))
    with pytest.raises(Refused):
        Client(fake.url, "t").wait(["99"])


def test_waiting_for_what_is_deleted_meanwhile(start: Start) -> None:
    problem = json.dumps({"code": "unknown_task", "message": "no"}).encode()
    gone: list[bool] = []

    def answer(request: Request) -> Answer:
        if not request.path.startswith("/events"):
            return (404, problem, {}) if gone else ok(detail(VIEW))
        if request.headers.get("Last-Event-ID"):
            gone.append(True)
            return event(8, "1", "Deleted")
        return RESET

    fake = start(answer)
    with pytest.raises(Refused) as refused:
        Client(fake.url, "t").wait(["1"])
    assert refused.value.code == "unknown_task"


def test_waiting_has_an_end(start: Start) -> None:
    fake = start(lambda r: RESET if r.path.startswith("/events") else ok(detail(VIEW)))
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        Client(fake.url, "t").wait(["1"], timeout_s=0.3)
    assert 0.3 <= time.monotonic() - began < 10


def test_patience_has_an_end(start: Start) -> None:
    answers: list[Answer] = [RESET]
    fake = start(
        lambda r: (
            (answers.pop() if answers else None)
            if r.path.startswith("/events")
            else ok(detail(VIEW))
        )
    )
    with pytest.raises(ServerUnreachable):
        Client(fake.url, "t", patience_s=0.2).wait(["1"])


def test_no_server_at_all_is_said_at_once(home: Path) -> None:
    began = time.monotonic()
    with pytest.raises(ServerUnreachable):
        Client().wait(["1"])
    with pytest.raises(ServerUnreachable):
        next(iter(Client().follow_log("1")))
    assert time.monotonic() - began < 5
