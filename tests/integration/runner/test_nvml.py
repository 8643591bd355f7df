"""The real nvidia-ml-py in a process of its own, against our simulated libnvidia-ml.so.1."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.nvml import (
    DRIVER_NOT_LOADED,
    LOST,
    Card,
    SimulatedNvml,
    nvml,
    nvml_library,
    python_environ,
)

__all__ = ["nvml", "nvml_library"]  # fixtures

# Answers a question per line, as a runner does that has been up for days.
PROGRAM = """
import dataclasses, json, sys
from stoker.runner import nvml
from stoker.runner.probe import Probe
nvml._REOPEN_S = float(sys.argv[1])
probe = Probe(0)
for line in sys.stdin:
    if line == "gpus\\n":
        gpus, error = probe.gpus()
        answer = {"gpus": [dataclasses.asdict(gpu) for gpu in gpus], "error": error}
    else:
        parts = json.loads(line)
        answer = dataclasses.asdict(probe.sample("/", lambda pid: parts.get(str(pid), "")))
    print(json.dumps(answer), flush=True)
probe.close()
"""

FIRST = Card("GPU-aaaa", bus=0x1A)
SECOND = Card("GPU-bbbb", bus=0x3B)
THIRD = Card("GPU-cccc", bus=0xAF)


class Asking:
    """A process with a Probe in it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def gpus(self) -> dict[str, Any]:
        return self._ask("gpus")

    def sample(self, parts: dict[int, str] | None = None) -> dict[str, dict[str, Any]]:
        """By UUID."""
        answer = self._ask(json.dumps(parts or {}))
        return {gpu["uuid"]: gpu for gpu in answer["gpus"]}

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def asking(environ: dict[str, str], reopen_s: float = 60) -> Iterator[Asking]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(reopen_s)],
        env=python_environ(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Asking(process)
    assert process.returncode == 0


@pytest.fixture
def probe(nvml: SimulatedNvml) -> Iterator[Asking]:
    with asking(nvml.environ) as process:
        yield process


def test_cards_are_listed_in_pci_order_whatever_order_nvml_has(
    nvml: SimulatedNvml, probe: Asking
) -> None:
    far = Card("GPU-far", domain=1, bus=0x02, name="Tesla V100-SXM2-32GB", total_mib=32_768)
    nvml.show(far, THIRD, FIRST)
    listed = probe.gpus()
    assert listed["error"] == ""
    assert [(gpu["index"], gpu["uuid"]) for gpu in listed["gpus"]] == [
        (0, "GPU-aaaa"),
        (1, "GPU-cccc"),
        (2, "GPU-far"),
    ]
    assert listed["gpus"][2] == {
        "index": 2,
        "uuid": "GPU-far",
        "model": "Tesla V100-SXM2-32GB",
        "memory_mib": 32_768,
        "simulated": False,
    }


def test_a_sample_has_every_value_and_follows_the_cards(nvml: SimulatedNvml, probe: Asking) -> None:
    nvml.show(
        Card("GPU-aaaa", used_mib=1_500, utilisation=87, temperature_c=71, power_w=312),
    )
    sample = probe.sample()["GPU-aaaa"]
    assert (sample["memory_used_mib"], sample["utilisation"]) == (1_500, 87)
    assert (sample["temperature_c"], sample["power_w"]) == (71, 312)
    nvml.show(Card("GPU-aaaa", used_mib=3, utilisation=1))
    assert probe.sample()["GPU-aaaa"]["memory_used_mib"] == 3


def test_what_a_card_does_not_support_is_none_and_the_rest_is_there(
    nvml: SimulatedNvml, probe: Asking
) -> None:
    nvml.show(Card("GPU-aaaa", used_mib=9, utilisation=None, temperature_c=None, power_w=None))
    sample = probe.sample()["GPU-aaaa"]
    assert (sample["temperature_c"], sample["power_w"]) == (None, None)
    assert (sample["memory_used_mib"], sample["utilisation"]) == (9, 0)


def test_processes_are_named_with_owner_command_and_part(
    nvml: SimulatedNvml, probe: Asking
) -> None:
    me = os.getpid()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            compute = {sleeper.pid: 700, me: None}
            graphics = {sleeper.pid: 20, os.getppid(): 30}
            nvml.show(Card("GPU-aaaa", compute=compute, graphics=graphics))
            processes = probe.sample({sleeper.pid: "a1.0"})["GPU-aaaa"]["processes"]
        finally:
            sleeper.kill()
    account = pwd.getpwuid(os.getuid()).pw_name
    by_pid = {process["pid"]: process for process in processes}
    assert by_pid[sleeper.pid] == {
        "pid": sleeper.pid,
        "account": account,
        "memory_mib": 700,
        "part": "a1.0",
        "command": "sleep",
    }
    assert by_pid[me]["memory_mib"] == 0
    assert by_pid[me]["part"] == ""
    assert by_pid[os.getppid()]["memory_mib"] == 30
    assert len(by_pid) == len(processes) == 3


def test_a_process_that_cannot_be_seen_is_still_listed(nvml: SimulatedNvml, probe: Asking) -> None:
    nobody = 2**22 + 1  # above any pid_max
    nvml.show(Card("GPU-aaaa", compute={nobody: 55}))
    assert probe.sample()["GPU-aaaa"]["processes"] == [
        {"pid": nobody, "account": "", "memory_mib": 55, "part": "", "command": ""}
    ]


def test_a_lost_card_leaves_the_others_and_their_indices(
    nvml: SimulatedNvml, probe: Asking
) -> None:
    nvml.show(FIRST, SECOND, THIRD)
    assert set(probe.sample()) == {"GPU-aaaa", "GPU-bbbb", "GPU-cccc"}
    nvml.show(FIRST, Card("GPU-bbbb", bus=0x3B, error=LOST), THIRD)
    for _ in range(3):
        assert set(probe.sample()) == {"GPU-aaaa", "GPU-cccc"}
    listed = probe.gpus()
    assert [(gpu["index"], gpu["uuid"]) for gpu in listed["gpus"]] == [
        (0, "GPU-aaaa"),
        (2, "GPU-cccc"),
    ]
    assert listed["error"] == ""


def test_a_card_that_cannot_be_looked_up_keeps_its_place(
    nvml: SimulatedNvml, probe: Asking
) -> None:
    nvml.show(Card("GPU-aaaa", bus=0x1A, handle_error=LOST), SECOND)
    assert [(gpu["index"], gpu["uuid"]) for gpu in probe.gpus()["gpus"]] == [(1, "GPU-bbbb")]


def test_cards_come_back(nvml: SimulatedNvml, probe: Asking) -> None:
    nvml.show(Card("GPU-aaaa", error=LOST))
    assert probe.gpus() == {"gpus": [], "error": "GPU is lost"}
    assert probe.sample() == {}
    nvml.show(Card("GPU-aaaa"))
    assert len(probe.gpus()["gpus"]) == 1
    assert set(probe.sample()) == {"GPU-aaaa"}


def test_a_lost_card_that_was_reset_is_seen_again_by_samples_alone(nvml: SimulatedNvml) -> None:
    with asking(nvml.environ, reopen_s=0) as probe:
        nvml.show(FIRST, SECOND)
        assert set(probe.sample()) == {"GPU-aaaa", "GPU-bbbb"}
        nvml.show(FIRST, Card("GPU-bbbb", bus=0x3B, handle_error=LOST, error=LOST))
        for _ in range(4):
            assert set(probe.sample()) == {"GPU-aaaa"}
        nvml.show(FIRST, SECOND)
        probe.sample()  # finds that it is time to look anew
        assert set(probe.sample()) == {"GPU-aaaa", "GPU-bbbb"}


def test_a_restarted_driver_is_noticed_by_samples_alone(nvml: SimulatedNvml, probe: Asking) -> None:
    nvml.show(FIRST)
    assert set(probe.sample()) == {"GPU-aaaa"}
    nvml.show(init_error=DRIVER_NOT_LOADED)
    assert probe.sample() == probe.sample() == {}
    nvml.show(FIRST, SECOND)
    assert set(probe.sample()) == {"GPU-aaaa", "GPU-bbbb"}


def test_a_driver_that_is_not_loaded_says_so(nvml: SimulatedNvml, probe: Asking) -> None:
    nvml.show(init_error=DRIVER_NOT_LOADED)
    assert probe.gpus() == {"gpus": [], "error": "Driver Not Loaded"}


def test_no_card_is_not_an_error(probe: Asking) -> None:
    assert probe.gpus() == {"gpus": [], "error": ""}


def test_without_the_library_nvml_says_why(tmp_path: Path) -> None:
    # A file that is no library hides a real one, should this machine have it.
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")
    with asking({"LD_LIBRARY_PATH": str(tmp_path)}) as probe:
        assert probe.gpus() == {"gpus": [], "error": "NVML Shared Library Not Found"}
        assert probe.sample() == {}
