"""Arrays, waiting with reasons, slots on cards, and positions that leave room between tasks.

The key of tasks tells elements from the others first. A key is changed by making the table anew, and
with it those that refer to it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ZERO = sa.text("0")
_REFERRING = ("allocations", "attempts", "tasks")
"""Each refers to the one behind it."""


def upgrade() -> None:
    for table in _REFERRING:
        op.rename_table(table, f"old_{table}")
    for index, table in (
        ("tasks_unfinished", "old_tasks"),
        ("tasks_finished", "old_tasks"),
        ("attempts_launches", "old_attempts"),
        ("allocations_exclusive", "old_allocations"),
    ):
        op.drop_index(index, table)
    _tasks()
    _attempts()
    _allocations()
    for table in _REFERRING:
        op.drop_table(f"old_{table}")
    op.add_column("events", sa.Column("spec_of", _Int))
    if op.get_context().dialect.name == "sqlite":  # no other database has old records
        _positions()
        _never_ran()


def _tasks() -> None:
    tasks = op.create_table(
        "tasks",
        sa.Column("id", _Int, nullable=False, autoincrement=False),
        sa.Column("element", _Int, nullable=False, autoincrement=False),
        sa.Column("is_whole", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("owner", _Text, nullable=False),
        sa.Column("state", _Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("position", _Int, nullable=False),
        sa.Column("name", _Text, nullable=False),
        sa.Column("spec_seq", _Int, nullable=False),
        sa.Column("submitted_us", _Int, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("attempt", _Text),
        sa.Column("node", _Text),
        sa.Column("gpu_ids", _Text, nullable=False),
        sa.Column("started_us", _Int),
        sa.Column("finished_us", _Int),
        sa.Column("stop_cause", _Text),
        sa.Column("stopped_by", _Text),
        sa.Column("outcome", _Text),
        sa.Column("reason", _Text),
        sa.Column("end", _Text),
        sa.Column("shown", _Text, nullable=False),
        sa.Column("why", _Text),
        sa.Column("anyway", sa.Integer, nullable=False, server_default=_ZERO),
        sa.Column("not_before_us", _Int),
        sa.Column("retried", sa.Integer, nullable=False, server_default=_ZERO),
        sa.Column("never_ran", sa.Integer, nullable=False, server_default=_ZERO),
        sa.Column("counts", _Text),
        sa.Column("origin", _Text),
        sa.Column("size", sa.Integer),
        sa.PrimaryKeyConstraint("is_whole", "id", "element"),
        sqlite_with_rowid=False,
    )
    kept = (
        "id", "element", "owner", "state", "version", "name", "spec_seq", "submitted_us",
        "attempts", "attempt", "node", "gpu_ids", "started_us", "finished_us", "stop_cause",
        "stopped_by", "outcome", "reason", "end", "why",
    )  # fmt: skip
    old = sa.table("old_tasks", *map(sa.column, (*kept, "position", "shown")))
    begun = sa.func.substr(old.c.shown, 1, sa.func.length(old.c.shown) - 1, type_=sa.Text)
    copy = sa.select(
        *(old.c[name] for name in kept),
        old.c.position * 2**32,
        begun + ',"origin":null,"array":null}',
        sa.literal(1),
    )
    op.execute(sa.insert(tasks).from_select([*kept, "position", "shown", "is_whole"], copy))
    for name, columns, where in (
        ("tasks_unfinished", ["state", "position", "id", "element"], "state <> 'FINISHED'"),
        (
            "tasks_finished",
            ["finished_us", "id", "element"],
            "finished_us IS NOT NULL AND element < 0",
        ),
    ):
        some = sa.text(where)
        op.create_index(name, "tasks", columns, sqlite_where=some, postgresql_where=some)


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", _Text, primary_key=True),
        sa.Column("task_id", _Int, nullable=False),
        sa.Column("element", _Int, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("node", _Text, nullable=False),
        sa.Column("allocation", _Text, nullable=False),
        sa.Column("boot_id", _Text, nullable=False),
        sa.Column("spool_id", _Text, nullable=False),
        sa.Column("launch_number", _Int, nullable=False),
        sa.Column("epoch", _Int, nullable=False),
        sa.Column("placed_us", _Int, nullable=False),
        sa.Column("started_us", _Int),
        sa.Column("ended_us", _Int),
        sa.Column("end", _Text),
        sa.Column("is_whole", sa.Integer, nullable=False),
        sa.UniqueConstraint("task_id", "element", "ordinal"),
        sa.ForeignKeyConstraint(
            ["is_whole", "task_id", "element"], ["tasks.is_whole", "tasks.id", "tasks.element"]
        ),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO attempts SELECT *, 1 FROM old_attempts")
    op.create_index("attempts_launches", "attempts", ["node", "launch_number"])


def _allocations() -> None:
    op.create_table(
        "allocations",
        sa.Column("attempt", _Text, sa.ForeignKey("attempts.id"), primary_key=True),
        sa.Column("gpu_uuid", _Text, primary_key=True),
        sa.Column("node", _Text, nullable=False),
        sa.Column("exclusive", sa.Integer, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False, server_default=_ZERO),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO allocations SELECT *, 0 FROM old_allocations")
    exclusive = sa.text("exclusive = 1")
    op.create_index(
        "allocations_exclusive",
        "allocations",
        ["node", "gpu_uuid", "slot"],
        unique=True,
        sqlite_where=exclusive,
        postgresql_where=exclusive,
    )


def _positions() -> None:
    """2**32 apart, in the events as in the rows that they make."""
    op.execute(
        "UPDATE events SET body ="
        " json_set(body, '$.position', json_extract(body, '$.position') * 4294967296)"
        " WHERE kind = 'Submitted'"
    )


def _never_ran() -> None:
    """How many of a task's last attempts, in a row, never ran."""
    op.execute(
        """
        UPDATE tasks SET never_ran = (
            SELECT count(*) FROM events AS lost
            WHERE lost.task_id = tasks.id AND lost.element = tasks.element
              AND lost.kind = 'Requeued' AND json_extract(lost.body, '$.end') IS NULL
              AND lost.version > coalesce((
                SELECT max(ran.version) FROM events AS ran
                WHERE ran.task_id = tasks.id AND ran.element = tasks.element
                  AND (ran.kind = 'Started'
                    OR ran.kind = 'Requeued' AND json_extract(ran.body, '$.end') IS NOT NULL)
              ), 0)
        )
        WHERE (id, element) IN (SELECT task_id, element FROM events WHERE kind = 'Requeued')
        """
    )
