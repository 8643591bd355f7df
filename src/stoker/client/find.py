"""Where the server is and what token it wants; on the server's machine with no configuration.

What was given wins, then STOKER_URL and STOKER_TOKEN, then `client.toml` in the state folder (`url`,
`token` and `ca` of a server elsewhere, written by `stoker login` or a person), then that folder's
own `server.json` and `token`. A token that was read from a file is sent to the server named there
only; to the folder's own server only while the process that wrote the address lives: after a crash
somebody else may listen there. A `client.toml` with a token that others can read is refused. Runs on
any system: no uid, no /proc is needed.
"""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from .errors import ServerUnreachable

API = "/api/v1"
REMOTE = "client.toml"
"""In the state folder: a server on another machine."""


class Server(NamedTuple):
    """Where, and with what token."""

    url: str
    token: str | None
    ca: str = ""
    """A file with the authority that its certificate is checked against; "" = the system's."""

    def connect(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection that is up. Raises ServerUnreachable; nothing was sent then."""
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=timeout_s, context=_trust(self.ca)
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise ServerUnreachable("bad_certificate", self.url, error.verify_message) from error
        except OSError as error:
            raise ServerUnreachable("no_connection", self.url, str(error)) from error
        return connection

    def headers(self, language: str) -> dict[str, str]:
        """Who asks, and in what language."""
        headers = {"Accept-Language": language}
        return headers | {"Authorization": f"Bearer {self.token}"} if self.token else headers

    def target(self, path: str, query: Mapping[str, object]) -> str:
        """What to ask for; values that were not given are left out."""
        given = {
            name: "true" if value is True else value
            for name, value in query.items()
            if value not in (None, (), []) and value is not False
        }
        base = urlsplit(self.url).path.rstrip("/") + API + path
        return f"{base}?{urlencode(given, doseq=True)}" if given else base


def find_server(
    url: str | None, token: str | None, home: str | None, ca: str | None = None
) -> Server:
    """The server to talk to. Raises ServerUnreachable when there is none to be found."""
    if token is not None and not _is_sendable(token):
        raise ServerUnreachable("bad_token", url or "")
    found = None if url and token else _from_home(home)
    if url is None:
        if not isinstance(found, Server):
            raise ServerUnreachable(*(found or ("no_server", "")))
        return found._replace(token=token or found.token, ca=ca or found.ca)
    url = url.rstrip("/")
    if not _is_usable(url):
        raise ServerUnreachable("bad_url", url)
    if isinstance(found, Server) and found.url.rstrip("/") == url:
        token, ca = token or found.token, ca or found.ca
    return Server(url, token, ca or "")


def written(home: str) -> Server | None:
    """The server that `client.toml` in a state folder names; None without one. Raises
    ServerUnreachable when it cannot be used."""
    return _remote(os.path.join(home, REMOTE))


def is_local(server: Server, home: str | None) -> bool:
    """Whether it is this machine's: the one of our state folder. An address says nothing, because
    the end of a tunnel looks the same."""
    from stoker.config import find_home  # noqa: PLC0415 - few ask

    found = _served(home or str(find_home(os.environ)))
    return isinstance(found, Server) and found.url.rstrip("/") == server.url


def _trust(ca: str) -> ssl.SSLContext | None:
    """None is http.client's own way: the system's authorities."""
    if not ca:
        return None
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # ssl.SSLError is one too
        raise ServerUnreachable("bad_ca", ca, error.strerror or str(error)) from error


def _is_usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _from_home(home: str | None) -> Server | tuple[str, str]:
    """The server of a state folder, or why there is none and where it was looked for.

    A folder that was given means the server that serves it, wherever else people work.
    """
    if home is None:
        from stoker.config import find_home  # noqa: PLC0415 - not needed when a server is named

        home = str(find_home(os.environ))
        remote = _remote(os.path.join(home, REMOTE))
        if remote is not None:
            return remote if remote.token else _with_own_token(remote, _served(home))
    return _served(home)


def _with_own_token(remote: Server, here: Server | tuple[str, str]) -> Server:
    """Whoever has logged out of the server of this very folder still owns its token."""
    if isinstance(here, Server) and here.url.rstrip("/") == remote.url:
        return remote._replace(token=here.token)
    return remote


def _served(home: str) -> Server | tuple[str, str]:
    """The server that runs on a state folder."""
    try:
        with open(os.path.join(home, "server.json"), "rb") as file:
            owner = os.fstat(file.fileno()).st_uid
            found = msgspec.json.decode(file.read(), type=dict[str, Any])
        url, pid = str(found["url"]), int(found["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return "no_server", home
    if not _is_alive(pid, owner):
        return "gone", home
    try:
        with open(os.path.join(home, "token"), encoding="ascii") as file:
            return Server(url, file.read().strip() or None)
    except (OSError, UnicodeDecodeError):
        return Server(url, None)


def _remote(path: str) -> Server | None:
    """The server that a person wrote down. Raises ServerUnreachable when it cannot be read."""
    try:
        with open(path, "rb") as file:
            others = os.fstat(file.fileno()).st_mode & 0o077
            raw = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ServerUnreachable("bad_file", path, error.strerror or str(error)) from error
    import tomllib  # noqa: PLC0415 - most have no such file, and every command starts here

    try:
        # Notepad puts a mark at the beginning
        said = tomllib.loads(raw.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ServerUnreachable("bad_file", path, str(error)) from error
    url, token, ca = said.pop("url", ""), said.pop("token", ""), said.pop("ca", "")
    wrong = next(iter(said), "")
    if not isinstance(url, str) or not _is_usable(url):
        wrong = "url"
    elif not isinstance(token, str) or not _is_sendable(token):
        wrong = "token"
    elif not isinstance(ca, str):
        wrong = "ca"
    if wrong:
        raise ServerUnreachable("bad_file", path, wrong)
    if token and others and os.name == "posix":  # Windows has no such bits
        raise ServerUnreachable("bad_mode", path)
    return Server(url.rstrip("/"), token or None, ca)


def _is_sendable(token: str) -> bool:
    """Whether a header can carry it."""
    return token.isascii() and token.isprintable()


def _is_alive(pid: int, owner: int) -> bool:
    """Whether a process of that account has this pid. Without /proc nobody can say: yes."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            is_zombie = file.read().rpartition(b")")[2].split()[0] == b"Z"
            return not is_zombie and os.fstat(file.fileno()).st_uid == owner
    except OSError:
        return not os.path.isdir("/proc/self")
