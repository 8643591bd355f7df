"""SQL that runs often, built from the tables once and kept as text for the driver.

Core makes the text, so that it is right for each database; the hot paths then run it on the
driver's own cursor, which costs a fraction of an execution through SQLAlchemy. Parameters are
positional, in the order of `parameters`.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, Self

import sqlalchemy as sa

from stoker.domain.lifecycle import LIVE, WAITING, State

from .codec import NO_GPUS
from .tables import allocations, attempts, events, meta, tasks


class Cursor(Protocol):
    """The part of a driver's cursor that we use."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, sql: str, parameters: Any = ..., /) -> Any: ...

    def executemany(self, sql: str, rows: Any, /) -> Any: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> Any: ...


class Statement(NamedTuple):
    sql: str
    parameters: tuple[str, ...]


def compiled(dialect: sa.Dialect, statement: sa.sql.ClauseElement, *columns: str) -> Statement:
    """The statement as text; `columns` are those of an INSERT."""
    made: Any = statement.compile(
        dialect=dialect,
        column_keys=list(columns) or None,
        compile_kwargs={"render_postcompile": True},
    )
    return Statement(str(made), tuple(made.positiontup or ()))


ZERO: sa.ColumnClause[int] = sa.literal_column("0")
"""In the text: an offset that is not said becomes a parameter on SQLite."""


ONE: sa.ColumnClause[int] = sa.literal_column("1")


WHOLE = tasks.c.is_whole == ONE
"""Plain tasks and arrays: one part of the table."""


ELEMENTS = tasks.c.is_whole == ZERO
"""The other part."""


ALSO_WHOLE = tasks.c.element < ZERO
"""WHOLE for rows that are found by an index, as in that index. To a database that has not counted,
the beginning of a key looks like a few rows."""


UNFINISHED = sa.text("state <> 'FINISHED'")
"""Literally as in the partial index, which a database uses only then."""


_array = tasks.alias("whole")


