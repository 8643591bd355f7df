"""Which database is meant, and which are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from stoker.domain.errors import StoreError
from stoker.store import database


def test_a_path_means_sqlite_even_when_it_looks_odd() -> None:
    url = database.as_url("/var/lib/a b?c#d%/stoker.db")

    assert (url.get_backend_name(), url.database) == ("sqlite", "/var/lib/a b?c#d%/stoker.db")


def test_a_url_is_taken_as_it_is() -> None:
    assert database.as_url("postgresql://db/stoker").get_backend_name() == "postgresql"


def test_a_database_we_do_not_know_is_refused_by_name() -> None:
    with pytest.raises(StoreError) as refused:
        database.open_engine(sa.make_url("mysql://db/stoker"))

    assert (refused.value.code, refused.value.values) == (
        "unsupported_database",
        {"name": "mysql"},
    )


def test_a_network_disk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "network_filesystem", lambda path: "nfs4")

    with pytest.raises(StoreError) as refused:
        database.refuse_network_disk(Path("/home/ana/stoker.db"))

    assert refused.value.code == "network_disk"
    assert refused.value.values == {"home": "/home/ana", "kind": "nfs4"}


def test_a_url_of_postgresql_means_our_driver() -> None:
    for text in ("postgresql://ana:x@db/stoker", "postgres://ana:x@db/stoker"):
        assert database.as_url(text).drivername == "postgresql+psycopg"
    url = database.as_url("postgresql://ana@%2Frun%2Fpostgresql/stoker")
    assert url.host == "/run/postgresql"


def test_sqlite_does_without_the_driver_of_postgresql() -> None:
    program = (
        "import sys; import stoker.bootstrap, stoker.store.recorder as r, tempfile;"
        "r.open_store(tempfile.mkdtemp() + '/stoker.db').close();"
        "sys.exit('psycopg' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
