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


UNFINISHED = sa.text("state <> 'FINISHED'")
"""Literally as in the partial index, which a database uses only then."""


ZERO: sa.ColumnClause[int] = sa.literal_column("0")
"""In the text: an offset that is not said becomes a parameter on SQLite."""


def in_states(states: frozenset[State]) -> sa.ColumnElement[bool]:
    return tasks.c.state.in_([sa.literal_column(f"'{state}'") for state in sorted(states)])


LISTED = (
    tasks.c.id, tasks.c.element, tasks.c.shown, tasks.c.why, events.c.spec,
)  # fmt: skip
"""What is read of a task to show it."""


CHANGING = (
    "attempts", "attempt", "node", "gpu_ids", "started_us", "finished_us", "stop_cause",
    "stopped_by", "outcome", "reason", "end", "shown", "why",
)  # fmt: skip
"""The columns of `codec.changing_part`."""


WAITING_TASK = (
    "id", "element", "owner", "state", "version", "position", "name", "spec_seq", "submitted_us",
    "shown",
)  # fmt: skip
"""The columns that say something about a task that has only been submitted. Binding the others,
all NULL, would cost as much again."""


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
            sa.insert(tasks).values(
                {name: sa.bindparam(name) for name in WAITING_TASK}
                | {"attempts": sa.literal_column("0"), "gpu_ids": sa.literal_column(f"'{NO_GPUS}'")}
            ),
        )
        self.new_event = insert(events)
        self.new_attempt = insert(attempts)
        self.new_allocation = insert(allocations)
        self.move_task = compiled(
            dialect,
            sa.update(tasks)
            .values({name: sa.bindparam(f"new_{name}") for name in ("state", "version", *CHANGING)})
            .where(
                tasks.c.id == sa.bindparam("id_"),
                tasks.c.element == sa.bindparam("element_"),
                tasks.c.version == sa.bindparam("before"),
            ),
        )
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
            sa.update(meta)
            .values(value=sa.bindparam("new"))
            .where(meta.c.key == sa.bindparam("key_")),
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

        is_task = (tasks.c.id == sa.bindparam("id_"), tasks.c.element == sa.bindparam("element_"))
        self.task = compiled(dialect, with_spec.where(*is_task))
        self.listed_task = compiled(dialect, with_spec.with_only_columns(*LISTED).where(*is_task))
        self.waiting = compiled(
            dialect,
            with_spec.with_only_columns(
                tasks.c.id, tasks.c.element, tasks.c.owner, tasks.c.state, tasks.c.position,
                tasks.c.version, events.c.spec,
            )
            .where(UNFINISHED, in_states(WAITING))
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
            dialect, select(*attempts.columns).where(attempts.c.id == sa.bindparam("id_"))
        )
        self.attempts_of = compiled(
            dialect,
            select(*attempts.columns)
            .where(
                attempts.c.task_id == sa.bindparam("id_"),
                attempts.c.element == sa.bindparam("element_"),
            )
            .order_by(attempts.c.ordinal),
        )
        self.events_of = compiled(
            dialect,
            select(*events.columns)
            .where(
                events.c.task_id == sa.bindparam("id_"),
                events.c.element == sa.bindparam("element_"),
            )
            .order_by(events.c.version),
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
        self.last_id = compiled(dialect, select(sa.func.max(tasks.c.id)))
        self.meta = compiled(
            dialect, sa.select(meta.c.value).where(meta.c.key == sa.bindparam("key_"))
        )
        self.events_after = compiled(
            dialect,
            select(*events.columns)
            .where(events.c.seq > sa.bindparam("after"))
            .order_by(events.c.seq)
            .limit(sa.bindparam("most"))
            .offset(ZERO),
        )
        self.counts = compiled(
            dialect,
            sa.union_all(
                select(tasks.c.state, sa.func.count()).where(UNFINISHED).group_by(tasks.c.state),
                select(sa.literal_column(f"'{State.FINISHED}'"), sa.func.count())
                .select_from(tasks)
                .where(sa.text("finished_us IS NOT NULL")),
            ),
        )
