"""What a node has: simulated cards, processors, memory, disk. Real NVML: see integration."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

from stoker.runner import protocol
from stoker.runner.probe import Probe


def nobody(pid: int) -> str:
    raise AssertionError(f"asked for the part of {pid}")


def test_simulated_cards_are_listed_and_say_so() -> None:
    gpus, error = Probe(3).gpus()
    assert error == ""
    assert [gpu.index for gpu in gpus] == [0, 1, 2]
    assert {(gpu.model, gpu.memory_mib, gpu.simulated) for gpu in gpus} == {
        ("Simulated GPU", 24_576, True)
    }


def test_a_simulated_card_keeps_its_identity() -> None:
    four, again, two = (Probe(count).gpus()[0] for count in (4, 4, 2))
    assert four == again
    assert four[:2] == two
    assert len({gpu.uuid for gpu in four}) == 4
    assert all(gpu.uuid.startswith("SIM-") for gpu in four)


def test_simulated_cards_measure_nothing_and_have_no_processes(tmp_path: Path) -> None:
    probe = Probe(2)
    sample = probe.sample(str(tmp_path), nobody)
    assert [gpu.uuid for gpu in sample.gpus] == [gpu.uuid for gpu in probe.gpus()[0]]
    for gpu in sample.gpus:
        assert dataclasses.astuple(gpu)[1:] == (0, 0, None, None, [])


def test_a_sample_is_of_this_machine_now(tmp_path: Path) -> None:
    probe = Probe(1)
    before = time.time()
    sample = probe.sample(str(tmp_path), nobody)
    assert before <= sample.at <= time.time()
    assert sample.load1 >= 0
    assert 0 < sample.memory_available_mib <= probe.memory_mib()
    free = os.statvfs(tmp_path)
    # Others write meanwhile: the same order is enough.
    assert 0.5 < (sample.disk_free_mib + 1) / (free.f_bavail * free.f_frsize / 2**20 + 1) < 2
    assert protocol.read(protocol.line(sample)) == sample


def test_a_spool_that_is_gone_has_no_room(tmp_path: Path) -> None:
    assert Probe(1).sample(str(tmp_path / "gone"), nobody).disk_free_mib == 0


def test_processors_are_those_we_may_use() -> None:
    probe = Probe(0)
    all_of_them = os.sched_getaffinity(0)
    assert 1 <= probe.cpus() <= len(all_of_them)
    try:
        os.sched_setaffinity(0, {min(all_of_them)})
        assert probe.cpus() == 1
    finally:
        os.sched_setaffinity(0, all_of_them)


def test_memory_is_at_most_the_machines() -> None:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    assert 0 < Probe(0).memory_mib() <= pages + 1


def test_closing_is_harmless_before_and_after() -> None:
    probe = Probe(0)
    probe.close()
    probe.gpus()
    probe.close()
    probe.close()