def has_array(id: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Whether there is a task or an array of this id."""
    return sa.exists().where(_array.c.is_whole == ONE, _array.c.id == id)


def is_there(id: sa.ColumnElement[int], element: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Whether a row of this key is to be seen: of a deleted array, what is left is not."""
    return sa.or_(element < ZERO, has_array(id))


def in_states(states: frozenset[State]) -> sa.ColumnElement[bool]:
    return tasks.c.state.in_([sa.literal_column(f"'{state}'") for state in sorted(states)])


LISTED = (
    tasks.c.id, tasks.c.element, tasks.c.shown, tasks.c.why, events.c.spec,
)  # fmt: skip
"""What is read of a task to show it."""


CHANGING = (
    "attempts", "attempt", "node", "gpu_ids", "started_us", "finished_us", "stop_cause",
    "stopped_by", "outcome", "reason", "end", "shown", "why", "anyway", "not_before_us", "retried",
    "never_ran", "counts",
)  # fmt: skip
"""The columns of `codec.changing_part`."""


MOVING = ("state", "version", "position", *CHANGING)
EDITING = ("state", "version", "position", "name", "spec_seq", *CHANGING, "size")
"""What an event changes of a task, and what an edit does: in the order of the columns, which is the
order of the parameters."""


WAITING_TASK = (
    "id", "element", "owner", "state", "version", "position", "name", "spec_seq", "submitted_us",
    "shown",
)  # fmt: skip
"""The columns that say something about a task that has only been submitted. Binding the others,
all NULL, would cost as much again."""


TOLD = (
    events.c.seq, events.c.task_id, events.c.element, events.c.version, events.c.at_us,
    events.c.kind, events.c.body,
)  # fmt: skip
"""An event without the spec it may have."""


EVENT = (*(column.name for column in TOLD), "spec")
UNFOLDED_EVENT = (*(column.name for column in TOLD), "spec_of")


_IS_META = meta.c.key == sa.bindparam("key_")
_META = sa.select(meta.c.value).where(_IS_META)


class _Prepared:
    """Statements of one kind of database, compiled once: that takes longer than opening one."""

    _made: ClassVar[dict[tuple[type, str], Any]] = {}

    def __init__(self, dialect: sa.Dialect) -> None: ...

    @classmethod
    def on(cls, dialect: sa.Dialect) -> Self:
        key = (cls, dialect.name)
        if key not in cls._made:
            cls._made[key] = cls(dialect)
        made: Self = cls._made[key]
        return made


class Writes(_Prepared):
    """What the recorder runs."""

    def __init__(self, dialect: sa.Dialect) -> None:
        def insert(table: sa.Table) -> Statement:
            return compiled(dialect, sa.insert(table), *table.columns.keys())

        self.new_task = insert(tasks)
        self.new_waiting_task = compiled(
            dialect,
            sa.insert(tasks)
            .values(
                {name: sa.bindparam(name) for name in WAITING_TASK}
                | {"attempts": ZERO, "gpu_ids": sa.literal_column(f"'{NO_GPUS}'")}
                | {"is_whole": ONE}
            )
            .inline(),  # nobody asks for the key back
        )
        self.new_event = compiled(dialect, sa.insert(events), *EVENT)
        self.new_unfolded_event = compiled(dialect, sa.insert(events), *UNFOLDED_EVENT)
        self.new_attempt = insert(attempts)
        self.new_allocation = insert(allocations)
        self.move_task = compiled(dialect, _update(MOVING))
        self.edit_task = compiled(dialect, _update(EDITING))
        is_open = sa.and_(attempts.c.id == sa.bindparam("id_"), attempts.c.ended_us.is_(None))
        self.start_attempt = compiled(
            dialect,
            sa.update(attempts).values(started_us=sa.bindparam("at")).where(is_open),
        )
        self.end_attempt = compiled(
            dialect,
            sa.update(attempts)
            .values({"ended_us": sa.bindparam("at"), "end": sa.bindparam("how")})
            .where(is_open),
        )
        self.free = compiled(
            dialect, sa.delete(allocations).where(allocations.c.attempt == sa.bindparam("id_"))
        )
        self.renumber = compiled(
            dialect,
            sa.update(attempts)
            .values(
                launch_number=sa.bindparam("after"),
                boot_id=sa.bindparam("boot"),
                spool_id=sa.bindparam("spool"),
            )
            .where(
                is_open,
                attempts.c.started_us.is_(None),
                attempts.c.launch_number == sa.bindparam("before"),
            ),
        )
        self.set_meta = compiled(
            dialect,
            sa.update(meta).values(value=sa.bindparam("new")).where(_IS_META),
        )
        self.new_meta = insert(meta)
        self.whole = compiled(
            dialect,
            sa.select(tasks.c.version, tasks.c.spec_seq).where(
                tasks.c.id == sa.bindparam("id_"), WHOLE
            ),
        )
        self._of_deleting(dialect)

    def _of_deleting(self, dialect: sa.Dialect) -> None:
        is_of: sa.BindParameter[int] = sa.bindparam("id_")
        self.live_row = compiled(  # a sum has no index: there may be far more rows than live ones
            dialect,
            sa.select(tasks.c.id).where(UNFINISHED, in_states(LIVE), tasks.c.id + ZERO == is_of),
        )
        self.some_element = compiled(
            dialect,
            sa.select(tasks.c.element).where(ELEMENTS, tasks.c.id == is_of).limit(ONE).offset(ZERO),
        )
        first = (
            sa.select(events.c.element)
            .where(events.c.task_id == is_of, events.c.element >= ZERO)
            .order_by(events.c.element)
            .limit(sa.bindparam("most"))
            .offset(ZERO)
            .subquery()
        )
        self.first_elements = compiled(
            dialect, sa.select(sa.func.max(first.c.element), sa.func.count())
        )

        def erase(table: sa.Table, id: sa.Column[int], *more: sa.ColumnElement[bool]) -> Statement:
            some = table.c.element.between(sa.bindparam("first"), sa.bindparam("last"))
            return compiled(dialect, sa.delete(table).where(*more, id == is_of, some))

        self.erase_tasks = erase(tasks, tasks.c.id, tasks.c.is_whole.in_([ZERO, ONE]))
        self.erase_events = erase(events, events.c.task_id)
        self.erase_attempts = erase(attempts, attempts.c.task_id)
        self.meta = compiled(dialect, _META)
        self.drop_meta = compiled(dialect, sa.delete(meta).where(_IS_META))


def _update(names: tuple[str, ...]) -> sa.Update:
    return (
        sa.update(tasks)
        .values({name: sa.bindparam(f"new_{name}") for name in names})
        .where(
            tasks.c.is_whole == sa.bindparam("is_whole_"),
            tasks.c.id == sa.bindparam("id_"),
            tasks.c.element == sa.bindparam("element_"),
            tasks.c.version == sa.bindparam("before"),
        )
    )


def _is_task() -> tuple[sa.ColumnElement[bool], ...]:
    return (
        tasks.c.is_whole.in_([ZERO, ONE]),  # so that the key is used
        tasks.c.id == sa.bindparam("id_"),
        tasks.c.element == sa.bindparam("element_"),
        is_there(tasks.c.id, tasks.c.element),
    )


class Reads(_Prepared):
    """What flow asks, and what the API shows of one task."""

    def __init__(self, dialect: sa.Dialect) -> None:
        def select(*columns: Any) -> sa.Select[Any]:
            return sa.select(*columns)

        with_spec = select(*tasks.columns, events.c.spec).join(
            events, events.c.seq == tasks.c.spec_seq
        )
        order = (tasks.c.position, tasks.c.id, tasks.c.element)

        is_task = _is_task()
        self.task = compiled(dialect, with_spec.where(*is_task))
        self.listed_task = compiled(dialect, with_spec.with_only_columns(*LISTED).where(*is_task))
        self.waiting = compiled(
            dialect,
            with_spec.with_only_columns(
                tasks.c.id, tasks.c.element, tasks.c.owner, tasks.c.state, tasks.c.position,
                tasks.c.version, tasks.c.submitted_us, tasks.c.not_before_us, tasks.c.anyway,
                tasks.c.attempts, tasks.c.never_ran, events.c.spec,
            )
            .where(UNFINISHED, in_states(WAITING), is_there(tasks.c.id, tasks.c.element))
            .order_by(*order),
        )  # fmt: skip
        self.live = compiled(
            dialect,
            with_spec.add_columns(*attempts.columns)
            .join(attempts, attempts.c.id == tasks.c.attempt)
            .where(UNFINISHED, in_states(LIVE))
            .order_by(*order),
        )
        self.attempt = compiled(
            dialect,
            select(*attempts.columns).where(
                attempts.c.id == sa.bindparam("id_"),
                is_there(attempts.c.task_id, attempts.c.element),
            ),
        )
        self.attempts_of = compiled(
            dialect,
            select(*attempts.columns)
            .where(
                attempts.c.task_id == sa.bindparam("id_"),
                attempts.c.element == sa.bindparam("element_"),
                is_there(attempts.c.task_id, attempts.c.element),
            )
            .order_by(attempts.c.ordinal),
        )
        is_event_of = (
            events.c.task_id == sa.bindparam("id_"),
            events.c.element == sa.bindparam("element_"),
            is_there(events.c.task_id, events.c.element),
        )
        shared = events.alias("shared")
        spec = sa.func.coalesce(events.c.spec, shared.c.spec)
        self.events_of = compiled(
            dialect,
            select(*TOLD, spec, events.c.spec_of)
            .outerjoin_from(events, shared, shared.c.seq == events.c.spec_of)
            .where(*is_event_of)
            .order_by(events.c.version),
        )
        self.told_of = compiled(
            dialect, select(*TOLD).where(*is_event_of).order_by(events.c.version)
        )
        self.allocations_of = compiled(
            dialect,
            select(*allocations.columns)
            .join(attempts, attempts.c.id == allocations.c.attempt)
            .where(
                attempts.c.task_id == sa.bindparam("id_"),
                attempts.c.element == sa.bindparam("element_"),
            ),
        )
        self.highest_launch = compiled(
            dialect,
            select(sa.func.max(attempts.c.launch_number)).where(
                attempts.c.node == sa.bindparam("node_")
            ),
        )
        self.last_seq = compiled(dialect, select(sa.func.max(events.c.seq)))
        self.first_seq = compiled(dialect, select(sa.func.min(events.c.seq)))
        self.last_id = compiled(dialect, select(sa.func.max(tasks.c.id)).where(WHOLE))
        self.last_told_id = compiled(dialect, select(sa.func.max(events.c.task_id)))
        self.meta = compiled(dialect, _META)
        self.events_after = compiled(
            dialect,
            select(*TOLD)
            .where(events.c.seq > sa.bindparam("after"))
            .order_by(events.c.seq)
            .limit(sa.bindparam("most"))
            .offset(ZERO),
        )
        self.owned_after = compiled(
            dialect,
            select(*TOLD, tasks.c.owner)
            .select_from(events.outerjoin(tasks, sa.and_(WHOLE, tasks.c.id == events.c.task_id)))
            .where(events.c.seq > sa.bindparam("after"))
            .order_by(events.c.seq)
            .limit(sa.bindparam("most"))
            .offset(ZERO),
        )
        self.counts = compiled(
            dialect,
            sa.union_all(
                select(tasks.c.state, sa.func.count())
                .where(UNFINISHED, ALSO_WHOLE)
                .group_by(tasks.c.state),
                select(sa.literal_column(f"'{State.FINISHED}'"), sa.func.count())
                .select_from(tasks)
                .where(tasks.c.finished_us.is_not(None), ALSO_WHOLE),
            ),
        )
        self._of_arrays(dialect)

    def _of_arrays(self, dialect: sa.Dialect) -> None:
        self.arrays = compiled(
            dialect,
            sa.select(tasks.c.id)
            .where(UNFINISHED, in_states(WAITING | LIVE), ALSO_WHOLE, tasks.c.size.is_not(None))
            .order_by(tasks.c.id),
        )
        # In a run of neighbours an index grows as fast as its rank: their difference names the run.
        rank = sa.func.row_number().over(order_by=tasks.c.element)
        each = (
            sa.select(
                (tasks.c.element - rank).label("run"),
                tasks.c.element,
                tasks.c.state,
                tasks.c.outcome,
            )
            .where(ELEMENTS, tasks.c.id == sa.bindparam("id_"))
            .subquery()
        )
        alike = (each.c.run, each.c.state, each.c.outcome)
        self.element_runs = compiled(
            dialect,
            sa.select(
                *alike, sa.func.min(each.c.element), sa.func.max(each.c.element), sa.func.count()
            ).group_by(*alike),
        )
        self.ended_elements = compiled(
            dialect,
            sa.select(tasks.c.element, tasks.c.outcome).where(
                ELEMENTS,
                tasks.c.id == sa.bindparam("id_"),
                tasks.c.outcome.is_not(None),
                tasks.c.outcome != sa.literal_column("'succeeded'"),
            ),
        )
        self.outcome = compiled(
            dialect,
            sa.select(tasks.c.outcome).where(*_is_task()),
        )
        self.attempt_ids = compiled(
            dialect,
            sa.select(attempts.c.id)
            .where(attempts.c.task_id == sa.bindparam("id_"))
            .order_by(attempts.c.element, attempts.c.ordinal),
        )
