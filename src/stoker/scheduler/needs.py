"""What a task asks for, in the few values that planning looks at.

Equal needs are one object and hash once, so that thousands of tasks of a kind are one question.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.sweep import array_of
from stoker.domain.task import TaskSpec

Mode = Literal["exclusive", "shared", "reuse"]
DEFAULT_QUEUE = "default"
"""What a spec means that names no queue."""


class Needs(Struct, frozen=True, cache_hash=True):
    """What a task asks of each node that it runs on."""

    gpus: int = 0
    gpu_ids: tuple[int, ...] = ()
    cpus: int = 0
    memory_mib: int = 0
    models: tuple[str, ...] = ()
    """Any of these; () = whatever model."""
    mode: Mode = "exclusive"
    gpu_memory_mib: int = 0
    gpu_free_percent: int = 0
    nodes: int = 1
    node: str = ""
    """Only there; "" = anywhere."""

    @property
    def cards(self) -> int:
        """On all its nodes together."""
        return self.gpus * self.nodes


class Sign(Struct, frozen=True, cache_hash=True):
    """All that decides whether and when a task starts, but for its place in line."""

    queue: str
    urgent: bool
    owner: str
    priority: int
    needs: Needs
    limit_s: int | None = None
    array: int = 0
    """Whose elements share `cap`; 0 = of no array."""
    cap: int | None = None


@lru_cache(65_536)
def _one(sign: Sign) -> Sign:
    return sign


def needs_of(spec: TaskSpec) -> Needs:
    """A task that asks for no card and no number of cores counts as one core."""
    return Needs(
        gpus=spec.gpus,
        gpu_ids=spec.gpu_ids,
        cpus=spec.cpus if spec.cpus is not None else int(spec.gpus == 0),
        memory_mib=spec.memory_mib or 0,
        models=tuple(sorted(set(spec.gpu_model))),
        mode=spec.mode,
        gpu_memory_mib=spec.gpu_memory_mib or 0,
        gpu_free_percent=spec.gpu_free_percent or 0,
        nodes=spec.nodes,
        node=spec.node,
    )


def sign_of(key: TaskKey, owner: str, spec: TaskSpec, needs: Needs | None = None) -> Sign:
    """The sign of a task, of an array, or of an array's element. `needs`: if they are known."""
    array = array_of(spec)
    return _one(
        Sign(
            queue=spec.queue or DEFAULT_QUEUE,
            urgent=spec.urgent,
            owner=owner,
            priority=spec.priority,
            needs=needs_of(spec) if needs is None else needs,
            limit_s=spec.time_limit_s,
            array=key.id if array is not None else 0,
            cap=array.cap if array is not None else None,
        )
    )


def is_folded_key(key: TaskKey, sign: Sign) -> bool:
    """Whether this is an array as a whole: its elements are not in line themselves."""
    return bool(sign.array) and key.element == PLAIN


_RUNS = re.compile(r"[^\W\d_]+|\d+")


@lru_cache(4096)
def _runs(text: str) -> tuple[str, ...]:
    return tuple(_RUNS.findall(text.lower()))


@lru_cache(4096)
def matches(patterns: tuple[str, ...], model: str) -> bool:
    """Whether `model` is any of these. `A100` means `NVIDIA A100-SXM4-80GB`, and `A10` does not:
    runs of letters and runs of digits are compared, and must follow each other."""
    if not patterns:
        return True
    have = _runs(model)
    for pattern in patterns:
        want = _runs(pattern)
        width = len(want)
        if want and any(have[i : i + width] == want for i in range(len(have) - width + 1)):
            return True
    return False
