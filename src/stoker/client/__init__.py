"""The Python SDK and the CLI's way to a server: synchronous, standard library and msgspec only.

With no configuration it finds the server of this account (find.py). A request is sent at most once
unless it is a GET: a submit is never repeated on a guess. Streams reconnect by themselves, resume
where they were, and give up after `patience_s` without a server. One Client belongs to one thread.

    client = Client()
    task = client.submit(TaskSpec(command=("python", "train.py"), workdir="/data", gpus=2))
    client.wait([task.id])
"""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from email.message import Message as Headers
from functools import partial
from typing import NamedTuple, NoReturn, Self, TypeVar
from urllib.parse import quote

import msgspec

from stoker import wire
from stoker.domain.task import TaskSpec

from .errors import Refused, ServerUnreachable
from .find import Server, find_server
from .stream import QUIET_S, Message, Stream

__all__ = ["Client", "LogPart", "Refused", "ServerUnreachable", "StreamReset", "TaskSpec"]

IDLE_S = 2.0
"""A server may close a connection that idles; one younger than this is used again."""

_FINAL = ("bad_url", "bad_token", "not_stoker")
"""Asking again would not help."""

T = TypeVar("T")


class LogPart(NamedTuple):
    """Bytes of output from `offset` (above the one asked for when the middle was not kept)."""

    offset: int
    data: bytes
    size: int
    ended: bool
    """The attempt is over: `size` will not grow."""

    @property
    def next(self) -> int:
        return self.offset + len(self.data)


class StreamReset(NamedTuple):
    """Events were missed, or none was asked for: look at everything, then go on after `seq`."""

    seq: int


