"""What is replayed: a cluster, and who hands over what, when, and how long it really runs.

Times are whole seconds from the beginning of the load. An array is one job with a run time per
element; its index set is 0 to the number of run times.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.domain.node import Node
from stoker.scheduler.needs import Needs


class Job(NamedTuple):
    at: int
    """When it is handed over."""
    owner: str
    needs: Needs
    runs_s: tuple[int, ...]
    """How long it runs; of an array: each element."""
    limit_s: int | None = None
    is_array: bool = False
    cap: int | None = None
    """At most so many elements at a time."""


class Load(NamedTuple):
    name: str
    about: str
    """One paragraph for the reader of the table."""
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    """By `at`."""

    @property
    def cards(self) -> int:
        return sum(len(node.gpus) for node in self.nodes)

    @property
    def starts(self) -> int:
        """How many tasks there are, elements counted one by one."""
        return sum(len(job.runs_s) for job in self.jobs)
