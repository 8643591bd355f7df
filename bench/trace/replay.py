"""Virtual time: jobs arrive and end at their seconds, and somebody decides who starts.

`Scheduled` asks the real scheduler as flow does; `FirstFit` is the simple baseline: in order of
arrival, whatever fits starts, nothing is kept for anybody. Both put tasks on nodes by the same
code, so that the difference is the policy. Whatever happens in one second is decided at once.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from msgspec import structs

from stoker.domain.indices import Indices
from stoker.domain.key import TaskKey
from stoker.domain.node import Allocation
from stoker.scheduler.claim import find
from stoker.scheduler.fit import Terms
from stoker.scheduler.line import Waiting
from stoker.scheduler.needs import DEFAULT_QUEUE, Needs, Sign
from stoker.scheduler.plan import plan
from stoker.scheduler.policy import Policy
from stoker.scheduler.room import Holding
from stoker.scheduler.state import cost_of
from stoker.scheduler.view import View

from .load import Job, Load

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
COUNTED_FROM = 0.05
"""Utilisation is counted from the arrival of this part of all jobs to the last arrival."""


class Start(NamedTuple):
    job: Job
    wait_s: int


class Outcome(NamedTuple):
    starts: list[Start]
    utilisation: float
    """Of all cards, while jobs arrived."""
    idle_card_s: float
    """Cards that were idle although waiting tasks could have used them at once."""
    deciding_s: float
    """Real seconds spent on deciding; the rest is measuring."""


class Decider(Protocol):
    """Who decides. What it starts is taken from its view; whoever lets time pass gives it back."""

    view: View

    def arrive(self, number: int, job: Job) -> None: ...

    def decide(self, now: datetime) -> list[TaskKey]:
        """What starts now."""

    def wake_at(self) -> datetime | None:
        """When to be asked again though nothing happens."""


class Scheduled:
    def __init__(self, load: Load, policy: Policy) -> None:
        self.view = _view(load, policy)
        self._wake: datetime | None = None

    def arrive(self, number: int, job: Job) -> None:
        folded = Indices(((0, len(job.runs_s) - 1),)) if job.is_array else None
        since = BEGIN + timedelta(seconds=job.at)
        waiting = Waiting(TaskKey(number), 1, number, _sign(number, job), since, folded=folded)
        self.view.enqueue(waiting)

    def decide(self, now: datetime) -> list[TaskKey]:
        if not len(self.view):
            self._wake = None
            return []
        made = plan(self.view, now)
        self.view.reserve(made.reservations)
        self._wake = made.wake_at
        for placed in made.placements:
            self._leave(placed.key)
            self.view.take(_holding(placed.key, placed.sign, placed.allocations, now))
        return [placed.key for placed in made.placements]

    def wake_at(self) -> datetime | None:
        return self._wake

    def _leave(self, key: TaskKey) -> None:
        entry = self.view.waiting(key)
        if entry is None:
            raise AssertionError(f"{key} does not wait")
        if entry.key == key:
            self.view.dequeue(key)
            return
        self.view.unfold(key)
        array = self.view.waiting(entry.key)
        if array is not None and not array.folded:
            self.view.dequeue(array.key)


class FirstFit:
    def __init__(self, load: Load) -> None:
        self.view = _view(load, Policy())
        self._line: dict[TaskKey, Sign] = {}

    def arrive(self, number: int, job: Job) -> None:
        sign = _sign(number, job)
        for key in _keys(number, job):
            self._line[key] = sign

    def decide(self, now: datetime) -> list[TaskKey]:
        started: list[TaskKey] = []
        failed: set[Needs] = set()
        for key, sign in self._line.items():
            if sign.needs in failed or _is_capped(self.view, sign):
                continue
            found = find(self.view, _terms(self.view, sign), {})
            if found is None:
                failed.add(sign.needs)
                continue
            self.view.take(_holding(key, sign, found, now))
            started.append(key)
        for key in started:
            del self._line[key]
        return started

    def wake_at(self) -> datetime | None:
        return None


def replay(load: Load, decider: Decider) -> Outcome:
    """The whole load, until nothing arrives, runs or could start any more."""
    clock = _Clock(load, decider)
    while clock.step():
        pass
    if len(clock.starts) != load.starts:
        raise AssertionError(f"{load.starts - len(clock.starts)} tasks never started")
    first, last = clock.counted
    available = load.cards * max(1, last - first)
    used = clock.used_card_s / available
    return Outcome(clock.starts, used, clock.idle_card_s, clock.deciding_s)


class _Clock:
    """From one second in which something happens to the next."""

    def __init__(self, load: Load, decider: Decider) -> None:
        self._jobs, self._decider = load.jobs, decider
        self._next = 0
        self._ends: list[tuple[int, TaskKey]] = []
        self._cost: dict[TaskKey, float] = {}
        self._waiting: Counter[Kind] = Counter()
        self._in_use = self._idle = 0.0
        self._now = load.jobs[0].at if load.jobs else 0
        at = int(COUNTED_FROM * len(load.jobs))
        self.counted = (load.jobs[at].at, load.jobs[-1].at) if load.jobs else (0, 0)
        self.starts: list[Start] = []
        self.used_card_s = self.idle_card_s = self.deciding_s = 0.0

    def step(self) -> bool:
        """False when there is no next one."""
        moment = self._moment()
        if moment is None:
            return False
        self._pass(moment)
        while self._ends and self._ends[0][0] <= moment:
            _, key = heappop(self._ends)
            self._decider.view.free(str(key))
            self._in_use -= self._cost.pop(key)
        while self._next < len(self._jobs) and self._jobs[self._next].at <= moment:
            self._arrive(self._jobs[self._next])
        begun = time.perf_counter()
        started = self._decider.decide(BEGIN + timedelta(seconds=moment))
        self.deciding_s += time.perf_counter() - begun
        for key in started:
            self._start(key)
        self._idle = _could_be_used(self._decider.view, self._waiting)
        return True

    def _moment(self) -> int | None:
        moments = [self._ends[0][0]] if self._ends else []
        if self._next < len(self._jobs):
            moments.append(self._jobs[self._next].at)
        wake = self._decider.wake_at()
        if wake is not None and moments:
            moments.append(max(self._now + 1, int((wake - BEGIN).total_seconds())))
        return min(moments, default=None)

    def _pass(self, moment: int) -> None:
        first, last = self.counted
        self.used_card_s += self._in_use * max(0, min(moment, last) - max(self._now, first))
        self.idle_card_s += self._idle * (moment - self._now)
        self._now = moment

    def _arrive(self, job: Job) -> None:
        self._next += 1
        self._decider.arrive(self._next, job)
        self._waiting[_kind(self._next, job)] += len(job.runs_s)

    def _start(self, key: TaskKey) -> None:
        job = self._jobs[key.id - 1]
        kind = _kind(key.id, job)
        self._waiting[kind] -= 1
        if not self._waiting[kind]:
            del self._waiting[kind]
        runs = job.runs_s[max(0, key.element)]
        heappush(self._ends, (self._now + runs, key))
        self.starts.append(Start(job, self._now - job.at))
        view = self._decider.view
        holding = view.taken()[str(key)]
        cost = float(cost_of(holding.needs, holding, view.rooms)) if holding.needs.gpus else 0.0
        self._cost[key] = cost
        self._in_use += cost


Kind = Sign
"""A sign without what does not matter for room: owner, time limit."""


def _kind(number: int, job: Job) -> Kind:
    sign = _sign(number if job.cap is not None else 0, job)
    return structs.replace(sign, owner="", limit_s=None)


def _could_be_used(view: View, waiting: dict[Kind, int]) -> float:
    """Cards that waiting tasks could be put on at once, if nothing were kept for anybody."""
    idle = 0.0
    failed: set[Needs] = set()
    with view.trial() as trial:
        for kind, count in waiting.items():
            for _ in range(count if kind.needs.gpus else 0):
                if kind.needs in failed or _is_capped(view, kind):
                    break
                found = find(view, _terms(view, kind), {})
                if found is None:
                    failed.add(kind.needs)
                    break
                holding = _holding(TaskKey(0), kind, found, BEGIN, f"trial {len(trial)}")
                view.take(holding)
                trial.append(holding.attempt)
                idle += float(cost_of(kind.needs, holding, view.rooms))
    return idle


def _view(load: Load, policy: Policy) -> View:
    view = View(policy)
    for node in load.nodes:
        view.node_up(node)
    return view


def _sign(number: int, job: Job) -> Sign:
    array = number if job.is_array else 0
    return Sign(DEFAULT_QUEUE, False, job.owner, 0, job.needs, job.limit_s, array, job.cap)


def _keys(number: int, job: Job) -> list[TaskKey]:
    if not job.is_array:
        return [TaskKey(number)]
    return [TaskKey(number, element) for element in range(len(job.runs_s))]


def _is_capped(view: View, sign: Sign) -> bool:
    return sign.cap is not None and view.live_of(sign.array) >= sign.cap


def _terms(view: View, sign: Sign) -> Terms:
    return Terms.of(sign.needs, sign.owner, view.policy.queue(sign.queue), view.policy)


def _holding(
    key: TaskKey, sign: Sign, where: tuple[Allocation, ...], now: datetime, name: str = ""
) -> Holding:
    return Holding(
        name or str(key), key, sign.owner, sign.queue, sign.needs, where, now, sign.limit_s,
        sign.array,
    )  # fmt: skip
