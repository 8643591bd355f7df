"""Same seed, same history: in one process, and in another one with other hash values."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .simulation import run

ROOT = Path(__file__).resolve().parents[2]
FINGERPRINT = """
from tests.simulation.simulation import run
print(run({seed}).fingerprint)
"""


@pytest.mark.parametrize("seed", [0, 4, 5, 8])
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    first = run(seed)
    again = run(seed)
    assert again.lines == first.lines
    assert _in_another_process(seed) == first.fingerprint


def test_another_seed_gives_another_history() -> None:
    assert run(1).fingerprint != run(2).fingerprint


def _in_another_process(seed: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", FINGERPRINT.format(seed=seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
