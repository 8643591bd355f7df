"""Which database is meant, and which are refused."""

from __future__ import annotations

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
