"""The certificate: what is refused, and what a change of its files does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trustme

from stoker.api.tls import Certificate, names_of
from stoker.domain.errors import AppError


class Files:
    def __init__(self, folder: Path, name: str = "gpu.lab.example") -> None:
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        self.write(name)

    def write(self, name: str) -> None:
        issued = trustme.CA().issue_cert(name, "*.lab.example")
        self.cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        self.key.write_bytes(issued.private_key_pem.bytes())


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_it_knows_its_names(files: Files) -> None:
    certificate = Certificate(files.cert, files.key)

    assert certificate.names == ("gpu.lab.example",)
    assert certificate.refresh() is False


def test_new_files_are_taken(files: Files) -> None:
    certificate = Certificate(files.cert, files.key)
    before = certificate.context

    files.write("other.lab.example")

    assert certificate.refresh() is True
    assert certificate.context is before, "the server goes on with the same context"
    assert certificate.refresh() is False


def test_half_a_renewal_changes_nothing(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    certificate = Certificate(files.cert, files.key)
    key = files.key.read_bytes()
    files.write("other.lab.example")
    new = files.key.read_bytes()
    files.key.write_bytes(key)

    assert certificate.refresh() is False
    assert "certificate_unusable" in caplog.text

    files.key.write_bytes(new)
    os.utime(files.key, ns=(1, 1))
    assert certificate.refresh() is True


def test_a_file_that_is_gone_changes_nothing(files: Files) -> None:
    certificate = Certificate(files.cert, files.key)
    files.cert.unlink()

    assert certificate.refresh() is False


@pytest.mark.parametrize("harm", ["missing", "not pem", "of another"])
def test_what_cannot_be_used_is_refused_at_the_start(
    files: Files, tmp_path: Path, harm: str
) -> None:
    match harm:
        case "missing":
            files.key.unlink()
        case "not pem":
            files.cert.write_text("hello")
        case _:
            files.key.write_bytes(trustme.CA().issue_cert("x.example").private_key_pem.bytes())

    with pytest.raises(AppError) as refused:
        Certificate(files.cert, files.key)

    assert refused.value.code == "tls_unusable"


def test_no_names_where_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")

    assert names_of(tmp_path / "x") == ()
    assert names_of(tmp_path / "y") == ()
