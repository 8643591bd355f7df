"""What is read from a trace, and the made-up day."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.trace.__main__ import main
from bench.trace.alibaba import NoTrace, Trace, read, understood
from bench.trace.lab import the_day

NODES = [
    {"sn": "n0", "cpu_milli": "64000", "memory_mib": "262144", "gpu": "2", "model": "P100"},
    {"sn": "n1", "cpu_milli": "96000", "memory_mib": "393216", "gpu": "8", "model": "G2"},
]


def a_pod(name: str = "openb-pod-0007", **more: str) -> dict[str, str]:
    return {
        "name": name,
        "cpu_milli": "6500",
        "memory_mib": "12288",
        "num_gpu": "1",
        "gpu_milli": "1000",
        "gpu_spec": "",
        "qos": "LS",
        "creation_time": "100",
        "deletion_time": "400",
        "scheduled_time": "160",
    } | more


def of(*pods: dict[str, str]) -> Trace:
    return understood(NODES, pods)


def test_a_pod_becomes_a_job() -> None:
    (job,) = of(a_pod()).jobs
    assert (job.at, job.runs_s) == (100, (240,))
    assert (job.needs.gpus, job.needs.cpus, job.needs.memory_mib) == (1, 7, 12_288)
    assert job.needs.mode == "exclusive"


def test_a_part_of_a_card_is_that_part_of_the_most_common_card_it_may_use() -> None:
    anywhere, there = of(a_pod(gpu_milli="500"), a_pod(gpu_milli="500", gpu_spec="P100")).jobs
    assert anywhere.needs.gpu_memory_mib == 12_288
    assert (there.needs.gpu_memory_mib, there.needs.models) == (8_192, ("P100",))
    assert anywhere.needs.mode == there.needs.mode == "shared"


def test_models_are_any_of() -> None:
    (job,) = of(a_pod(gpu_spec="V100M32|G2")).jobs
    assert job.needs.models == ("G2", "V100M32")


def test_a_pod_without_cards_asks_for_no_model() -> None:
    (job,) = of(a_pod(num_gpu="0", gpu_milli="0", gpu_spec="G2")).jobs
    assert (job.needs.gpus, job.needs.models, job.needs.mode) == (0, (), "exclusive")


def test_half_of_them_have_a_time_limit_of_one_and_a_half_times_their_run() -> None:
    jobs = of(*(a_pod(f"openb-pod-{number:04}") for number in range(400))).jobs
    limits = [job.limit_s for job in jobs]
    assert 150 < limits.count(360) < 250
    assert limits.count(None) == 400 - limits.count(360)
    assert {job.owner for job in jobs} == {job.owner for job in jobs[::10]}


def test_what_never_ran_and_what_fits_nowhere_is_left_out_and_said() -> None:
    trace = of(a_pod(), a_pod(scheduled_time=""), a_pod(num_gpu="8"))
    assert (trace.unscheduled, len(trace.jobs)) == (1, 2)
    assert len(trace.load(1).jobs) == 2
    small = trace.load(2)
    assert (len(small.nodes), len(small.jobs)) == (1, 1)
    assert "1 that were never scheduled, 1 that fit on none" in small.about


def test_a_folder_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoTrace):
        read(Path("/nowhere"))
    assert main(["/nowhere"]) == 2
    assert "there is no folder /nowhere" in capsys.readouterr().err


def test_the_day_is_the_same_every_day() -> None:
    day = the_day()
    assert day == the_day()
    assert (len(day.nodes), day.cards) == (12, 96)
    assert [job.at for job in day.jobs] == sorted(job.at for job in day.jobs)
    whole = [job for job in day.jobs if job.needs.gpus == 8]
    assert whole
    assert all(job.limit_s is None for job in whole)
    assert any(job.is_array for job in day.jobs)
