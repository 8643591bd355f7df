"""Asks the server on behalf of the screen, beside it: the screen never waits for the network.

Two threads with a client each. One listens to the event stream and says only that something has
happened; the other looks (tasks when something has, nodes every so often), does what a person
ordered and reads the log that is on the screen. Neither ever gives up: a server that is gone is
said once and asked again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice

from stoker.cli.heard import heard
from stoker.cli.say import words
from stoker.cli.screen import clean
from stoker.cli.shown import state
from stoker.cli.why import describe
from stoker.client import Client, Refused, ServerUnreachable
from stoker.wire import TaskView, WaitReason

from .log import LogTail
from .model import WAITING, Broken, Explained, Lost, News, Order, Said, Seen

MOST_TASKS = 500
"""More than anybody reads; the header's counts are of these."""
MOST_EXPLAINED, EXPLAINED_AT_ONCE = 50, 8
"""Asking why takes the server a while: so many in a picture, so many at once while it is live."""
PAUSE_S = 0.2
"""Between two looks, however much happens."""
TASKS_S = 10.0
"""Tasks are asked for after this time even if nothing seems to have happened to them."""
LOG_S = 0.5
RETRY_S = 1.0
TIMEOUT_S = 10.0


def look(client: Client, explain: Sequence[str] | None = None) -> Seen:
    """Everything there is; why tasks wait for those named, by default for the first in line."""
    nodes = client.nodes()
    found = client.tasks(state=["unfinished"], sort="position", page=MOST_TASKS)
    tasks = list(islice(found, MOST_TASKS + 1))
    shown = tasks[:MOST_TASKS]
    wanted = [task.id for task in shown if task.state in WAITING and task.array is None]
    wanted = wanted[:MOST_EXPLAINED] if explain is None else [id for id in explain if id in wanted]
    reasons = reasons_for(client, wanted)
    return Seen(
        nodes, shown, len(tasks) > MOST_TASKS, reasons, heard(client.announcement, client.pause)
    )


def reasons_for(client: Client, ids: Sequence[str]) -> dict[str, Sequence[WaitReason]]:
    """Why each of them waits; those that are gone meanwhile are left out."""
    found: dict[str, Sequence[WaitReason]] = {}
    for id in ids:
        try:
            found[id] = client.task(id).waits
        except Refused:
            continue
    return found


class Feed:
    """Give it orders; it delivers news, from threads of its own."""

    def __init__(self, deliver: Callable[[News], None], every_s: float) -> None:
        self._deliver, self._every_s = deliver, every_s
        self._inbox: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._visible: Sequence[str] = ()
        self._turn = 0
        self._log: LogTail | None = None
        self._changed = True
        self._tasks_at = 0.0

    def start(self) -> None:
        for work in (self._listen, self._serve):
            threading.Thread(target=self._guarded, args=(work,), daemon=True).start()

    def _guarded(self, work: Callable[[], None]) -> None:
        """A bug in a thread must not look like a server with nothing to say."""
        try:
            work()
        except Exception as error:
            self._deliver(Broken(error))

    def order(self, order: Order) -> None:
        self._inbox.put(order)

    def watch(self, tasks: Sequence[TaskView]) -> None:
        """These are on the screen: why they wait is worth asking."""
        self._visible = [t.id for t in tasks if t.state in WAITING and t.array is None]

    # ---- that something happened

    def _listen(self) -> None:
        while True:
            try:
                with Client() as client:
                    for _ in client.events():
                        self._inbox.put(None)
            except (ServerUnreachable, Refused):
                time.sleep(RETRY_S)

    # ---- what it is

    def _serve(self) -> None:
        with Client(timeout_s=TIMEOUT_S) as client:
            looked_at = 0.0
            while True:
                orders = self._next(looked_at)
                try:
                    for order in orders:
                        self._carry_out(client, order)
                    if self._log is not None:
                        self._read_log(client, self._log)
                    now = time.monotonic()
                    if self._changed or orders or now - looked_at >= self._every_s:
                        self._look(client)
                        looked_at = time.monotonic()
                except ServerUnreachable:
                    self._deliver(Lost(datetime.now(UTC)))
                    self._changed, looked_at = True, time.monotonic()
                    time.sleep(PAUSE_S)
                except Refused as error:
                    self._deliver(Said(clean(error.message)))
                    looked_at = time.monotonic()

    def _next(self, looked_at: float) -> list[Order]:
        """Wait until there is something to do; all orders that have come."""
        due = looked_at + self._every_s - time.monotonic()
        orders: list[Order] = []
        wait_s = max(0.0, min(due, LOG_S) if self._log is not None else due)
        while True:
            try:
                got = self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait()
            except queue.Empty:
                return orders
            if got is None:
                wait_s = 0.0 if self._changed else PAUSE_S  # what follows at once is seen with it
                self._changed = True
            else:
                orders.append(got)
                wait_s = 0.0

    def _look(self, client: Client) -> None:
        explain = self._due()
        if self._changed or time.monotonic() - self._tasks_at >= TASKS_S:
            self._changed, self._tasks_at = False, time.monotonic()
            try:
                self._deliver(look(client, explain))
            except ServerUnreachable:
                self._changed = True
                raise
        else:
            nodes, reasons = client.nodes(), reasons_for(client, explain)
            news = heard(client.announcement, client.pause)
            self._deliver(Seen(nodes, reasons=reasons, heard=news))

    def _due(self) -> list[str]:
        """Whose reasons to ask for now: some of those on the screen, in turns."""
        ids = list(self._visible)
        begin = self._turn % len(ids) if ids else 0
        self._turn = begin + EXPLAINED_AT_ONCE
        return (ids[begin:] + ids[:begin])[:EXPLAINED_AT_ONCE]

    def _carry_out(self, client: Client, order: Order) -> None:
        if order.verb == "log":
            self._log = LogTail(order.id) if order.id else None
            return
        try:
            if order.verb == "why":
                lines = describe(client.task(order.id, waits=False).task, client.why(order.id))
                self._deliver(Explained(order.id, list(lines)))
                return
            act = {"cancel": client.cancel, "hold": client.hold, "release": client.release}
            task = act[order.verb](order.id)
            self._changed = True
            key = "top.held" if order.verb == "hold" else f"{order.verb}.done"
            self._deliver(Said(words(key, id=task.id, state=state(task))))
        except Refused as error:
            text = clean(" ".join(filter(None, (error.message, error.hint))))
            self._deliver(Explained(order.id, [text]) if order.verb == "why" else Said(text))

    def _read_log(self, client: Client, log: LogTail) -> None:
        for written in log.read(client):
            self._deliver(written)
