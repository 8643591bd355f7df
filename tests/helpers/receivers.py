"""Who notices go to: a web server that keeps what it is sent, and a real mail server."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword
from typing_extensions import override


class Hit:
    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path, self.headers, self.body = path, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Answers every POST as `answer` says; waits while `gate` is closed."""

    def __init__(self) -> None:
        self.hits: list[Hit] = []
        self.answer: Callable[[Hit], tuple[int, bytes]] = lambda _: (200, b"{}")
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Semaphore(0)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                hit = Hit(self.path, dict(self.headers), self.rfile.read(size))
                receiver.hits.append(hit)
                receiver.arrived.release()
                receiver.gate.wait(30)
                status, body = receiver.answer(hit)
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", body.decode())
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST  # noqa: N815 - as above

            @override
            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            @override
            def handle_error(self, *_: object) -> None:
                """Whoever was cut off in the middle is no error of ours."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


class Mailbox:
    """What a real mail server was given."""

    def __init__(self, user: str, password: str) -> None:
        self.user, self.password = user, password
        self.envelopes: list[Envelope] = []
        self.refuse = ""
        self.port = 0

    @property
    def mails(self) -> list[EmailMessage]:
        found = []
        for envelope in self.envelopes:
            assert isinstance(envelope.content, bytes)
            mail = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            found.append(mail)
        return found

    async def handle_RCPT(  # noqa: N802 - the name that aiosmtpd calls
        self, _server: object, _session: object, envelope: Envelope, address: str, _options: object
    ) -> str:
        if self.refuse:
            return self.refuse
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, _server: object, _session: object, envelope: Envelope
    ) -> str:
        self.envelopes.append(envelope)
        return "250 taken"

    def authenticate(
        self, _server: object, _session: object, _envelope: object, _how: str, given: Any
    ) -> AuthResult:
        good = isinstance(given, LoginPassword) and given == LoginPassword(
            self.user.encode(), self.password.encode()
        )
        return AuthResult(success=good, handled=False)


class _AnyPort(Controller):
    """A port that is free; aiosmtpd itself asks once whether the one it was given answers."""

    @override
    def _trigger_server(self) -> None:
        server: Any = self.server
        self.port = server.sockets[0].getsockname()[1]
        super()._trigger_server()  # type: ignore[no-untyped-call]


@contextmanager
def mail_server(
    tls: ssl.SSLContext | None = None, user: str = "lab", password: str = ""
) -> Iterator[Mailbox]:
    """With `tls` it wants STARTTLS and a password before it takes anything."""
    box = Mailbox(user, password)
    how: dict[str, Any] = {}
    if tls is not None:
        how = {
            "tls_context": tls, "require_starttls": True, "auth_required": True,
            "authenticator": box.authenticate,
        }  # fmt: skip
    controller = _AnyPort(box, hostname="127.0.0.1", port=0, **how)
    controller.start()
    try:
        box.port = controller.port
        yield box
    finally:
        controller.stop()
