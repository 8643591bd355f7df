"""Every labelled point of PROTOCOL, once with a death and, on the node, once with a pause.

A point that nobody reached fails its test: a label that moved away from its place in the code would
otherwise make the suite quietly weaker.
"""

from __future__ import annotations

import signal

import pytest

from stoker.runner import killpoint

from .harness import POINTS, Site
from .server import wait_until

OF_LIMITS = (killpoint.EXTENDED, killpoint.LIMITED)
"""Nobody comes there unless a person gives a task another limit."""
OF_THE_SERVER = (
    killpoint.PLACE,
    killpoint.PLACED,
    killpoint.COLLECT,
    killpoint.COLLECTED,
    killpoint.EXTENDED,
)
ON_THE_NODE = tuple(point for point in POINTS if point not in OF_THE_SERVER)


def _submit_some(site: Site) -> list[str]:
    command = site.witness.command
    return site.submit(
        {"command": command(60, code=3), "gpus": 2},
        {"command": command(30), "gpus": 2, "requeue_on_loss": True},
        {"command": command(30), "gpus": 4},
    )


def _extend_one(site: Site) -> str:
    """A task that would reach its limit, if nobody heard that it has another one now."""
    (id,) = site.submit({"command": site.witness.command(5000), "time_limit_s": 4})
    site.await_start(id)
    assert site.extend(id, time_limit_s=60)
    return id


@pytest.mark.parametrize("point", OF_LIMITS)
def test_death_at_a_point_of_limits(site: Site, point: str) -> None:
    site.revive()
    armed = site.arm(point)
    id = _extend_one(site)
    wait_until(lambda: not armed.exists(), 5, f"somebody to die at {point}")
    site.judge()
    assert site.seen(point), f"nobody came to {point}"
    assert site.end_of(id).outcome == "succeeded", "it was given more time"


@pytest.mark.parametrize("point", [point for point in POINTS if point not in OF_LIMITS])
def test_death_at_a_point(site: Site, point: str) -> None:
    site.revive()
    armed = site.arm(point)
    _submit_some(site)
    site.judge()
    wait_until(lambda: not armed.exists(), 5, f"somebody to die at {point}")
    assert site.seen(point), f"nobody came to {point}"


@pytest.mark.parametrize("point", ON_THE_NODE)
def test_pause_at_a_point(site: Site, point: str) -> None:
    """While it is paused the server dies, comes back, and asks the node again."""
    site.revive()
    armed = site.arm(point, pause=True)
    if point in OF_LIMITS:
        _extend_one(site)
    else:
        _submit_some(site)
    wait_until(lambda: not armed.exists() and site.stopped(), 10, f"a pause at {point}")
    (paused,) = site.stopped()
    if paused.kind == "runner":
        site.submit({"command": site.witness.command(20)})
    else:
        site.server.kill()
        site.revive()
    paused.signal(signal.SIGCONT)
    site.judge()
    assert site.seen(point), f"nobody came to {point}"
