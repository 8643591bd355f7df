"""How long the scheduler thinks: 100,000 waiting tasks, 10,000 GPUs, 200 owners, 2,000 signatures.

3 of 10 tasks have no time limit, 1 of 10 is a gang; nodes of seven models, half of the tasks ask for
one or two of them; cores count. The policy is the default one: balance, with backfill.

- *All*: one plan over an empty cluster that it fills. Yardstick: a bare first-fit pass over the
  same line and the same nodes (`first_fit.py`).
- *One event*, at saturation: a task ends, the line is planned, what was planned is applied to the
  view as flow does it. Median of the events of a round; a second passes from each to the next.

Both also at a tenth and a hundredth of the size, to see how they grow; and an event at the whole
size when 1 of 10 signatures is of mode shared, which the design's input is not. No server, no disk.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from bench.figure import Bar, Figure, Line, Measure, Reading, in_turn, scaled
from bench.first_fit import Kind, first_fit
from stoker.domain.key import TaskKey
from stoker.domain.node import Gpu, Node
from stoker.scheduler.line import Waiting
from stoker.scheduler.needs import Needs, Sign
from stoker.scheduler.plan import Placement, Plan, plan
from stoker.scheduler.room import Holding
from stoker.scheduler.view import View

TASKS, GPUS, OWNERS, SIGNS = 100_000, 10_000, 200, 2_000
SHRUNK = (1, 10, 100)
"""Measured at the whole size and at these parts of it."""
EVENTS = 60
"""Per round and size."""
FEW_EVENTS = 10
MODELS = ("A100", "V100", "RTX 3090", "RTX 4090", "H100", "T4", "P100")
CARDS, CPUS, MEMORY_MIB = 8, 64, 262_144
CARD_MIB, SHARE_MIB = 40_960, 10_240
LIMITS_S = (600, 1800, 3600, 2 * 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BARE = "a bare first-fit pass"


class Site(NamedTuple):
    """A cluster and its line, for us and for the yardstick."""

    nodes: list[Node]
    line: list[Waiting]
    kinds: list[Kind]


def a_site(tasks: int, gpus: int, *, shared: bool = False) -> Site:
    """`shared`: 1 of 10 signatures asks for a part of a card."""
    chance = random.Random(1)
    nodes = [_node(number) for number in range(max(1, gpus // CARDS))]
    signs = [_sign(number, chance) for number in range(SIGNS)]
    if shared:
        signs = [_shared(sign) if n % 10 == 5 else sign for n, sign in enumerate(signs)]
    since = NOW - timedelta(hours=1)
    line = [Waiting(TaskKey(id), 1, id, chance.choice(signs), since) for id in range(1, tasks + 1)]
    kinds = {sign: _kind(sign.needs) for sign in signs}
    return Site(nodes, line, [kinds[waiting.sign] for waiting in line])


def a_view(site: Site) -> View:
    """All of the line waits, nothing is held."""
    view = View()
    for node in site.nodes:
        view.node_up(node)
    view.tick(NOW)
    for waiting in site.line:
        view.enqueue(waiting)
    return view


class Saturated:
    """A view in which everything that fits has started, and time goes on."""

    def __init__(self, site: Site) -> None:
        self.view, self.now = a_view(site), NOW
        self._chance = random.Random(2)
        self._last = len(site.line)
        self._apply(plan(self.view, self.now))
        self._live = list(self.view.taken())

    def event(self) -> float:
        """One task ends and the line moves up; how long that took."""
        at = self._chance.randrange(len(self._live))
        self._live[at], self._live[-1] = self._live[-1], self._live[at]
        attempt = self._live.pop()
        ended = self.view.taken()[attempt]
        self.now += timedelta(seconds=1)
        begun = time.perf_counter()
        self.view.free(attempt)
        self.view.settle(ended.key, "succeeded")
        self._live += self._apply(plan(self.view, self.now))
        took = time.perf_counter() - begun
        self._follow(ended)
        return took

    def _follow(self, ended: Holding) -> None:
        """Another one like it joins the line, which would grow short otherwise."""
        self._last += 1
        sign = Sign(ended.queue, False, ended.owner, 0, ended.needs, ended.limit_s)
        self.view.enqueue(Waiting(TaskKey(self._last), 1, self._last, sign, self.now))

    def _apply(self, planned: Plan) -> list[str]:
        self.view.reserve(planned.reservations)
        for one in planned.placements:
            self.view.dequeue(one.key)
            self.view.take(_holding(one, self.now))
        return [str(one.key) for one in planned.placements]


@contextlib.contextmanager
def ready(_folder: Path, scale: float) -> Iterator[Measure]:
    sites = [
        a_site(scaled(TASKS, scale / part, 1_000), scaled(GPUS, scale / part, 100))
        for part in SHRUNK
    ]
    full = [a_view(site) for site in sites]
    later = [Saturated(site) for site in sites]
    sharing = Saturated(a_site(scaled(TASKS, scale, 1_000), scaled(GPUS, scale, 100), shared=True))
    for view, site in zip(full, sites, strict=True):
        _check(view, site)

    def measure() -> tuple[Reading, ...]:
        readings: list[Reading] = []
        for site, view, saturated in zip(sites, full, later, strict=True):
            readings.append(in_turn(partial(_ours, view), partial(_bare, site)))
            readings.append(_events(saturated, EVENTS))
        readings.append(_events(sharing, FEW_EVENTS))
        return tuple(readings)

    yield measure


def _events(saturated: Saturated, count: int) -> Reading:
    return Reading(1000 * statistics.median(saturated.event() for _ in range(count)), None)


def _ours(view: View) -> float:
    begun = time.perf_counter()
    plan(view, NOW)
    return 1000 * (time.perf_counter() - begun)


def _bare(site: Site) -> float:
    models = [node.gpus[0].model for node in site.nodes]
    cards, cpus = [CARDS] * len(models), [CPUS] * len(models)
    begun = time.perf_counter()
    first_fit(site.kinds, models, cards, cpus)
    return 1000 * (time.perf_counter() - begun)


def _check(view: View, site: Site) -> None:
    """Both fill the cluster; what is planned is planned again."""
    planned = plan(view, NOW)
    given = sum(len(part.gpus) for one in planned.placements for part in one.allocations)
    have = CARDS * len(site.nodes)
    if not 0.9 * have <= given <= have:
        raise AssertionError(f"the plan gives out {given} of {have} cards")
    if plan(view, NOW) != planned:
        raise AssertionError("the same view was planned differently")


def _holding(one: Placement, since: datetime) -> Holding:
    sign = one.sign
    return Holding(
        str(one.key), one.key, sign.owner, sign.queue, sign.needs, one.allocations, since,
        sign.limit_s,
    )  # fmt: skip


def _node(number: int) -> Node:
    name, model = f"n{number:05}", MODELS[number % len(MODELS)]
    gpus = tuple(Gpu(card, f"{name}-{card}", model, CARD_MIB) for card in range(CARDS))
    return Node(name=name, cpus=CPUS, memory_mib=MEMORY_MIB, gpus=gpus)


def _sign(number: int, chance: random.Random) -> Sign:
    models = chance.choice(((), (), chance.sample(MODELS, 1), chance.sample(MODELS, 2)))
    needs = Needs(
        gpus=chance.choice((1, 1, 1, 2, 4, 8)),
        cpus=chance.choice((0, 4, 8)),
        models=tuple(sorted(models)),
        nodes=chance.choice((2, 4)) if number % 10 == 0 else 1,
    )
    limit = None if chance.random() < 0.3 else chance.choice(LIMITS_S)
    return Sign("default", False, f"owner-{number % OWNERS}", 0, needs, limit)


def _shared(sign: Sign) -> Sign:
    part = Needs(gpus=1, cpus=4, models=sign.needs.models, mode="shared", gpu_memory_mib=SHARE_MIB)
    return structs.replace(sign, needs=part)


def _kind(needs: Needs) -> Kind:
    return needs.gpus, needs.cpus, frozenset(needs.models), needs.nodes


def _lines() -> Iterator[Line]:
    for part in SHRUNK:
        size = f"{TASKS // part:,} x {GPUS // part:,}"
        whole = part == 1
        yield Line(f"planning: all, {size}", "ms", Bar(4, 2, "at most") if whole else None, BARE)
        yield Line(
            f"planning: one event, {size}",
            "ms",
            Bar(10, 1, "at most", of="ours") if whole else None,
            "",
        )
    yield Line("planning: one event, 1 of 10 shared", "ms", None, "")


FIGURE = Figure(
    "planning",
    f"{TASKS:,} waiting x {GPUS:,} GPUs, {OWNERS} owners, {SIGNS:,} signatures",
    tuple(_lines()),
    ready,
)
