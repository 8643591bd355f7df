"""No server, no settings and English, whoever runs the tests."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.cli import test_shown


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    foreign = ("STOKER_", "LC_", "LANG", "VIRTUAL_ENV", "CONDA_")
    for name in [name for name in os.environ if name.startswith(foreign)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def _just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages say how long ago something was, and modules were imported when the run began."""
    monkeypatch.setattr(test_shown, "NOW", datetime.now(UTC))
