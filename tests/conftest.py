"""For every test: in CI a skip is a failure, unless tests/unavailable.toml names the capability."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

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
    """Large counts run only when asked for with `-m soak`."""
    if "soak" in str(config.getoption("-m")):
        return
    soak = [item for item in items if item.get_closest_marker("soak")]
    items[:] = [item for item in items if item not in soak]
    config.hook.pytest_deselected(items=soak)
