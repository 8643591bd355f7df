"""A standby takes over from a server that dies, many times in one history. The seed is printed."""

from __future__ import annotations

import os
import sqlite3

import psycopg
import pytest

from .conftest import MakeSite
from .harness import Site
from .takeover import Takeovers
from .test_random import SEED

ROUNDS = int(os.environ.get("STOKER_TAKEOVERS", "20"))


@pytest.fixture(params=["sqlite", "postgresql"])
def its_site(request: pytest.FixtureRequest, make_site: MakeSite) -> Site:
    if request.param == "postgresql":
        return make_site(database=request.getfixturevalue("postgres").fresh())
    return make_site()


@pytest.mark.timeout(120)
def test_a_few_takeovers(its_site: Site) -> None:
    take_over(its_site, 4)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_many_takeovers(its_site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{take_over(its_site, ROUNDS)}")


def take_over(site: Site, rounds: int) -> str:
    print(f"STOKER_CRASH_SEED={SEED}")
    takeovers = Takeovers(site, SEED)
    takeovers.take_over(rounds)
    site.judge()
    assert epoch_of(site) > rounds, "every server raises it"
    return f"  {site.server.takeovers} takeovers of {rounds}\n{takeovers.table()}"


def epoch_of(site: Site) -> int:
    question = "SELECT value FROM meta WHERE key = 'epoch'"
    if isinstance(site.database, str):  # a URL
        with psycopg.connect(site.database) as db:
            (row,) = db.execute(question).fetchall()
    else:
        with sqlite3.connect(site.database) as file:
            (row,) = file.execute(question).fetchall()
        file.close()
    return int(row[0])
