"""Simulated cards behind the real nvidia-ml-py: a C library of ours, driven by a state file.

Import the fixtures where they are used: `from tests.helpers.nvml import nvml, nvml_library`.
A process started with `nvml.environ` in its environment loads our libnvidia-ml.so.1; what it sees
changes with each `nvml.show(...)`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

LOST = 15
"""NVML_ERROR_GPU_IS_LOST."""
DRIVER_NOT_LOADED = 9


@dataclass(frozen=True)
class Card:
    """A card as NVML shall list it. None = not supported by the card."""

    uuid: str
    bus: int = 0x3B
    domain: int = 0
    name: str = "NVIDIA GeForce RTX 4090"
    total_mib: int | None = 24_564
    used_mib: int = 0
    utilisation: int | None = 0
    temperature_c: int | None = 40
    power_w: int | None = 30
    compute: Mapping[int, int | None] = field(default_factory=dict)
    """pid to MiB."""
    graphics: Mapping[int, int | None] = field(default_factory=dict)
    error: int = 0
    """Answered to every question about the card."""
    handle_error: int = 0
    """Answered when the card is looked up."""


@dataclass(frozen=True)
class SimulatedNvml:
    """The library and its state file."""

    library: Path
    state: Path

    @property
    def environ(self) -> dict[str, str]:
        """What a process needs in its environment to see these cards."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "NVML_STATE": str(self.state)}

    def show(self, *cards: Card, init_error: int = 0) -> None:
        """Change what every process sees from now on. Atomic."""
        lines = [f"init {init_error}"]
        for card in cards:
            lines.append(_line(card))
            lines += [f"compute {pid} {_number(mib)}" for pid, mib in card.compute.items()]
            lines += [f"graphics {pid} {_number(mib)}" for pid, mib in card.graphics.items()]
        draft = self.state.with_suffix(".new")
        draft.write_text("\n".join(lines) + "\n")
        draft.replace(self.state)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our libnvidia-ml.so.1, compiled once per session."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).parent / "libnvidia-ml.c"
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([compiler, *flags, "-o", library, source], check=True, timeout=60)
    return library


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path) -> SimulatedNvml:
    """A node with no cards yet: `show` some."""
    simulated = SimulatedNvml(nvml_library, tmp_path / "nvml.state")
    simulated.show()
    return simulated


def python_environ(extra: Mapping[str, str]) -> dict[str, str]:
    """An environment for a Python that imports the package under test."""
    source = str(Path(__file__).parents[3] / "src")
    return {**os.environ, "PYTHONPATH": source, **extra}


def _line(card: Card) -> str:
    values = [card.total_mib, card.used_mib, card.utilisation, card.temperature_c, card.power_w]
    numbers = " ".join(_number(value) for value in values)
    place = f"{card.domain:x} {card.bus:x} 0"
    return f"gpu {card.handle_error} {card.error} {place} {numbers} {card.uuid} {card.name}"


def _number(value: int | None) -> str:
    return "-1" if value is None else str(value)
