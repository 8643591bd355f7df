"""What every step works on: records, engine, view, clock. Plain values, no logic of its own.

`live`, `arrays`, `successors` and `urgent` mirror the records and are changed only after a commit
(`follow`). Room is taken in the view before a commit and given back when it fails: so two steps
that run at the same time never give out a card twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime
from fractions import Fraction
from typing import Any, Protocol

from msgspec import Struct, field

from stoker.domain.attempt import Attempt
from stoker.domain.indices import Indices
from stoker.domain.key import TaskKey
from stoker.domain.lifecycle import State, Task
from stoker.domain.node import Incarnation
from stoker.engines.base import Engine, NodeCalls, NodeSampled
from stoker.lab.book import Book
from stoker.scheduler.line import Waiting
from stoker.scheduler.needs import Needs, Sign
from stoker.scheduler.policy import Policy
from stoker.scheduler.view import View
from stoker.store.base import LogShelf, RestoredNode, Store

from .diary import Diary
from .news import News
from .tell import Listener

log = logging.getLogger("stoker.flow")


NO_ACCOUNT = "-"
"""No system has an account of this name: what belongs to nobody runs as nobody."""


class Clock(Protocol):
    def now(self) -> datetime: ...


class Live(Struct):
    """A task with an attempt that holds cards."""

    task: Task
    attempt: Attempt
    stuck: str = ""
    """Why it cannot be ended."""


class ArrayState(Struct):
    """An array that has not ended. A million elements that wait are one range of numbers."""

    state: State
    """Of its row: QUEUED, HELD or STOPPING."""
    version: int
    size: int
    folded: Indices
    """Elements that nothing has happened to yet."""
    leaving: set[int] = field(default_factory=set)
    """Elements on their way to becoming rows: not recorded yet, no longer to be had."""
    open: dict[int, State] = field(default_factory=dict)
    """Elements that are rows and have not ended."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """How many elements have ended how."""
    parked: dict[int, Waiting] = field(default_factory=dict)
    """Elements that would be in line if the array were."""
    owner: str = ""
    queue: str = ""
    counted: int = 0
    """Elements that wait and are no rows yet, as they were counted last, and in which queue."""
    lined: dict[int, str] = field(default_factory=dict)
    """Elements that are rows and wait, and in which queue they were counted."""

    @property
    def has_begun(self) -> bool:
        """Something has happened to one of its elements."""
        return bool(self.open or self.outcomes or self.leaving)

    @property
    def is_over(self) -> bool:
        """Nothing of it runs, or will."""
        waits = self.folded and self.state is not State.STOPPING
        return not waits and not self.open and not self.leaving


class NodeState(Struct):
    """What is known of a node beside its room."""

    incarnation: Incarnation
    launch_number: int
    """The highest given out."""
    since: datetime
    why: str = ""
    sample: NodeSampled | None = None


class Retention(Struct, frozen=True):
    """How long what has finished is kept; 0 = for ever, and any number."""

    days: int = 0
    tasks: int = 0

    @property
    def is_set(self) -> bool:
        return bool(self.days or self.tasks)


class Reminders(Struct):
    """What is due when."""

    told: datetime | None = None
    """Everything up to this moment was dealt with. None: nobody has ever looked."""
    due: list[tuple[datetime, str, int]] = field(default_factory=list)
    """A heap: when, which attempt, how many seconds before its limit. Some are outdated."""
    scan_at: datetime | None = None
    """When somebody may have waited too long; None: look now."""
    sooner: asyncio.Event = field(default_factory=asyncio.Event)
    """Something is due earlier than the timer rings."""


class Restoring(Struct):
    """Records from a backup, and what is not known yet of the time since."""

    nodes: dict[str, RestoredNode]
    """That the records know."""
    made_at: str
    asked: set[str]
    """Nodes that have not answered."""
    gaps: list[str] = field(default_factory=list)
    """Why something may have run that nobody can tell of."""


class Flow:
    def __init__(  # noqa: PLR0915 - one line for each thing that steps share
        self,
        *,
        store: Store,
        engine: Engine,
        logs: LogShelf,
        clock: Clock,
        new_attempt: Callable[[], str],
        book: Book | None = None,
        policy: Policy | None = None,
        retention: Retention | None = None,
        become_owners: bool = False,
    ) -> None:
        self.store, self.engine, self.logs, self.clock = store, engine, logs, clock
        self.calls: NodeCalls | None = engine if isinstance(engine, NodeCalls) else None
        """How nodes are asked for anything else, if the engine can."""
        self.environments: dict[tuple[str, str], datetime] = {}
        """Environments that were there: for whom, its name, and until when that is believed."""
        self.new_attempt = new_attempt
        self.book = book or Book(store)
        self.become_owners = become_owners
        """Tasks run as the unix accounts of their owners; else all as that of the runner."""
        self.shared_account = ""
        """Several people, and everybody's tasks run as this one account."""
        self.retention = retention or Retention()
        self.retain_anew = asyncio.Event()
        """Retention has changed: look at once what is kept no longer."""
        self.pausing = 0
        """So many are about to record that scheduling is paused: nothing may be placed any more."""
        self.diary = Diary()
        self.epoch = 0
        self.view = View(policy or Policy())
        self.limits_waiting = self.view.policy.limits_waiting
        """Whether anybody could have too many tasks in line."""
        self.live: dict[str, Live] = {}
        self.arrays: dict[int, ArrayState] = {}
        self.successors: dict[TaskKey, set[TaskKey]] = {}
        """Who waits, or will when released, for which task: HELD and QUEUED ones."""
        self.urgent: dict[str, set[TaskKey]] = {}
        """Unfinished urgent tasks of each person. Taken before the commit, like room."""
        self.in_line: dict[str, dict[str, int]] = {}
        """Waiting tasks by owner and queue, and those about to be recorded (`places`)."""
        self.nodes: dict[str, NodeState] = {}
        self.possible: set[tuple[str, Needs]] = set()
        """What some node could run, by queue: asked once, until nodes or queues change."""
        self.drained: dict[str, str] = {}
        """Nodes that take nothing new until a person says so, and why. Kept over restarts."""
        self.failures: dict[str, int] = {}
        """Launches in a row that failed, per node."""
        self.collecting: set[str] = set()
        """Ended attempts whose log is being copied; who deletes their task takes them out."""
        self.uncollected: dict[str, Attempt] = {}
        """Ended attempts that their node has not been told to forget."""
        self.spools: dict[str, str] = {}
        """The spool of every node that has ever introduced itself. Kept over restarts."""
        self.strangers: dict[str, tuple[str, tuple[str, ...]]] = {}
        """Attempts on nodes that the records do not know: their node, and their cards if they run."""
        self.foreign: dict[str, dict[str, Fraction]] = {}
        """By node: what programs that are no task cost whose they are (`foreign`)."""
        self.restoring: Restoring | None = None
        """The records are from a backup: nothing is placed until nodes have told what ran since."""
        self.doubted: set[TaskKey] = set()
        """Held because they may have run since the backup that the records are from."""
        self.asked: set[TaskKey] = set()
        """Predecessors that may have ended before somebody began to wait for them."""
        self.unsettled: set[int] = set()
        """Arrays that are to be looked at: they may be over, or have elements left to stop."""
        self.editing = asyncio.Lock()
        """Held by whoever changes what others build on: dependencies, an array's elements."""
        self.news = News()
        self.reminders = Reminders()
        self.listeners: list[Listener] = []
        """Who is told what happens to tasks (`tell`)."""
        self.wake = asyncio.Event()
        self.unplanned = True
        """Something changed since the line was last planned."""
        self.refused: set[Sign] = set()
        """Signs of newcomers that wait in line, since something else last changed: one more of the
        same sign changes nothing."""
        self.alarm: asyncio.TimerHandle | None = None
        self.kept: dict[str, object] = {"reservations": {}, "use": {}}
        """What was last written of what outlives us; `keep_due`: a write is on its way."""
        self.keep_due = False
        self.store_problem = ""
        """Why the last commit failed; "" once one has gone well."""
        self.outdated = False
        """Another server has taken over: nothing may be ordered any more."""
        self._background: set[asyncio.Task[None]] = set()

    @property
    def policy(self) -> Policy:
        return self.view.policy

    def account(self, owner: str, node: str) -> str:
        """The unix account of a person on a node; "" = that of the runner."""
        if not self.become_owners:
            return ""
        person = self.book.people.get(owner)
        return NO_ACCOUNT if person is None else person.account_on(node)

    def set_policy(self, policy: Policy) -> None:
        """The lab has decided something else."""
        self.view.set_policy(policy)
        self.limits_waiting = policy.limits_waiting
        self.possible.clear()
        self.replan()

    def set_retention(self, retention: Retention) -> None:
        """The same for what is kept."""
        if retention != self.retention:
            self.retention = retention
            self.retain_anew.set()

    def replan(self) -> None:
        """Something may start now."""
        self.reconsider()
        self.wake.set()

    def reconsider(self) -> None:
        """The same, when the loop is at work anyway, or must not be woken before its time."""
        self.refused.clear()
        self.unplanned = True

    def plan_soon(self) -> None:
        """The line has changed, and nothing else."""
        self.unplanned = True
        self.wake.set()

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this beside the loop. It handles its own errors; `drain` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)

    async def drain(self) -> None:
        """Wait for what `later` began."""
        while self._background:
            await asyncio.wait(self._background)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("event=background_failed", exc_info=task.exception())
