"""How a client talks to its server: requests, refusals, streams that come back by themselves.

A request is sent at most once unless it is a GET: a submit is never repeated on a guess. Streams
reconnect, resume where they were, and give up after `patience_s` without a server.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import time
from collections.abc import Callable, Iterator, Mapping
from email.message import Message as Headers
from typing import NoReturn, Self, TypeVar
from urllib.parse import unquote

import msgspec
from typing_extensions import override

from stoker import wire

from .errors import Refused, ServerUnreachable
from .find import Server, find_server, is_local
from .stream import QUIET_S, Message, Stream

IDLE_S = 2.0
"""A server may close a connection that idles; one younger than this is used again."""

DOWNLOAD_S = 300.0
"""A long answer may pause so long: the server may have to look through everything it has."""
PIECE = 1 << 16

_FINAL = ("bad_url", "bad_token", "bad_file", "bad_mode", "bad_ca", "bad_certificate", "not_stoker")
"""Asking again would not help."""

T = TypeVar("T")


class Connection:
    """A way to one server, without the verbs."""

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
        ca: str | os.PathLike[str] | None = None,
    ) -> None:
        named = {} if home is not None else os.environ  # a folder that was given is meant
        self._url = url or named.get("STOKER_URL") or None
        self._token = token or named.get("STOKER_TOKEN") or None
        # whom to trust leads nowhere else, so it counts for a given folder too
        self._ca = os.environ.get("STOKER_CA") or None if ca is None else os.fspath(ca)
        self._home = None if home is None else os.fspath(home)
        self._language = language or _language()
        self._timeout_s, self._patience_s = timeout_s, patience_s
        self._server: Server | None = None
        self._used_at = 0.0
        self.announcement = ""
        """What the lab tells everybody, as the last answer said; "" = nothing."""
        self.pause: dict[str, str] | None = None
        """Scheduling is paused: `by` whom, since when (`at`) and `why`; None = it is not."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    @override
    def __repr__(self) -> str:
        """Where it goes, as far as that is known; never the token."""
        where = self._server.url if self._server else self._url or self._home or "not looked for"
        return f"<stoker.Client {where}>"

    def close(self) -> None:
        """Let go of the connection; the next call opens another one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @property
    def url(self) -> str:
        """Where the server is. Raises ServerUnreachable when there is none to be found."""
        return self._find().url

    @property
    def is_local(self) -> bool:
        """Whether the server is this machine's. Raises ServerUnreachable as `url` does."""
        return is_local(self._find(), self._home)

    # ---- requests

    def _get(self, path: str, kind: type[T], query: Mapping[str, object] | None = None) -> T:
        return self._decoded(self._call("GET", path, query or {})[0], kind)

    def _post(
        self, path: str, body: object, kind: type[T], query: Mapping[str, object] | None = None
    ) -> T:
        encoded = b"" if body is None else msgspec.json.encode(body)
        return self._decoded(self._call("POST", path, query or {}, encoded)[0], kind)

    def _put(
        self,
        path: str,
        body: object,
        kind: type[T],
        version: int | None = None,
        query: Mapping[str, object] | None = None,
    ) -> T:
        encoded = msgspec.json.encode(body)
        seen = {} if version is None else {"If-Match": f'"{version}"'}
        return self._decoded(self._call("PUT", path, query or {}, encoded, seen)[0], kind)

    def _delete(self, path: str, kind: type[T], query: Mapping[str, object] | None = None) -> T:
        return self._decoded(self._call("DELETE", path, query or {})[0], kind)

    def _decoded(self, data: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ServerUnreachable("not_stoker", self.url, str(error)) from error

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[bytes, Headers]:
        try:
            return self._exchange(method, path, query, body, headers or {})
        except ServerUnreachable as error:
            self._server = None  # it may have been started again at another address
            if method != "GET" or error.why in _FINAL:
                raise
        return self._exchange(method, path, query, body, headers or {})

    def _exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: bytes,
        extra: Mapping[str, str],
    ) -> tuple[bytes, Headers]:
        server = self._find()
        if time.monotonic() - self._used_at > IDLE_S:
            self.close()
        if self._connection is None:
            self._connection = server.connect(self._timeout_s)
        headers = server.headers(self._language) | dict(extra)
        if body:
            headers["Content-Type"] = "application/json"
        try:
            self._connection.request(method, server.target(path, query), body or None, headers)
            response = self._connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ServerUnreachable("no_answer", server.url, str(error)) from error
        except BaseException:  # Ctrl-C: the answer may still come, to whoever asks next
            self.close()
            raise
        self._used_at = time.monotonic()
        self._hear(response.headers)
        _raise_for(response, data)
        return data, response.headers

    def _hear(self, headers: Headers) -> None:
        """What every answer carries for everybody."""
        said, paused = headers["Stoker-Announcement"], headers["Stoker-Paused"]
        self.announcement = unquote(said) if said else ""
        self.pause = None
        if paused:
            with contextlib.suppress(msgspec.DecodeError):
                self.pause = msgspec.json.decode(unquote(paused), type=dict[str, str])

    def _download(self, path: str, query: Mapping[str, object]) -> Iterator[bytes]:
        """An answer of any length, piece by piece, on a connection of its own. Asked for at once;
        raises ServerUnreachable (`cut`) when it ends before its end."""
        server = self._find()
        connection = server.connect(max(self._timeout_s, DOWNLOAD_S))
        try:
            connection.request(
                "GET", server.target(path, query), headers=server.headers(self._language)
            )
            response = connection.getresponse()
            self._hear(response.headers)
            if response.status != http.client.OK:
                _raise_for(response, response.read())
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError | http.client.HTTPException):
                raise ServerUnreachable("no_answer", server.url, str(error)) from error
            raise
        return _pieces(connection, response, server.url)

    def _find(self) -> Server:
        if self._server is None:
            self._server = find_server(self._url, self._token, self._home, self._ca)
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
        except BaseException:
            connection.close()
            raise
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


def _pieces(
    connection: http.client.HTTPConnection, response: http.client.HTTPResponse, url: str
) -> Iterator[bytes]:
    try:
        while piece := response.read(PIECE):
            yield piece
    except (OSError, http.client.HTTPException) as error:
        raise ServerUnreachable("cut", url, str(error)) from error
    finally:
        response.close()
        connection.close()


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


def _language() -> str:
    from stoker.text import locale_language  # noqa: PLC0415 - the caller may have said it

    return locale_language(os.environ)
