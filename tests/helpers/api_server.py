"""The real API on loopback: uvicorn, flow, records on disk; only the engine has no processes.

The server runs in a thread with its own loop; tests talk HTTP to it, and script the engine with
`server.on_loop(...)`. At the end the records are checked.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stoker.access.passwords import Passwords
from stoker.access.tokens import Identify, kept_as, new_secret, of_book, one_person, with_own
from stoker.api.app import App, create_app
from stoker.api.serve import Server, listen
from stoker.domain.node import Gpu, Node
from stoker.domain.person import SCOPES, Credential, Person, ScopeName
from stoker.engines.base import LaunchOrder
from stoker.engines.fake import Behaviour, FakeEngine
from stoker.flow import loop
from stoker.flow.context import Flow
from stoker.flow.notify import Notices
from stoker.flow.obey import obey
from stoker.flow.recover import recover
from stoker.journal import Journal
from stoker.lab.book import RULE, Book, Put
from stoker.lab.channels import Channels
from stoker.lab.seal import Seal
from stoker.notices.send import AppriseSender
from stoker.store.logs import LogFolder
from stoker.store.recorder import open_store

T = TypeVar("T")

NODE = Node(
    name="testbed",
    cpus=8,
    memory_mib=16_000,
    gpus=tuple(Gpu(i, f"GPU-{i}", "Simulated", 8000, simulated=True) for i in range(4)),
)


class Clock:
    """The true time, and as much later as a test says."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Reply:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class ApiServer:
    """A running server, as seen by a client of it."""

    def __init__(
        self,
        home: Path,
        behave: Callable[[LaunchOrder], Behaviour],
        records: str | Path,
        *,
        is_lab: bool = False,
        keeper: str = "",
        plain_http: bool = False,
        host_names: Sequence[str] = (),
    ) -> None:
        """With `is_lab` nobody is known until `add_person`, but for the `keeper`, if one is named:
        who can read the folder's own token. Else there is the one person."""
        self.home, self.behave, self.records, self.is_lab = home, behave, records, is_lab
        self.keeper, self.plain_http, self.host_names = keeper, plain_http, host_names
        self.token = secrets.token_urlsafe(32)
        self.clock = Clock()
        self.engine: FakeEngine
        self.flow: Flow
        self.notices: Notices
        self.app: App
        self.server: Server
        self.port = 0
        self.passwords = Passwords()
        self.journal = Journal()
        self._loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="api-server")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
        token: str | None = None,
    ) -> Reply:
        """One request on a connection of its own. `path` is below /api/v1 unless it is absolute."""
        connection = self.connect()
        try:
            target = path if path.startswith("/api/") else f"/api/v1{path}"
            data = raw if raw is not None else None if body is None else msgspec.json.encode(body)
            known = self.headers(data is not None, token)
            connection.request(method, target, data, known | (headers or {}))
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def headers(self, with_body: bool = False, token: str | None = None) -> dict[str, str]:
        """`token`: whose, if not the one person's; "" = nobody's."""
        shown = self.token if token is None else token
        known = {"Authorization": f"Bearer {shown}"} if shown else {}
        return known | ({"Content-Type": "application/json"} if with_body else {})

    def submit(self, **spec: object) -> str:
        """Hand over a task, return its id."""
        reply = self.request("POST", "/tasks", {"command": ["true"]} | spec)
        assert reply.status == 201, reply.body
        return str(reply.json["id"])

    def wait_for(self, id: str, state: str) -> Any:
        """The task once it is in `state`."""
        return self.until(lambda: (t := self.task(id)) and t["state"] == state and t)

    def task(self, id: str) -> Any:
        return self.request("GET", f"/tasks/{id}").json["task"]

    def until(self, condition: Callable[[], T], timeout_s: float = 15.0) -> T:
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.01)
        return found

    def on_loop(self, act: Callable[[], T]) -> T:
        """Do something in the server's thread, between two of its steps."""

        async def run() -> T:
            return act()

        return self.run(run())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def add_person(
        self,
        name: str,
        *,
        scopes: Sequence[ScopeName] = SCOPES,
        password: str | None = None,
        expires_at: datetime | None = None,
        password_at: datetime | None = None,
        **known: Any,
    ) -> str:
        """Somebody new, and a token of theirs: good until `expires_at`, for somebody who last gave
        the password at `password_at`. The server must be a lab's."""
        token, book = new_secret(), self.flow.book
        kept = "" if password is None else self.run(self.passwords.hashed(password))
        person = Person(name=name, **known)
        credential = Credential(
            kind="token",
            person=name,
            scopes=tuple(scopes),
            created_at=self.clock.now(),
            expires_at=expires_at,
            password_at=password_at,
        )
        changes = [Put("person", name, person, kept), Put("credential", kept_as(token), credential)]
        self.run(book.amend(changes))
        return token

    def sse(self, path: str, *, token: str | None = None, **headers: str) -> SseStream:
        return SseStream(self, path, self.headers(token=token) | headers)

    def others_see(self, level: str) -> None:
        """What the lab lets people see of others' tasks, from now on."""
        self.run(self.flow.book.amend([Put(RULE, "others_see", level)]))

    # ---- life

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(20), "the server did not start"
        if self._failed is not None:
            raise self._failed

    def stop(self) -> float:
        """End it; returns how long that took."""
        begun = time.monotonic()
        with suppress(RuntimeError):  # it may have ended already
            self._loop.call_soon_threadsafe(self.server.ask_to_exit)
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server did not end"
        if self._failed is not None:
            raise self._failed
        return time.monotonic() - begun

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failed = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        store = open_store(self.records)
        try:
            self.engine = FakeEngine([NODE], self.behave)
            book = Book(store)
            await book.load()
            self.flow = Flow(
                store=store,
                engine=self.engine,
                logs=LogFolder(self.home / "logs"),
                clock=self.clock,
                new_attempt=lambda: secrets.token_hex(16),
                book=book,
            )
            obey(self.flow)
            await recover(self.flow)
            self.notices = Notices(
                self.flow,
                Channels(book, Seal(self.home / "secret.key")),
                AppriseSender(deadline_s=2.0),
                digest_s=0.2,
                pauses_s=(0.05, 0.05),
            )
            self.flow.listeners.append(self.notices.hear)
            await self.engine.start(self.flow.epoch)
            turning = asyncio.create_task(loop.run(self.flow))
            while not self.flow.view.rooms:
                await asyncio.sleep(0.001)
            await self._listen(store.readers)
            self.notices.close()
            turning.cancel()
            with suppress(asyncio.CancelledError):
                await turning
            await self.flow.drain()
            broken = store.check()
            assert broken == [], broken
        finally:
            store.close()

    def _identify(self) -> Identify:
        if not self.is_lab:
            return one_person(self.token, "ana", self.flow.book)
        others = of_book(self.flow.book, self.flow.clock)
        return with_own(self.token, self.keeper, self.flow.book, others) if self.keeper else others

    async def _listen(self, readers: Any) -> None:
        self.app = create_app(
            flow=self.flow,
            readers=readers,
            identify=self._identify(),
            notices=self.notices,
            version="0.0.0",
            home=str(self.home),
            plain_http=self.plain_http,
            host_names=self.host_names,
            journal=self.journal,
        )
        self.server = Server(self.app)
        with listen("127.0.0.1", 0) as listener:
            self.port = listener.getsockname()[1]
            serving = asyncio.create_task(self.server.serve(sockets=[listener]))
            while not self.server.started and not serving.done():
                await asyncio.sleep(0.001)
            self._ready.set()
            await serving


