"""Reads the Alibaba GPU trace of 2023 (`alibaba/clusterdata`, cluster-trace-gpu-v2023) from a folder.

Two files: `*node_list*.csv` (sn, cpu_milli, memory_mib, gpu, model) and `*pod_list*.csv` (name,
cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, creation_time, deletion_time,
scheduled_time). They are read where they are and never copied. What the trace does not say is made
up in the same way every time:

- a pod runs for (deletion - scheduled) seconds; one that was never scheduled is left out;
- gpu_milli < 1000 is mode shared with that fraction of the memory of the most common model it may
  use; the memory of a card goes by its model (G2 and G3 are not told: 24 and 80 GiB);
- owners: 30, by a hash of the quality of service and of ten pods that follow each other;
- every second pod (by a hash of its name) has a time limit, of 1.5 times what it really runs.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from stoker.domain.node import Gpu, Node
from stoker.domain.queue import Queue
from stoker.scheduler.fit import never_fits
from stoker.scheduler.needs import Needs
from stoker.scheduler.room import Room

from .load import Job, Load

OWNERS = 30
NEIGHBOURS = 10
MEMORY_MIB = {
    "P100": 16_384,
    "T4": 16_384,
    "V100M16": 16_384,
    "V100M32": 32_768,
    "A10": 24_576,
    "G2": 24_576,
    "G3": 81_920,
}
Row = dict[str, str]


class NoTrace(Exception):
    """The folder, or a file in it, is not there."""


class Trace(NamedTuple):
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    unscheduled: int
    """Pods that were left out because they never ran."""

    def load(self, every: int) -> Load:
        """On every so manieth node. What could run on none of those is left out, and counted."""
        nodes = self.nodes[::every]
        rooms = {node.name: Room(node) for node in nodes}
        possible = {
            needs: never_fits(needs, rooms, Queue(name="default")) is None
            for needs in {job.needs for job in self.jobs}
        }
        jobs = tuple(job for job in self.jobs if possible[job.needs])
        part = "all nodes" if every == 1 else f"1 of {every} nodes"
        load = Load(f"trace, {part}", "", nodes, jobs)
        return load._replace(
            about=f"{len(jobs):,} pods on {len(nodes):,} nodes with {load.cards:,} cards; left out:"
            f" {self.unscheduled:,} that were never scheduled,"
            f" {len(self.jobs) - len(jobs):,} that fit on none of these nodes"
        )


def read(folder: Path) -> Trace:
    """Raises NoTrace."""
    return understood(_rows(folder, "*node_list*.csv"), _rows(folder, "*pod_list*.csv"))


def understood(nodes: Iterable[Row], pods: Iterable[Row]) -> Trace:
    """What the rows of the two files say."""
    known = tuple(_node(row) for row in nodes)
    models = Counter(gpu.model for node in known for gpu in node.gpus)
    jobs, unscheduled = [], 0
    for row in pods:
        if row["scheduled_time"]:
            jobs.append(_job(row, models))
        else:
            unscheduled += 1
    return Trace(known, tuple(sorted(jobs, key=lambda job: job.at)), unscheduled)


def _rows(folder: Path, pattern: str) -> list[Row]:
    if not folder.is_dir():
        raise NoTrace(f"there is no folder {folder}")
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise NoTrace(f"there should be one {pattern} in {folder}, there are {len(found)}")
    with found[0].open(newline="") as file:
        return list(csv.DictReader(file))


def _node(row: Row) -> Node:
    name, model = row["sn"], row["model"]
    memory = MEMORY_MIB.get(model, 16_384)
    return Node(
        name=name,
        cpus=int(row["cpu_milli"]) // 1000,
        memory_mib=int(row["memory_mib"]),
        gpus=tuple(Gpu(n, f"{name}-{n}", model, memory) for n in range(int(row["gpu"]))),
    )


def _job(row: Row, models: Counter[str]) -> Job:
    name, created = row["name"], _seconds(row["creation_time"])
    runs = max(1, _seconds(row["deletion_time"]) - _seconds(row["scheduled_time"]))
    number = int(name.rpartition("-")[2]) // NEIGHBOURS
    owner = crc32(f"{row['qos']} {number}".encode()) % OWNERS
    limited = crc32(name.encode()) % 2 == 0
    return Job(
        at=created,
        owner=f"owner-{owner:02}",
        needs=_needs(row, models),
        runs_s=(runs,),
        limit_s=runs * 3 // 2 if limited else None,
    )


def _needs(row: Row, models: Counter[str]) -> Needs:
    wanted = tuple(sorted(filter(None, row["gpu_spec"].split("|"))))
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    shared = gpus > 0 and milli < 1000
    share = 0
    if shared:
        common = max(wanted or models, key=lambda model: (models[model], model))
        share = max(1, MEMORY_MIB.get(common, 16_384) * milli // 1000)
    return Needs(
        gpus=gpus,
        cpus=-(-int(row["cpu_milli"]) // 1000),
        memory_mib=int(row["memory_mib"]),
        models=wanted if gpus else (),
        mode="shared" if shared else "exclusive",
        gpu_memory_mib=share,
    )


def _seconds(text: str) -> int:
    return int(float(text))
