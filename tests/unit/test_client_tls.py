"""A server's certificate is believed only if somebody vouches for it."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from typing_extensions import override

from stoker.client import Client, ServerUnreachable
from stoker.client.find import Server, written
from stoker.client.saved import save


class Nodes(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


class Quiet(http.server.ThreadingHTTPServer):
    @override
    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that hung up while shaking hands


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def url(authority: trustme.CA) -> Iterator[str]:
    server = Quiet(("127.0.0.1", 0), Nodes)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.fixture
def ca(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "lab ca 证书.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STOKER_URL", "STOKER_TOKEN", "STOKER_CA", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_nobody_vouches_for_it(url: str) -> None:
    with pytest.raises(ServerUnreachable) as found:
        Client(url, "stk_secret").nodes()
    assert found.value.why == "bad_certificate"
    assert "Nobody vouches for the certificate" in str(found.value)
    assert "STOKER_CA" in str(found.value)


def test_an_authority_that_was_named(
    url: str, ca: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Client(url, "stk_secret", ca=ca).nodes() == []
    save(str(home), Server(url, "stk_secret", str(ca)))
    assert Client().nodes() == []
    assert Client(url).nodes() == []
    with pytest.raises(ServerUnreachable):  # it is the authority of that server only
        Client(url.replace("127.0.0.1", "localhost"), "stk_secret").nodes()
    monkeypatch.setenv("STOKER_CA", str(ca))
    assert Client(url, "stk_secret").nodes() == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_authority_that_is_none(url: str, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ServerUnreachable) as found:
        Client(url, "stk_secret", ca=path).nodes()
    assert found.value.why == "bad_ca"
    assert str(path) in str(found.value)


def test_what_is_saved_is_read_again(home: Path, ca: Path) -> None:
    server = Server("https://gpu.lab:7433", 'stk_"quoted\\', str(ca))
    path = Path(save(str(home), server))
    assert written(str(home)) == server
    assert path.stat().st_mode & 0o777 == 0o600
    save(str(home), server._replace(token=None, ca=""))
    assert path.read_text() == 'url = "https://gpu.lab:7433"\n'
    assert [one.name for one in home.iterdir()] == ["client.toml"]
