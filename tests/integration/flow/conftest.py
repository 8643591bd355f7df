"""The real flow and store over the fake engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from stoker.domain.node import Node
from stoker.engines.base import LaunchOrder
from stoker.engines.fake import Behaviour, FakeEngine
from stoker.flow.context import Flow
from tests.helpers.builders import a_node
from tests.helpers.flows import running_flow

Behave = Callable[[LaunchOrder], Behaviour]


@pytest.fixture
async def flow(tmp_path: Path) -> AsyncIterator[Flow]:
    """One node with four cards; tasks run until told."""
    async with running_flow(tmp_path, waiting_engine()) as flow:
        yield flow


@pytest.fixture
def restart(tmp_path: Path) -> Callable[[FakeEngine], object]:
    """Another server on the same records and the same engine."""
    return lambda engine: running_flow(tmp_path, engine)


def waiting_engine(*nodes: Node) -> FakeEngine:
    """Tasks run until told."""
    return FakeEngine(nodes or [a_node()], lambda _: Behaviour(run_for_s=None, output=b"hello\n"))
