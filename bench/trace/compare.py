"""The same load under several policies, as one table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable

from stoker.scheduler.policy import Policy

from .load import Load
from .replay import Decider, FirstFit, Outcome, Scheduled, replay

WHOLE_NODE = 8
POLICIES: dict[str, Callable[[Load], Decider]] = {
    "first-fit": FirstFit,
    "fifo": lambda load: Scheduled(load, Policy(order="fifo")),
    "balance": lambda load: Scheduled(load, Policy()),
    "balance, no backfill": lambda load: Scheduled(load, Policy(backfill=False)),
}
HEAD = (
    "policy",
    "started",
    "mean wait",
    "p50",
    "p95",
    "mean, 8 cards",
    "longest, 8 cards",
    "in use",
    "idle but wanted",
    "decided in",
)


def compare(load: Load, policies: Iterable[str] = POLICIES) -> str:
    """A table, a row per policy."""
    begun = time.perf_counter()
    rows: list[tuple[str, ...]] = [HEAD]
    rows += [_row(name, replay(load, POLICIES[name](load))) for name in policies]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_spaced(row, widths) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    lines.append(f"replayed in {time.perf_counter() - begun:.0f} s")
    return "\n".join([f"{load.name}: {load.about}", "", *lines])


def _row(name: str, outcome: Outcome) -> tuple[str, ...]:
    waits = sorted(start.wait_s for start in outcome.starts)
    large = [start.wait_s for start in outcome.starts if start.job.needs.gpus == WHOLE_NODE]
    return (
        name,
        f"{len(waits):,}",
        span(statistics.fmean(waits)) if waits else "",
        span(_part(waits, 0.5)),
        span(_part(waits, 0.95)),
        span(statistics.fmean(large)) if large else "",
        span(max(large)) if large else "",
        f"{100 * outcome.utilisation:.1f} %",
        f"{outcome.idle_card_s / 3600:,.1f} card h",
        f"{outcome.deciding_s:.1f} s",
    )


def span(seconds: float) -> str:
    """As people say it: seconds, then minutes, then hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _part(waits: list[int], part: float) -> float:
    return waits[min(len(waits) - 1, int(part * len(waits)))] if waits else 0


def _spaced(row: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
