"""Deaths among tasks whose records are on PostgreSQL, the database's own included.

A sample: `make soak PART=crash-postgresql` runs the whole suite there.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from stoker.runner import killpoint
from tests.helpers.postgres import Postgres, postgres_server

from . import test_points
from .chaos import Chaos
from .conftest import MakeSite
from .harness import Site
from .server import wait_until
from .test_random import SEED


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    """A server that may be killed."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def its_site(make_site: MakeSite, database: Postgres) -> Site:
    return make_site(database=database.fresh())


@pytest.mark.parametrize("point", [killpoint.PLACED, killpoint.COLLECT])
def test_the_server_dies_around_a_commit(its_site: Site, point: str) -> None:
    test_points.test_death_at_a_point(its_site, point)


def test_a_few_random_kills(its_site: Site) -> None:
    print(f"STOKER_CRASH_SEED={SEED}")
    chaos = Chaos(its_site, SEED)
    chaos.run(8)
    its_site.judge()


def test_the_database_dies_while_tasks_run(its_site: Site, database: Postgres) -> None:
    """Nothing is accepted meanwhile; what ends meanwhile is recorded afterwards, by one server."""
    site = its_site
    ids = site.submit(
        {"command": site.witness.command(until=site.go, code=3), "gpus": 2},
        {"command": site.witness.command(20), "gpus": 4},
    )
    site.await_start(ids[0])
    database.stop(signal.SIGQUIT)
    site.server.hang_up()  # it may have grown tired of the connection
    try:
        wait_until(lambda: is_degraded(site), 15, "the server to notice by itself")
        assert site.submit_once({"command": site.witness.command(10)}) == 503
        site.go.touch()
    finally:
        database.start()
    site.judge()
    assert site.end_of(ids[0]).exit_code == 3
    assert site.server.starts == 1
    assert not (site.home / "stoker.db").exists()


def is_degraded(site: Site) -> bool:
    _, said = site.server.request("GET", "/health")
    return bool(said["status"] == "degraded")
