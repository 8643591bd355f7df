"""Whether a long line is felt: one submit, list, why and cancel behind 100,000 waiting tasks.

And the same for one array of a million elements: handing it over, the list with it in, why one of
its elements waits, cancelling all of it. Through a real server; a task sleeps on every card, so
that all of them wait. Seconds from the request to the answer, one client; what people feel is
absolute, so the bars are.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.client import Connection
from bench.figure import Bar, Figure, Line, Measure, Reading, chunks, scaled
from bench.server import MOST_IN_BATCH, health, hold_all_cards, running, submit, wait_for

from .submits import spec_of

TASKS, ELEMENTS = 100_000, 1_000_000
ROWS = 50
CARDS = 4
STEPS = ("submit", "list", "why", "cancel")
END_S = 60.0
BAR = Bar(1, None, "at most", of="ours")
LINES = (
    *(Line(f"scale: {step}, {TASKS:,} wait", "s", BAR, "") for step in STEPS),
    *(Line(f"scale: {step}, array of {ELEMENTS:,}", "s", BAR, "") for step in STEPS),
)


@contextlib.contextmanager
def ready(folder: Path, scale: float) -> Iterator[Measure]:
    tasks, elements = scaled(TASKS, scale, 1_000), scaled(ELEMENTS, scale, 1_000)
    with running(folder, CARDS) as server:
        with server.connect() as client:
            hold_all_cards(client, server)
            for piece in chunks(tasks, MOST_IN_BATCH):
                submit(client, [_spec(number, server.work) for number in piece])
            if health(client).waiting != tasks:
                raise AssertionError(f"{tasks} tasks should wait, {health(client).waiting} do")
        server.settle()

        def measure() -> tuple[Reading, ...]:
            with server.connect() as client:
                one = _spec(tasks, server.work)
                many = one | {"array": f"0-{elements - 1}"}
                readings = (*_life(client, one, None), *_life(client, many, elements))
            server.settle()
            return readings

        yield measure


def _spec(number: int, work: Path) -> dict[str, object]:
    """Of 2,000 signatures."""
    limit = 60 * (1 + number // CARDS % 500)
    return spec_of(number, work) | {"gpus": 1 + number % CARDS, "time_limit_s": limit}


def _life(client: Connection, spec: dict[str, object], elements: int | None) -> Iterator[Reading]:
    """From submit to cancel. Of an array: why its middle element waits."""
    took, created = _timed(client, client.request("POST", "/api/v1/tasks", spec))
    yield Reading(took, None)
    id = created["id"]
    took, page = _timed(client, client.request("GET", f"/api/v1/tasks?limit={ROWS}"))
    yield Reading(took, None)
    if id not in {task["id"] for task in page["tasks"]}:
        raise AssertionError(f"{id} is not on the first page")
    asked = id if elements is None else f"{id}_{elements // 2}"
    took, why = _timed(client, client.request("GET", f"/api/v1/tasks/{asked}/why"))
    yield Reading(took, None)
    if "gpus_busy" not in {reason["code"] for reason in why["reasons"]}:
        raise AssertionError(f"{asked} waits for {why['reasons']}")
    took, _ = _timed(client, client.request("POST", f"/api/v1/tasks/{id}/cancel"))
    yield Reading(took, None)
    wait_for(partial(_is_over, client, id), END_S, f"{id} is over")


def _timed(client: Connection, request: bytes) -> tuple[float, Any]:
    begun = time.perf_counter()
    answer = client.exchange(request)
    return time.perf_counter() - begun, msgspec.json.decode(answer)


def _is_over(client: Connection, id: str) -> bool:
    task = msgspec.json.decode(client.get(f"/api/v1/tasks/{id}"))["task"]
    return bool(task["state"] == "FINISHED" and task["outcome"] == "cancelled")


FIGURE = Figure("scale", f"{TASKS:,} tasks wait; an array of {ELEMENTS:,}", LINES, ready)
