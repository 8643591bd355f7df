"""Who is told of what happens to tasks. Never keeps anybody waiting: not a task, not a request.

`hear` only looks at wishes and counts; everything else is done beside the loop. What waits to be
sent is in memory, bounded for each person: a notice may be lost when the server dies that very
second, and none is told twice after a restart. An array is told of as one: its elements' failures
come together, a little later. Above the lab's number for an hour, the rest comes as one notice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from stoker.domain.errors import AppError, Conflict, UnknownChannel
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import Task
from stoker.domain.notice import MAIL, NONE, NoticeKind, told_over
from stoker.domain.person import Person
from stoker.domain.rules import Rules
from stoker.lab.channels import Channels
from stoker.notices.base import Mail, Message, Sender, Undelivered, Web

from . import logs, notice_text
from .collect import streams
from .context import Flow
from .tell import Told

log = logging.getLogger("stoker.notices")

DIGEST_S = 60.0
"""So long failures of one array's elements are gathered."""
PAUSES_S = (10.0, 60.0)
"""Before the second and the third try."""
HOUR_S = 3600.0
MOST_KEPT = 50
"""Of what a person was told, for him to look at."""
MOST_WAITING = 100
"""Of one person and channel."""
TAIL_S = 5.0
TAIL_READ = 16 << 10


class Record(Struct, kw_only=True):
    """One notice over one channel, and what became of it."""

    at: datetime
    kind: str
    task: str
    channel: str
    subject: str
    state: str = "waiting"
    """waiting, sent or failed."""
    tries: int = 0
    why: str = ""
    """A code: why it failed, or why it is tried again."""
    values: dict[str, Any] = field(default_factory=dict)


class _Lane(Struct):
    """What one channel of one person has before it."""

    waiting: deque[tuple[Record, Message]] = field(default_factory=deque)
    is_busy: bool = False


class _Desk(Struct):
    """What is known of one person."""

    sent_at: deque[float] = field(default_factory=deque)
    held: Counter[str] = field(default_factory=Counter)
    """What came on top of what an hour may bring, by kind."""
    records: deque[Record] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    lanes: dict[str, _Lane] = field(default_factory=dict)


