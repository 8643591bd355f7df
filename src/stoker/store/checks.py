"""Whether the records are sound: every invariant that must hold, looked for in one snapshot.

Run after every test and by `doctor`. It reads the tables as they are and trusts none of them: the
events are replayed by the domain's own `apply`, and what they give must be what is stored. What
ties an array and its elements together is in `check_arrays`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
import sqlalchemy as sa
from msgspec import structs

from stoker.domain.attempt import Attempt
from stoker.domain.errors import InvalidTransition
from stoker.domain.event import Deleted, Ended, Event, Placed, Requeued, Started
from stoker.domain.key import PLAIN, TaskKey
from stoker.domain.lifecycle import LIVE, Task, replay

from .check_arrays import array_sentences
from .codec import Row, attempt_of_row, decode_spec, event_of, row_of_attempt, row_of_task
from .lab import LabRecords
from .reading import ReadPool
from .statements import ZERO, Cursor, Reads, compiled
from .sweeping import SWEEP, to_sweep
from .tables import allocations, attempts, events, tasks

CHUNK = 1000


def check(pool: ReadPool) -> list[str]:
    """Every broken invariant as a sentence; empty = sound."""
    with pool.snapshot() as cursor:
        found = list(_Check(pool.dialect, cursor).sentences())
    broken = LabRecords(pool).verify().broken
    if broken is not None:
        found.append(f"The audit trail is broken at act {broken}.")
    return found


class _Check:
    def __init__(self, dialect: sa.Dialect, cursor: Cursor) -> None:
        self._dialect = dialect
        self._cursor = cursor
        self._sql = Reads.on(dialect)
        noted = self._fetch(self._sql.meta.sql, (SWEEP,))
        self._to_sweep = frozenset(to_sweep(noted[0][0]) if noted else [])
        """Of the arrays with these ids, elements may be left."""

    def sentences(self) -> Iterator[str]:
        yield from self._file()
        yield from self._strays()
        yield from self._cards()
        yield from self._starts()
        for row in self._tasks():
            if not self._is_left(row[0], row[1]):
                yield from self._task(row)
        yield from array_sentences(self._dialect, self._cursor, self._to_sweep)

    def _file(self) -> Iterator[str]:
        if self._dialect.name == "sqlite":
            for (line,) in self._fetch("PRAGMA integrity_check"):
                if line != "ok":
                    yield f"The database file is damaged: {line}."

    def _strays(self) -> Iterator[str]:
        """Rows that belong to nothing, or to what was deleted."""
        is_deleted = events.c.kind == Deleted.__name__
        for table, id, element, more in (
            (events, events.c.task_id, events.c.element, ~is_deleted),
            (attempts, attempts.c.task_id, attempts.c.element, sa.true()),
        ):
            owner = sa.and_(tasks.c.id == id, tasks.c.element == element)
            stray = sa.select(id, element).outerjoin(tasks, owner).where(tasks.c.id.is_(None), more)
            for key in self._select(stray.distinct()):
                yield f"Task {TaskKey(*key)} has {table.name} but does not exist."
        left = sa.select(tasks.c.id, tasks.c.element).join(events, events.c.task_id == tasks.c.id)
        for key in self._select(left.where(is_deleted).distinct()):
            if not self._is_left(*key):
                yield f"Task {TaskKey(*key)} was deleted but is there."
        deleted = {row[0] for row in self._select(sa.select(events.c.task_id).where(is_deleted))}
        for array in sorted(self._to_sweep - deleted):
            yield f"Array {array} is to be swept away but was not deleted."
        held = sa.select(allocations.c.attempt).outerjoin(
            attempts, attempts.c.id == allocations.c.attempt
        )
        for (attempt,) in self._select(held.where(attempts.c.id.is_(None)).distinct()):
            yield f"Attempt {attempt} holds cards but does not exist."

    def _cards(self) -> Iterator[str]:
        """An exclusive allocation is alone in its slot, and shares its card with no shared one."""
        holders: dict[tuple[str, str], list[tuple[str, int, int]]] = defaultdict(list)
        for attempt, uuid, node, exclusive, slot in self._select(sa.select(*allocations.columns)):
            holders[node, uuid].append((attempt, exclusive, slot))
        for (node, uuid), held in sorted(holders.items()):
            slots = [slot for _, exclusive, slot in held if exclusive]
            others = [attempt for attempt, exclusive, _ in held if not exclusive]
            clash = len(set(slots)) < len(slots) or (slots and not all(map(self._reuses, others)))
            if clash:
                names = ", ".join(sorted(attempt for attempt, *_ in held))
                yield f"Card {uuid} of {node} is held exclusively and by several: {names}."

    def _reuses(self, attempt: str) -> bool:
        """Whether it may be where others are."""
        spec = (
            sa.select(events.c.spec)
            .join(tasks, tasks.c.spec_seq == events.c.seq)
            .where(tasks.c.attempt == attempt)
        )
        found = self._select(spec)
        return bool(found) and decode_spec(found[0][0]).mode == "reuse"

    def _starts(self) -> Iterator[str]:
        """An attempt starts at most once, whichever task says so."""
        seen: set[str] = set()
        started = sa.select(events.c.body).where(events.c.kind == Started.__name__)
        for (body,) in self._select(started):
            attempt = msgspec.json.decode(body).get("attempt")
            if attempt in seen:
                yield f"Attempt {attempt} started more than once."
            seen.add(attempt)

    def _task(self, row: Row) -> Iterator[str]:
        key = TaskKey(row[0], row[1])
        stored = self._fetch(self._sql.events_of.sql, tuple(key))
        yield from _history(key, row, stored)
        try:
            history = [event_of(kind, at, body, spec) for *_, at, kind, body, spec, _of in stored]
            task = replay(key, history)
        except (InvalidTransition, msgspec.MsgspecError, KeyError) as error:
            yield f"Task {key}: its events cannot be replayed: {error}."
            return
        yield from _as_replayed(task, row, stored)
        made = _attempts_from(key, history)
        found = [attempt_of_row(r) for r in self._fetch(self._sql.attempts_of.sql, tuple(key))]
        yield from _attempts(key, made, found)
        yield from self._holds(task, made)

    def _holds(self, task: Task, made: Sequence[Attempt]) -> Iterator[str]:
        """Cards are held by the current attempt of a live task, as placed, and by nothing else."""
        should: set[Row] = set()
        if task.state in LIVE and made:
            exclusive = int(task.spec.mode == "exclusive")
            held = made[-1].allocation
            should = {(made[-1].id, gpu.uuid, held.node, exclusive, gpu.slot) for gpu in held.gpus}
        found = set(self._fetch(self._sql.allocations_of.sql, tuple(task.key)))
        for attempt, uuid, node, *_ in sorted(found - should):
            yield (
                f"Task {task.key} is {task.state} and its attempt {attempt} holds card {uuid} of"
                f" {node}, which was not placed so."
            )
        for attempt, uuid, node, *_ in sorted(should - found):
            yield (
                f"Task {task.key} is {task.state} but its attempt {attempt} does not hold card"
                f" {uuid} of {node}."
            )

    def _tasks(self) -> Iterator[Row]:
        after: Row = (0, 0, PLAIN)
        here = sa.tuple_(tasks.c.is_whole, tasks.c.id, tasks.c.element)
        more = sa.tuple_(*(sa.bindparam(name) for name in ("is_whole_", "id_", "element_")))
        select = sa.select(*tasks.columns).where(here > more).order_by(*here.clauses)
        some = select.limit(sa.literal_column(str(CHUNK))).offset(ZERO)
        sql = compiled(self._dialect, some).sql
        while rows := self._fetch(sql, after):
            yield from rows
            id, element, is_whole, *_ = rows[-1]
            after = (is_whole, id, element)

    def _is_left(self, id: int, element: int) -> bool:
        return element != PLAIN and id in self._to_sweep

    def _select(self, select: sa.Select[tuple[object, ...]]) -> list[Row]:
        made = select.compile(dialect=self._dialect, compile_kwargs={"literal_binds": True})
        return self._fetch(str(made))

    def _fetch(self, sql: str, parameters: Row = ()) -> list[Row]:
        self._cursor.execute(sql, parameters)
        rows: list[Row] = self._cursor.fetchall()
        return rows


def _history(key: TaskKey, row: Row, stored: Sequence[Row]) -> Iterator[str]:
    """Versions count up without a gap, in the order of sequence numbers, and end with the end."""
    versions = [version for _seq, _id, _element, version, *_ in stored]
    at = row[tasks.columns.keys().index("version")]
    if versions != list(range(1, at + 1)):
        yield f"Task {key} is at version {at} but its events have versions {versions}."
    seqs = [seq for seq, *_ in stored]
    if seqs != sorted(seqs):
        yield f"Task {key}: its events are not in the order of their versions."
    kinds = [kind for *_, kind, _body, _spec, _of in stored]
    if Ended.__name__ in kinds[:-1]:
        yield f"Task {key} went on after its end: {', '.join(kinds)}."


def _as_replayed(task: Task, row: Row, stored: Sequence[Row]) -> Iterator[str]:
    """The stored row is what the events make."""
    spec_seq, spec = next(
        (of or seq, spec) for seq, *_, spec, of in reversed(stored) if spec is not None
    )
    if decode_spec(spec) != task.spec:
        yield f"Task {task.key}: its spec is {spec}, but its events make it another one."
    made = row_of_task(task, spec_seq)
    for name, is_, should in zip(tasks.columns.keys(), row, made, strict=True):
        if is_ != should:
            yield f"Task {task.key}: {name} is {is_!r}, but its events make it {should!r}."


def _attempts(key: TaskKey, made: Sequence[Attempt], found: Sequence[Attempt]) -> Iterator[str]:
    """Stored attempts are what the events tell, but for a launch number that was raised since."""
    if [attempt.id for attempt in made] != [attempt.id for attempt in found]:
        yield (
            f"Task {key} has attempts {[a.id for a in found]}, but its events tell of"
            f" {[a.id for a in made]}."
        )
        return
    for should, is_ in zip(made, found, strict=True):
        if is_.launch_number > should.launch_number:
            is_ = structs.replace(  # noqa: PLW2901
                is_, launch_number=should.launch_number, incarnation=should.incarnation
            )
        if is_ != should:
            yield f"Attempt {should.id} of task {key} is {is_}, but its events make it {should}."


def _attempts_from(key: TaskKey, history: Sequence[Event]) -> list[Attempt]:
    """The attempts that these events tell of, oldest first."""
    made: dict[str, Attempt] = {}
    for event in history:
        match event:
            case Placed():
                row = row_of_attempt(key, len(made) + 1, event)
                made[event.attempt] = attempt_of_row(row)
            case Started():
                made[event.attempt] = structs.replace(made[event.attempt], started_at=event.at)
            case Requeued() | Ended() if event.attempt is not None:
                ended = structs.replace(made[event.attempt], ended_at=event.at, end=event.end)
                made[event.attempt] = ended
            case _:
                pass
    return list(made.values())
