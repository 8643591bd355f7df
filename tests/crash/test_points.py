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

OF_THE_SERVER = (killpoint.PLACE, killpoint.PLACED, killpoint.COLLECT, killpoint.COLLECTED)
ON_THE_NODE = tuple(point for point in POINTS if point not in OF_THE_SERVER)


def _submit_some(site: Site) -> list[str]:
    command = site.witness.command
    return site.submit(
        {"command": command(60, code=3), "gpus": 2},
        {"command": command(30), "gpus": 2, "requeue_on_loss": True},
        {"command": command(30), "gpus": 4},
    )


@pytest.mark.parametrize("point", POINTS)
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
