"""Samples say whose processes use a card; a driver that hangs delays no launch."""

from __future__ import annotations

import os

from stoker.runner.protocol import Sample
from tests.helpers.nvml import Card, SimulatedNvml, nvml, nvml_library
from tests.helpers.runner_client import wait_until
from tests.integration.runner.conftest import StartRunner

__all__ = ["nvml", "nvml_library"]


def test_processes_are_told_apart_and_a_hanging_driver_delays_nobody(
    start_runner: StartRunner, nvml: SimulatedNvml
) -> None:
    nvml.show(Card("GPU-a"))
    client = start_runner(env=nvml.environ).client()
    assert client.hello is not None
    assert [gpu.uuid for gpu in client.hello.gpus] == ["GPU-a"]
    launch = client.launch(shell="env -i setsid sleep 100 & echo $!; wait")
    log = client.runner.spool / f"{launch.attempt}.0.log"
    client.state(launch, "running")
    daemon = int(wait_until(lambda: log.read_text().splitlines()[1:2])[0])

    nvml.show(Card("GPU-a", used_mib=300, compute={daemon: 100, os.getpid(): 200}))

    sample = client.expect(Sample, lambda sample: bool(sample.gpus[0].processes))
    assert {one.pid: one.part for one in sample.gpus[0].processes} == {
        daemon: f"{launch.attempt}.0",
        os.getpid(): "",
    }

    nvml.state.unlink()
    os.mkfifo(nvml.state)
    wait_until(lambda: has_reader(nvml), "the probe's question")
    quick = client.launch("true")
    end = client.ended(quick, within_s=5).exit
    assert end is not None
    assert end.code == 0


def has_reader(nvml: SimulatedNvml) -> bool:
    """Whether somebody waits for an answer; keeps them waiting."""
    try:
        os.open(nvml.state, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    return True