class SseEvent(msgspec.Struct):
    event: str = "message"
    id: str = ""
    data: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class SseStream:
    """An open stream; iterating gives its events, comments left out. Ends with the stream."""

    def __init__(self, server: ApiServer, path: str, headers: dict[str, str]) -> None:
        self.connection = server.connect()
        self.connection.request("GET", f"/api/v1{path}", headers=headers)
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def __enter__(self) -> SseStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.response.close()
        self.connection.close()

    def __iter__(self) -> Iterator[SseEvent]:
        event = SseEvent()
        for raw in self.response:
            name, _, value = raw.decode().rstrip("\n").partition(": ")
            if not name:
                if event != SseEvent():
                    yield event
                event = SseEvent()
            elif name in ("event", "id", "data"):
                setattr(event, name, value)

    def next(self) -> SseEvent:
        return next(iter(self))


@contextmanager
def serving(
    home: Path,
    behave: Callable[[LaunchOrder], Behaviour] = lambda _: Behaviour(),
    records: str | Path = "",
    *,
    is_lab: bool = False,
    keeper: str = "",
    plain_http: bool = False,
    host_names: Sequence[str] = (),
) -> Iterator[ApiServer]:
    """A server for the time of the block, with records in its home unless they are elsewhere."""
    server = ApiServer(
        home,
        behave,
        records or home / "stoker.db",
        is_lab=is_lab,
        keeper=keeper,
        plain_http=plain_http,
        host_names=host_names,
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()
