"""A lab in virtual time in which cards are always wanted: who gets how much of them?

Only the scheduler is real. Every person has habits of his own: how many cards his tasks want and how
long they run, both drawn anew for each task; half of them name a limit. Whoever is there always has
some tasks in line. Measured is card time, against what was due: at every moment the cards in use,
divided by weight among those who want some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush
from random import Random

from stoker.domain.key import TaskKey
from stoker.scheduler.line import waiting_of
from stoker.scheduler.plan import plan
from stoker.scheduler.policy import Order, Policy
from stoker.scheduler.view import View
from tests.helpers.builders import NOON, a_spec
from tests.helpers.scheduling import a_node, carry_out

HOUR = 3600
IN_LINE = 4
"""Tasks of a person that wait at any time."""
LONGEST_H = 10.0


@dataclass
class Person:
    name: str
    weight: int
    sizes: Sequence[int]
    """One of these many cards, each time."""
    mean_h: float
    since: datetime = NOON
    waiting: int = 0
    held: int = 0
    got_s: float = 0.0
    due_s: float = 0.0

    @property
    def off(self) -> float:
        """How far from what was due; 0.1 = a tenth more."""
        return self.got_s / self.due_s - 1 if self.due_s else 0.0


@dataclass
class Month:
    people: list[Person]
    view: View
    ends: datetime
    rng: Random
    now: datetime = NOON
    tasks: int = 0
    idle_s: float = 0.0
    running: dict[TaskKey, tuple[Person, int, int]] = field(default_factory=dict)
    """Whose it is, how many cards, how long; also of what waits."""

    def run(self) -> None:
        agenda: list[tuple[datetime, int, TaskKey | None]] = []
        for person in self.people:
            heappush(agenda, (person.since, 0, None))
        while agenda[0][0] < self.ends:
            self._pass_to(agenda[0][0])
            while agenda and agenda[0][0] == self.now:
                ended = heappop(agenda)[2]
                if ended is not None:
                    self._end(ended)
            for key, seconds in self._start():
                heappush(agenda, (self.now + timedelta(seconds=seconds), key.id, key))

    def _pass_to(self, moment: datetime) -> None:
        seconds = (moment - self.now).total_seconds()
        self.now = moment
        wanting = [one for one in self.people if one.waiting or one.held]
        weights, held = sum(one.weight for one in wanting), sum(one.held for one in self.people)
        self.idle_s += seconds * (sum(len(r.cards) for r in self.view.rooms.values()) - held)
        for one in wanting:
            one.got_s += seconds * one.held
            one.due_s += seconds * held * one.weight / weights

    def _end(self, key: TaskKey) -> None:
        person, gpus, _ = self.running.pop(key)
        person.held -= gpus
        self.view.free(f"attempt-{key}")

    def _start(self) -> list[tuple[TaskKey, int]]:
        for person in self.people:
            while person.since <= self.now and person.waiting < IN_LINE:
                self._hand_in(person)
        planned = plan(self.view, self.now)
        carry_out(self.view, planned, self.now)
        started = []
        for placement in planned.placements:
            person, gpus, seconds = self.running[placement.key]
            person.held += gpus
            person.waiting -= 1
            started.append((placement.key, seconds))
        return started

    def _hand_in(self, person: Person) -> None:
        rng = self.rng
        self.tasks += 1
        key, gpus = TaskKey(self.tasks), rng.choice(person.sizes)
        hours = min(max(rng.expovariate(1 / person.mean_h), 0.1), LONGEST_H)
        seconds = int(hours * HOUR)
        limit_s = int(seconds * rng.choice((1.1, 2, 4))) if rng.random() < 0.5 else None
        spec = a_spec(gpus=gpus, time_limit_s=limit_s)
        self.view.enqueue(
            waiting_of(key, person.name, spec, position=self.tasks, version=1, since=self.now)
        )
        self.running[key] = person, gpus, seconds
        person.waiting += 1


def a_month(
    *,
    seed: int,
    people: int,
    nodes: int,
    days: int,
    order: Order = "fairshare",
    sizes: Sequence[Sequence[int]] = ((1,), (1,), (1, 1, 2), (1, 2, 4), (2,)),
    means_h: Sequence[float] = (0.5, 1, 2),
) -> Month:
    rng = Random(f"month {seed}")
    weights = (1, 1, 1, 1, 1, 1, 1, 2, 2, 3)
    everybody = [
        Person(f"p{number:03}", rng.choice(weights), rng.choice(sizes), rng.choice(means_h))
        for number in range(people)
    ]
    view = View(Policy(order=order, weights={one.name: one.weight for one in everybody}))
    for number in range(nodes):
        view.node_up(a_node(f"n{number:02}", 8))
    return Month(everybody, view, NOON + timedelta(days=days), rng)
