"""TLS as an admin sets it up: served by a given certificate, which is renewed without a restart."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from pathlib import Path

import trustme

from .conftest import PATIENCE_S, Stoker


def test_a_renewed_certificate_needs_no_restart(own: Stoker) -> None:
    old, new = trustme.CA(), trustme.CA()
    cert, key = own.folder / "cert.pem", own.folder / "key.pem"
    issue(old, cert, key)
    own.env |= {"STOKER_TLS_CERT": str(cert), "STOKER_TLS_KEY": str(key)}
    own.env["STOKER_CA"] = str(own.folder / "trusted.pem")  # an authority of the lab's own
    old.cert_pem.write_to_path(own.env["STOKER_CA"])
    port = free_port()

    up = own("up", "--detach", "--listen", f"127.0.0.1:{port}")

    assert f"https://localhost:{port}" in up.stdout
    listed = own("nodes")
    assert listed.stdout
    status, headers = ask(port, old)
    assert status == 200
    assert headers["Strict-Transport-Security"] == "max-age=31536000"
    pid = own.server_pid

    issue(new, cert, key)
    new.cert_pem.write_to_path(own.env["STOKER_CA"])

    deadline = time.monotonic() + PATIENCE_S
    while not is_trusted(port, new):
        assert time.monotonic() < deadline, "the new certificate was not taken"
        time.sleep(0.1)
    assert own.server_pid == pid


def test_other_machines_are_not_served_in_clear(own: Stoker) -> None:
    refused = own("up", "--listen", "0.0.0.0:0", code=2)

    assert "passwords and tokens could be read" in refused.stderr
    assert "plain_http" in refused.stderr


def issue(ca: trustme.CA, cert: Path, key: Path) -> None:
    issued = ca.issue_cert("localhost")
    cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())


def context(ca: trustme.CA) -> ssl.SSLContext:
    made = ssl.create_default_context()
    ca.configure_trust(made)
    return made


def ask(port: int, ca: trustme.CA) -> tuple[int, http.client.HTTPMessage]:
    connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context(ca))
    try:
        connection.request("GET", "/api/v1/version")
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers
    finally:
        connection.close()


def is_trusted(port: int, ca: trustme.CA) -> bool:
    try:
        return ask(port, ca)[0] == 200
    except ssl.SSLCertVerificationError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