class Client:
    """A way to one server."""

    _connection: http.client.HTTPConnection | None = None

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        home: str | os.PathLike[str] | None = None,
        *,
        language: str | None = None,
        timeout_s: float = 30.0,
        patience_s: float = 60.0,
    ) -> None:
        named = {} if home is not None else os.environ  # a folder that was given is meant
        self._url = url or named.get("STOKER_URL") or None
        self._token = token or named.get("STOKER_TOKEN") or None
        self._home = None if home is None else os.fspath(home)
        self._language = language or _language()
        self._timeout_s, self._patience_s = timeout_s, patience_s
        self._server: Server | None = None
        self._used_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; the next call opens another one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @property
    def url(self) -> str:
        """Where the server is. Raises ServerUnreachable when there is none to be found."""
        return self._find().url

    # ---- tasks

    def submit(self, spec: TaskSpec) -> wire.Created:
        """Hand over one task; it is recorded when this returns."""
        return self._post("/tasks", spec, wire.Created)

    def submit_many(self, specs: Iterable[TaskSpec]) -> tuple[str, ...]:
        """All of them or none; their ids in the same order."""
        return self._post("/tasks/batch", {"tasks": list(specs)}, wire.BatchCreated).ids

    def task(self, id: str) -> wire.TaskDetail:
        """All about one task."""
        return self._get(_path(id), wire.TaskDetail)

    def tasks(
        self,
        *,
        state: Sequence[str] = (),
        owner: str | None = None,
        outcome: str | None = None,
        name: str | None = None,
        sort: str | None = None,
        page: int | None = None,
    ) -> Iterator[wire.TaskView]:
        """Tasks, page by page as they are asked for. `state` also takes groups: `unfinished`."""
        query: dict[str, object] = {
            "state": state, "owner": owner, "outcome": outcome, "name": name, "sort": sort,
            "limit": page,
        }  # fmt: skip
        while True:
            found = self._get("/tasks", wire.TaskPage, query)
            yield from found.tasks
            if found.next is None:
                return
            query["cursor"] = found.next

    def cancel(self, id: str) -> wire.TaskView:
        return self._post(f"{_path(id)}/cancel", None, wire.TaskView)

    def hold(self, id: str) -> wire.TaskView:
        return self._post(f"{_path(id)}/hold", None, wire.TaskView)

    def release(self, id: str) -> wire.TaskView:
        return self._post(f"{_path(id)}/release", None, wire.TaskView)

    # ---- output

    def log(
        self,
        id: str,
        *,
        stream: str = "stdout",
        offset: int = 0,
        limit: int | None = None,
        attempt: str | None = None,
    ) -> LogPart:
        """Output from `offset` on; a negative one counts from the end."""
        query = {"stream": stream, "offset": offset, "limit": limit, "attempt": attempt}
        data, headers = self._call("GET", f"{_path(id)}/log", query)
        try:
            begin, size = int(headers["Stoker-Offset"] or ""), int(headers["Stoker-Size"] or "")
        except ValueError as error:
            raise ServerUnreachable("not_stoker", self.url, "no Stoker-Offset") from error
        return LogPart(begin, data, size, headers["Stoker-Ended"] == "true")

    def follow_log(self, id: str, *, stream: str = "stdout", offset: int = 0) -> Iterator[bytes]:
        """Output as it is written, to the task's end; no byte twice, every byte as it was."""
        query: dict[str, object] = {"stream": stream, "offset": offset}
        for message in self._listen(f"{_path(id)}/log/stream", query, None):
            if message.event == "end":
                return
            piece = self._decoded(message.data.encode(), wire.LogPiece)
            query["attempt"] = piece.attempt  # a reconnect goes on with the same one
            start = max(piece.offset, offset)
            if piece.next > start:  # else it was said again after a reconnect
                yield self._exact(id, stream, piece)[start - piece.offset :]
                offset = piece.next

    def _exact(self, id: str, stream: str, piece: wire.LogPiece) -> bytes:
        """The bytes behind a piece of text: invalid ones were replaced on the way, so ask again."""
        data, length = piece.text.encode(), piece.next - piece.offset
        if len(data) == length and "\ufffd" not in piece.text:
            return data
        exact = b""
        while len(exact) < length:
            at = piece.offset + len(exact)
            part = self.log(
                id, stream=stream, offset=at, limit=length - len(exact), attempt=piece.attempt
            )
            if part.offset != at or not part.data:
                return data  # no longer kept: the replaced text is what there is
            exact += part.data
        return exact

    # ---- news

    def events(self, after: int | None = None) -> Iterator[wire.EventView | StreamReset]:
        """What happens from now on (a reset comes first), or after a number; for ever."""
        return self._events(after, None)

    def wait(self, ids: Sequence[str], timeout_s: float | None = None) -> dict[str, wire.TaskView]:
        """Until every one of these has ended. Survives a restart of the server.

        Raises TimeoutError after `timeout_s`; nothing is changed then.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        ended: dict[str, wire.TaskView] = {}
        for news in self._events(None, deadline):
            left = [id for id in ids if id not in ended]
            if isinstance(news, wire.EventView):
                left = [id for id in left if id == news.task and news.event == "Ended"]
            for id in left:
                task = self._patiently(partial(self.task, id), deadline).task
                if task.state == "FINISHED":
                    ended[id] = task
            if len(ended) == len(set(ids)):
                break
        return ended

    def _events(
        self, after: int | None, deadline: float | None
    ) -> Iterator[wire.EventView | StreamReset]:
        for message in self._listen("/events/stream", {"after": after}, deadline):
            if message.event == "reset":
                yield StreamReset(int((message.id or "0").partition(".")[0]))
            else:
                yield self._decoded(message.data.encode(), wire.EventView)

    # ---- the rest

    def nodes(self) -> list[wire.NodeView]:
        return self._get("/nodes", list[wire.NodeView])

    def health(self) -> wire.Health:
        return self._get("/health", wire.Health)

    def version(self) -> wire.Version:
        return self._get("/version", wire.Version)

    # ---- requests

    def _get(self, path: str, kind: type[T], query: Mapping[str, object] | None = None) -> T:
        return self._decoded(self._call("GET", path, query or {})[0], kind)

    def _post(self, path: str, body: object, kind: type[T]) -> T:
        encoded = b"" if body is None else msgspec.json.encode(body)
        return self._decoded(self._call("POST", path, {}, encoded)[0], kind)

    def _decoded(self, data: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ServerUnreachable("not_stoker", self.url, str(error)) from error

    def _call(
        self, method: str, path: str, query: Mapping[str, object], body: bytes = b""
    ) -> tuple[bytes, Headers]:
        try:
            return self._exchange(method, path, query, body)
        except ServerUnreachable as error:
            self._server = None  # it may have been started again at another address
            if method != "GET" or error.why in _FINAL:
                raise
        return self._exchange(method, path, query, body)

    def _exchange(
        self, method: str, path: str, query: Mapping[str, object], body: bytes
    ) -> tuple[bytes, Headers]:
        server = self._find()
        if time.monotonic() - self._used_at > IDLE_S:
            self.close()
        if self._connection is None:
            self._connection = server.connect(self._timeout_s)
        headers = server.headers(self._language)
        if body:
            headers["Content-Type"] = "application/json"
        try:
            self._connection.request(method, server.target(path, query), body or None, headers)
            response = self._connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ServerUnreachable("no_answer", server.url, str(error)) from error
        self._used_at = time.monotonic()
        _raise_for(response, data)
        return data, response.headers

    def _find(self) -> Server:
        if self._server is None:
            self._server = find_server(self._url, self._token, self._home)
        return self._server

    # ---- streams

    def _listen(
        self, path: str, query: Mapping[str, object], deadline: float | None
    ) -> Iterator[Message]:
        """Server-sent events, for ever: reconnects, and resumes after the last one received.

        A server that is not there to begin with is said at once; only later is it waited for.
        """
        last = ""

        def reopen() -> Stream:
            return self._open(path, query, last, deadline)

        stream = reopen()
        while True:
            got_any = False
            try:
                for message in stream.messages(deadline):
                    if message.event == "problem":
                        _raise(message.data.encode(), http.client.INTERNAL_SERVER_ERROR)
                    got_any, last = True, message.id or last
                    yield message
            finally:
                stream.close()
            _check(deadline)
            if not got_any:
                time.sleep(0.2)  # a server that is just going down, or a proxy without one
            stream = self._patiently(reopen, deadline)

    def _open(
        self, path: str, query: Mapping[str, object], last: str, deadline: float | None
    ) -> Stream:
        self._server = None  # it may have been started again at another address
        server = self._find()
        left = QUIET_S if deadline is None else deadline - time.monotonic()
        connection = server.connect(max(0.05, min(QUIET_S, left)))
        headers = server.headers(self._language) | {"Accept": "text/event-stream"}
        if last:
            headers["Last-Event-ID"] = last
        try:
            stream = Stream(connection, server.target(path, query), headers)
            if stream.response.status != http.client.OK:
                _raise_for(stream.response, stream.response.read())
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ServerUnreachable("no_answer", server.url, str(error)) from error
        return stream

    def _patiently(self, step: Callable[[], T], deadline: float | None) -> T:
        """`step()`, again and again while there is no server, until patience or time runs out."""
        gives_up, pause = time.monotonic() + self._patience_s, 0.1
        while True:
            _check(deadline)
            try:
                return step()
            except ServerUnreachable as error:
                if error.why in _FINAL or time.monotonic() > gives_up:
                    raise
            except Refused as error:
                if error.status < http.client.INTERNAL_SERVER_ERROR or time.monotonic() > gives_up:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 2.0)


def _raise_for(response: http.client.HTTPResponse, data: bytes) -> None:
    if response.status >= http.client.BAD_REQUEST:
        _raise(data, response.status)


def _raise(data: bytes, status: int) -> NoReturn:
    try:
        problem = msgspec.json.decode(data, type=wire.Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Refused(f"http_{status}", f"HTTP {status}", None, None, status) from None
    raise Refused(problem.code, problem.message, problem.field, problem.hint, status)


def _check(deadline: float | None) -> None:
    if deadline is not None and time.monotonic() >= deadline:
        raise TimeoutError


def _path(id: str) -> str:
    return f"/tasks/{quote(id, safe='')}"


def _language() -> str:
    from stoker.text import locale_language  # noqa: PLC0415 - the caller may have said it

    return locale_language(os.environ)
