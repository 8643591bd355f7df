"""For every test: in CI a skip is a failure, unless tests/unavailable.toml names the capability.

And databases: a file, or one of the session's own PostgreSQL.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.postgres import Postgres, postgres_server

DATABASE = os.environ.get("STOKER_TEST_DATABASE", "sqlite")
"""Where the suites that run on one database only (fuzz, crash) have their records."""
DATABASES = ("sqlite", "postgresql")
UNAVAILABLE = tomllib.loads((Path(__file__).parent / "unavailable.toml").read_text())

settings.register_profile(
    "stoker",
    max_examples=int(os.environ.get("STOKER_EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("stoker")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(capability in why for capability in UNAVAILABLE["capabilities"]):
            report.outcome = "failed"
            report.longrepr = f"skipped in CI: {why}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Large counts run only when asked for with `-m soak`; what is about SQLite, on SQLite."""
    not_now = [] if "soak" in str(config.getoption("-m")) else ["soak"]
    not_now += [] if DATABASE == "sqlite" else ["about_sqlite"]
    left = [item for item in items if any(map(item.get_closest_marker, not_now))]
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=left)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The session's own server. Hundreds of databases are made and emptied; no power is cut."""
    with postgres_server(fsync=False) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """A database with the present schema and nothing in it."""
    url = postgres.fresh()
    yield url
    postgres.give_back(url)


def database_of(request: pytest.FixtureRequest, kind: str, folder: Path) -> str | Path:
    """Where records of this kind are to be: what `open_store` takes."""
    if kind == "sqlite":
        return folder / "stoker.db"
    url: str = request.getfixturevalue("postgres_url")
    return url
