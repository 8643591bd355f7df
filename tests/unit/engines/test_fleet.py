"""The fleet after a restart: what was on its way is ordered as it was."""

from __future__ import annotations

from unittest.mock import Mock

from stoker.domain.lifecycle import State
from stoker.engines.base import LiveAttempt
from stoker.engines.fleet.engine import FleetEngine
from tests.helpers.builders import NOON, a_spec
from tests.unit.engines.test_link import an_attempt


async def test_what_had_not_begun_is_ordered_for_the_same_account() -> None:
    attempt = an_attempt()
    node = attempt.allocation.node
    engine = FleetEngine({node: Mock()})
    live = LiveAttempt(
        attempt=attempt,
        state=State.STARTING,
        spec=a_spec(),
        owner="ana",
        account="ana-unix",
        submitted_at=NOON,
    )
    engine.reconcile([live])
    order = engine.links[node].expected[attempt.id].order
    assert order is not None
    assert (order.owner, order.account) == ("ana", "ana-unix")