class Notices:
    """Made when flow knows again what the records hold."""

    def __init__(
        self,
        flow: Flow,
        channels: Channels,
        sender: Sender,
        *,
        language: str = "en",
        digest_s: float = DIGEST_S,
        pauses_s: tuple[float, ...] = PAUSES_S,
    ) -> None:
        self.channels, self.sender = channels, sender
        self._flow, self._language = flow, language
        self._digest_s, self._pauses_s = digest_s, pauses_s
        self._desks: dict[str, _Desk] = {}
        self._gathered: dict[tuple[int, NoticeKind], list[TaskKey]] = {}
        self._begun = {id for id, state in flow.arrays.items() if state.has_begun}
        """Arrays whose first element's start was told, by us or by the server before us."""
        self._timers: set[asyncio.TimerHandle] = set()
        self._work: set[asyncio.Task[None]] = set()

    # ---- what happens

    def hear(self, told: Told) -> None:
        """A listener of flow: returns at once."""
        task = told.task
        person = self._reader(task.owner)
        if person is None or (task.spec.notify or person.notify or (NONE,))[0] == NONE:
            return
        kinds = _kinds(told)
        if not kinds:
            return
        if task.element != PLAIN:
            self._hear_element(told, kinds)
            return
        if task.is_array and told.kind == "ended":
            self._begun.discard(task.id)
            for kind in ("failed", "waiting", "limit"):  # its own notice says it all
                self._gathered.pop((task.id, kind), None)
        self._tell(person, kinds, task, lambda kind: self._about(told, kind, person))

    def recent(self, person: str) -> list[Record]:
        """What he was told lately, the newest first."""
        desk = self._desks.get(person)
        return [] if desk is None else list(reversed(desk.records))

    async def test(self, person: Person, channel: str) -> Record:
        """One try, now. UnknownChannel; Conflict when there were too many notices lately."""
        if channel not in self.channels.names(person):
            raise UnknownChannel(channel=channel[:50])
        desk = self._desk(person.name)
        if not self._admits(desk):
            raise Conflict("too_many_notices", most=self._rules.notices_per_hour)
        message = notice_text.about_test(person.name, channel, self._language_of(person))
        record = self._record(desk, "test", "", channel, message)
        await self._try(person.name, record, message)
        if record.state == "waiting":
            record.state = "failed"
        return record

    def close(self) -> None:
        """Nothing more is sent."""
        for timer in self._timers:
            timer.cancel()
        for work in self._work:
            work.cancel()
        self.sender.close()

    # ---- who is told

    def _reader(self, owner: str) -> Person | None:
        """Nobody is told who may not come in any more."""
        person = self._flow.book.people.get(owner)
        if person is None or person.locked:
            return None
        today = self._flow.clock.now().astimezone().date()
        return None if person.expires is not None and today > person.expires else person

    def _hear_element(self, told: Told, kinds: tuple[NoticeKind, ...]) -> None:
        """Elements are not told of one by one."""
        id, kind = told.task.id, kinds[0]
        if kind == "finished":
            return
        if kind == "started":
            self._array_begins(told)
            return
        gathered = self._gathered.setdefault((id, kind), [])
        gathered.append(told.task.key)
        if len(gathered) == 1:
            self._later(self._digest_s, lambda: self._elements(told.task, kind))

    def _array_begins(self, told: Told) -> None:
        task, person = told.task, self._reader(told.task.owner)
        if person is None or task.id in self._begun:
            return
        self._begun.add(task.id)
        self._tell(person, ("started",), task, lambda kind: self._about(told, kind, person))

    def _elements(self, task: Task, kind: NoticeKind) -> None:
        keys, person = self._gathered.pop((task.id, kind), []), self._reader(task.owner)
        if not keys or person is None:
            return
        language = self._language_of(person)

        async def message(_: NoticeKind) -> Message:
            return notice_text.about_elements(task.id, task.owner, kind, keys, language)

        self._tell(person, (kind,), task, message)

    def _tell(
        self,
        person: Person,
        kinds: tuple[NoticeKind, ...],
        task: Task,
        compose: Callable[[NoticeKind], Coroutine[Any, Any, Message]],
    ) -> None:
        wishes = task.spec.notify or person.notify
        channels = told_over(wishes, kinds, self.channels.names(person))
        if not channels:
            return
        desk, kind = self._desk(person.name), kinds[0]
        if not self._admits(desk):
            self._hold(person.name, desk, kind)
            return
        self._start(self._send(person.name, kind, str(task.key), channels, compose))

    def _admits(self, desk: _Desk) -> bool:
        """Whether this hour may bring one more; it is counted then."""
        now, most = asyncio.get_running_loop().time(), self._rules.notices_per_hour
        while desk.sent_at and desk.sent_at[0] <= now - HOUR_S:
            desk.sent_at.popleft()
        if most and len(desk.sent_at) >= most:
            return False
        desk.sent_at.append(now)
        return True

    def _hold(self, person: str, desk: _Desk, kind: str) -> None:
        first = not desk.held
        desk.held[kind] += 1
        if first:
            oldest = desk.sent_at[0] if desk.sent_at else 0.0
            wait = oldest + HOUR_S - asyncio.get_running_loop().time()
            self._later(max(wait, 0.0) + 1.0, lambda: self._more(person))

    def _more(self, name: str) -> None:
        """The hour is over: what it has brought on top is told as one."""
        desk, person = self._desk(name), self._reader(name)
        counts, desk.held = dict(desk.held), Counter()
        if person is None or not counts:
            return
        self._admits(desk)
        message = notice_text.about_more(counts, self._language_of(person))
        for channel in self.channels.names(person):
            self._enqueue(name, self._record(desk, "more", "", channel, message), message)

    # ---- sending

    async def _about(self, told: Told, kind: NoticeKind, person: Person) -> Message:
        end = told.task.end
        tail = b""
        if end is not None and end.outcome not in ("succeeded", "cancelled"):
            tail = await self._tail(told.task)
        return notice_text.about_task(told, kind, tail, self._language_of(person))

    async def _tail(self, task: Task) -> bytes:
        """The end of its output; none when that cannot be had soon."""
        if task.attempt is None:
            return b""
        for stream in reversed(list(streams(task.spec))):  # the error output first
            try:
                reading = logs.read(
                    self._flow, task.key, stream=stream, offset=-TAIL_READ, limit=TAIL_READ
                )
                part = await asyncio.wait_for(reading, TAIL_S)
            except (AppError, OSError, TimeoutError):
                continue
            if part.data.strip():
                return part.data
        return b""

    async def _send(
        self,
        person: str,
        kind: NoticeKind,
        task: str,
        channels: tuple[str, ...],
        compose: Callable[[NoticeKind], Coroutine[Any, Any, Message]],
    ) -> None:
        message = await compose(kind)
        desk = self._desk(person)
        for channel in channels:
            self._enqueue(person, self._record(desk, kind, task, channel, message), message)

    def _record(self, desk: _Desk, kind: str, task: str, channel: str, message: Message) -> Record:
        at = self._flow.clock.now()
        record = Record(at=at, kind=kind, task=task, channel=channel, subject=message.subject)
        desk.records.append(record)
        return record

    def _enqueue(self, person: str, record: Record, message: Message) -> None:
        lane = self._desk(person).lanes.setdefault(record.channel, _Lane())
        if len(lane.waiting) >= MOST_WAITING:
            oldest, _ = lane.waiting.popleft()
            oldest.state, oldest.why = "failed", "notice_dropped"
        lane.waiting.append((record, message))
        if not lane.is_busy:
            lane.is_busy = True
            self._start(self._empty(person, lane))

    async def _empty(self, person: str, lane: _Lane) -> None:
        try:
            while lane.waiting:
                record, message = lane.waiting.popleft()
                await self._deliver(person, record, message)
        finally:
            lane.is_busy = False

    async def _deliver(self, person: str, record: Record, message: Message) -> None:
        for pause in (*self._pauses_s, None):
            if not await self._try(person, record, message) or pause is None:
                break
            await asyncio.sleep(pause)
        if record.state == "waiting":
            record.state = "failed"
        if record.state == "failed":
            log.warning(
                "event=notice_failed person=%s channel=%s kind=%s task_id=%s reason=%s tries=%s",
                person, record.channel, record.kind, record.task, record.why, record.tries,
            )  # fmt: skip

    async def _try(self, person: str, record: Record, message: Message) -> bool:
        """Send it once. True: it did not arrive, and another try may mend that."""
        record.tries += 1
        try:
            await self.sender.send(await self._target(person, record.channel), message)
        except Undelivered as error:
            record.why, record.values = error.code, error.values
            return error.is_passing
        except AppError as error:  # the channel is gone, or its key
            record.why, record.values = error.code, error.values
            return False
        record.state, record.why, record.values = "sent", "", {}
        return False

    async def _target(self, name: str, channel: str) -> Mail | Web:
        if channel != MAIL:
            url = await self.channels.url(name, channel)
            return Web(url=url, local=split(self._rules.notice_hosts))
        person, server = self._flow.book.people.get(name), self._flow.book.mail
        if person is None or not person.email:
            raise UnknownChannel(channel=MAIL)
        if server is None:
            raise Conflict("no_mail_server")
        return Mail(server=server, password=await self.channels.password(), to=person.email)

    @property
    def _rules(self) -> Rules:
        return self._flow.book.rules

    def _language_of(self, person: Person) -> str:
        return person.language or self._language

    def _desk(self, person: str) -> _Desk:
        return self._desks.setdefault(person, _Desk())

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            act()

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers.add(timer)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("event=notice_broken error=%s", type(task.exception()).__name__)


def split(names: str) -> tuple[str, ...]:
    """A setting that is a list."""
    return tuple(name.strip().lower() for name in names.split(",") if name.strip())


def _kinds(told: Told) -> tuple[NoticeKind, ...]:
    """What this is to those who are told, the most telling first; () = nothing worth telling."""
    match told.kind:
        case "started":
            return ("started",)
        case "waiting_long":
            return ("waiting",)
        case "limit_near":
            return ("limit",)
        case "ended":
            return _of_end(told.task)


def _of_end(task: Task) -> tuple[NoticeKind, ...]:
    end = task.end
    if end is None or (end.outcome == "cancelled" and task.stopped_by in (None, task.owner)):
        return ()  # whoever cancels his own task knows
    return ("finished",) if end.outcome == "succeeded" else ("failed", "finished")
