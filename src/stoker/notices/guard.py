"""Every connection that apprise makes for a notice: where it may go, how long it may take, what came back.

A URL is what a person typed, and this machine reaches places that the person may not: itself above
all. A host's addresses are looked up once, checked, and these very ones are connected to; so a name
that answers differently the second time gains nothing. Redirects are not followed. At the deadline
the connection is cut, whatever it is doing.

Services of apprise call `requests.post` by themselves and tell nobody what was answered. So
`requests` gets a session of ours, which behaves as its own does outside a delivery.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from collections.abc import Collection
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy
from typing_extensions import override
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECT_S, READ_S = 5.0, 8.0
"""Of one step; the deadline of the whole is the sender's."""
MOST_ANSWER = 1 << 16


class Forbidden(requests.RequestException):
    """The host is none that notices may go to."""


class Delivery:
    """One message on its way, in one thread."""

    def __init__(self, local: Collection[str]) -> None:
        self._local = frozenset(host.lower() for host in local)
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.is_cut = False
        self.forbidden = ""
        """The host that it was not allowed to call."""
        self.error: BaseException | None = None
        self.status = 0
        self.answer = b""

    def allows(self, host: str, address: str) -> bool:
        """Whether a connection may be made to this address of this host."""
        at = ipaddress.ip_address(address.partition("%")[0])
        at = getattr(at, "ipv4_mapped", None) or at
        if host.lower().strip("[]") in self._local or str(at) in self._local:
            return True
        return not (at.is_loopback or at.is_link_local or at.is_unspecified or at.is_multicast)

    def check(self, host: str) -> None:
        """Before somebody else looks the name up: Forbidden for what is clearly not allowed."""
        try:
            found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return
        self.judge(host, [str(entry[4][0]) for entry in found])

    def judge(self, host: str, addresses: Collection[str]) -> None:
        """Forbidden unless all of them may be called."""
        if not all(self.allows(host, address) for address in addresses):
            self.forbidden = host
            raise Forbidden(host)

    def watch(self, connected: socket.socket) -> None:
        """This connection is cut with the delivery."""
        twin = socket.socket(fileno=os.dup(connected.fileno()))  # TLS takes the first one over
        with self._lock:
            self._sockets.append(twin)
            if self.is_cut:
                _shut(twin)

    def cut(self) -> None:
        """Time is up. May be called from any thread."""
        with self._lock:
            self.is_cut = True
            for twin in self._sockets:
                _shut(twin)

    def close(self) -> None:
        with self._lock:
            for twin in self._sockets:
                twin.close()
            self._sockets.clear()


_here = threading.local()


@contextmanager
def guarded(delivery: Delivery) -> Iterator[None]:
    """What this thread sends meanwhile is part of the delivery."""
    _here.delivery = delivery
    try:
        yield
    finally:
        _here.delivery = None
        delivery.close()


def current() -> Delivery | None:
    """That of this thread."""
    found: Delivery | None = getattr(_here, "delivery", None)
    return found


def install() -> None:
    """Let `requests` make our sessions. Harmless when repeated, and to everybody else."""
    requests.Session = requests.sessions.Session = GuardedSession  # type: ignore[misc]


class GuardedSession(requests.Session):
    """A session as usual, unless its thread delivers something."""

    def __init__(self) -> None:
        super().__init__()
        if current() is not None:
            self.auth = _no_auth  # else it would look into ~/.netrc
            self.mount("http://", GuardedAdapter())
            self.mount("https://", GuardedAdapter())

    @override
    def request(self, method: Any, url: Any, *args: Any, **how: Any) -> requests.Response:
        if current() is not None:
            how |= {"allow_redirects": False, "timeout": (CONNECT_S, READ_S)}
        return super().request(method, url, *args, **how)

    @override
    def send(self, request: requests.PreparedRequest, **how: Any) -> requests.Response:
        delivery = current()
        if delivery is None:
            return super().send(request, **how)
        try:
            if select_proxy(request.url or "", how.get("proxies")):
                delivery.check(str(urlsplit(request.url or "").hostname))
            response = super().send(request, **(how | {"stream": True}))
            _read(response)
        except BaseException as error:
            delivery.error = error
            raise
        delivery.status, delivery.answer = response.status_code, response.content
        return response


class GuardedAdapter(HTTPAdapter):
    @override
    def init_poolmanager(self, *args: Any, **how: Any) -> None:
        super().init_poolmanager(*args, **how)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}


class _Connection(HTTPConnection):
    @override
    def _new_conn(self) -> socket.socket:
        return _connected(self)


class _SecureConnection(HTTPSConnection):
    @override
    def _new_conn(self) -> socket.socket:
        return _connected(self)


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def _connected(connection: HTTPConnection) -> socket.socket:
    """A socket to one of the host's addresses, all of which were checked first."""
    host, port, delivery = connection.host.strip("[]"), connection.port, current()
    assert delivery is not None, "made by a session that delivers"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NameResolutionError(host, connection, _as_gaierror(error)) from error
    delivery.judge(host, [str(entry[4][0]) for entry in found])
    last: OSError = OSError("no address")
    for family, kind, proto, _, address in found:
        made = socket.socket(family, kind, proto)
        try:
            made.settimeout(CONNECT_S)
            made.connect(address)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            made.close()
            last = error
            continue
        delivery.watch(made)
        return made
    if isinstance(last, TimeoutError):
        raise ConnectTimeoutError(connection, str(last)) from last
    raise NewConnectionError(connection, str(last)) from last


def _as_gaierror(error: Exception) -> socket.gaierror:
    return error if isinstance(error, socket.gaierror) else socket.gaierror(0, str(error))


def _read(response: requests.Response) -> None:
    """Only the beginning of an answer is of interest."""
    data = b""
    for piece in response.iter_content(4096):
        data += piece
        if len(data) > MOST_ANSWER:
            break
    response._content = data[:MOST_ANSWER]  # noqa: SLF001 - what `content` is made from
    response._content_consumed = True  # noqa: SLF001
    response.close()


def _no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _shut(twin: socket.socket) -> None:
    with suppress(OSError):
        twin.shutdown(socket.SHUT_RDWR)
