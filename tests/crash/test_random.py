"""Random kills of every kind of process, among tasks of every kind. The seed is printed."""

from __future__ import annotations

import os
import secrets

import pytest

from .chaos import Chaos
from .harness import POINTS, Site

SEED = int(os.environ.get("STOKER_CRASH_SEED", "0")) or secrets.randbelow(1 << 31)


@pytest.mark.timeout(180)
def test_sixty_random_kills(site: Site) -> None:
    print(f"STOKER_CRASH_SEED={SEED}")
    chaos = Chaos(site, SEED)
    chaos.run(60)
    site.judge()
    print(chaos.table())


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_a_thousand_random_kills(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Judged as one history, so that every promise is kept over all of it."""
    with capsys.disabled():
        print(f"\nSTOKER_CRASH_SEED={SEED}")
    chaos = Chaos(site, SEED)
    try:
        chaos.run(int(os.environ.get("STOKER_CRASH_KILLS", "1000")))
        site.judge()
    finally:
        with capsys.disabled():
            print(chaos.table())
    for point in POINTS:
        assert chaos.deaths[f"at {point}"], f"nobody died at {point}"
