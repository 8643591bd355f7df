"""Days of a lab in virtual time: tasks come, are planned, run for as long as they do, and end.

Only the scheduler is real; what flow and nodes do is a few lines here. Every plan is carried out at
once, and nothing else happens between the moments that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush

from stoker.domain.key import TaskKey
from stoker.domain.task import TaskSpec
from stoker.scheduler.line import waiting_of
from stoker.scheduler.plan import Plan, plan
from stoker.scheduler.policy import Policy
from stoker.scheduler.view import View
from tests.helpers.builders import NOON
from tests.helpers.scheduling import carry_out

HOUR = 3600


@dataclass(frozen=True)
class Coming:
    """A task that will be handed in, and how long it will really run."""

    after_s: int
    owner: str
    spec: TaskSpec
    runs_s: int


@dataclass
class Day:
    """Runs until nothing is left to happen, or nothing that `until` waits for."""

    view: View
    coming: Sequence[Coming]
    started: dict[TaskKey, datetime] = field(default_factory=dict)
    came: dict[TaskKey, datetime] = field(default_factory=dict)
    now: datetime = NOON

    def run(
        self,
        watch: Callable[[Day, Plan], None] = lambda day, planned: None,
        until: Callable[[Day], bool] = lambda day: False,
    ) -> None:
        moments = {NOON + timedelta(seconds=one.after_s) for one in self.coming}
        agenda: list[tuple[datetime, int, TaskKey | None]] = []
        for moment in moments:
            heappush(agenda, (moment, 0, None))
        while agenda and not until(self):
            self.now = agenda[0][0]
            while agenda and agenda[0][0] == self.now:
                _, _, ended = heappop(agenda)
                if ended is not None:
                    self.view.free(f"attempt-{ended}")
            self._hand_in()
            planned = plan(self.view, self.now)
            carry_out(self.view, planned, self.now)
            for placement in planned.placements:
                key = placement.key
                self.started[key] = self.now
                runs_s = self.coming[key.id - 1].runs_s
                heappush(agenda, (self.now + timedelta(seconds=runs_s), key.id, key))
            if planned.wake_at is not None and len(self.view):
                heappush(agenda, (max(planned.wake_at, self.now), 0, None))
            watch(self, planned)

    def waited(self, key: TaskKey) -> timedelta:
        return self.started[key] - self.came[key]

    def _hand_in(self) -> None:
        """In the order of `coming`, which is by time."""
        for id in range(len(self.came) + 1, len(self.coming) + 1):
            one = self.coming[id - 1]
            key, moment = TaskKey(id), NOON + timedelta(seconds=one.after_s)
            if moment > self.now:
                return
            self.came[key] = moment
            self.view.enqueue(
                waiting_of(key, one.owner, one.spec, position=id, version=1, since=moment)
            )


def a_day(nodes: Sequence[object], coming: Sequence[Coming], policy: Policy | None = None) -> Day:
    view = View(policy or Policy())
    for node in nodes:
        view.node_up(node)  # type: ignore[arg-type]
    return Day(view, sorted(coming, key=lambda one: one.after_s))
