"""One server for a module that does not need its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from stoker.engines.base import LaunchOrder
from stoker.engines.fake import Behaviour
from tests.helpers.api_server import ApiServer, serving


def by_name(order: LaunchOrder) -> Behaviour:
    """A task called `forever` runs until it is stopped; any other ends at once, saying its name."""
    if order.spec.name == "forever":
        return Behaviour(run_for_s=None)
    return Behaviour(output=order.spec.name.encode())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with serving(tmp_path_factory.mktemp("home"), by_name) as running:
        yield running


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ApiServer]:
    """For tests that stop it, break it, or count everything in it."""
    with serving(tmp_path, by_name) as running:
        yield running


@pytest.fixture(scope="module")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with serving(tmp_path_factory.mktemp("lab"), by_name, is_lab=True) as running:
        yield running


@pytest.fixture
def lab(running_lab: ApiServer) -> ApiServer:
    """A lab on another day: nobody remembers how often somebody failed to log in."""
    running_lab.clock.ahead += timedelta(days=2)
    return running_lab
