"""Tasks, their events, attempts, the cards they hold, and what is known of the records."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    _tasks()
    _events()
    _attempts()
    _meta()


def _tasks() -> None:
    op.create_table(
        "tasks",
        sa.Column("id", _Int, primary_key=True, autoincrement=False),
        sa.Column("element", _Int, primary_key=True, autoincrement=False),
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
        sqlite_with_rowid=False,
    )
    unfinished = sa.text("state <> 'FINISHED'")
    op.create_index(
        "tasks_unfinished",
        "tasks",
        ["state", "position"],
        sqlite_where=unfinished,
        postgresql_where=unfinished,
    )
    finished = sa.text("finished_us IS NOT NULL")
    op.create_index(
        "tasks_finished",
        "tasks",
        ["finished_us", "id", "element"],
        sqlite_where=finished,
        postgresql_where=finished,
    )


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", _Int, primary_key=True, autoincrement=False),
        sa.Column("task_id", _Int, nullable=False),
        sa.Column("element", _Int, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("at_us", _Int, nullable=False),
        sa.Column("kind", _Text, nullable=False),
        sa.Column("body", _Text, nullable=False),
        sa.Column("spec", _Text),
        sa.UniqueConstraint("task_id", "element", "version"),
    )


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
        sa.UniqueConstraint("task_id", "element", "ordinal"),
        sa.ForeignKeyConstraint(["task_id", "element"], ["tasks.id", "tasks.element"]),
        sqlite_with_rowid=False,
    )
    op.create_index("attempts_launches", "attempts", ["node", "launch_number"])
    op.create_table(
        "allocations",
        sa.Column("attempt", _Text, sa.ForeignKey("attempts.id"), primary_key=True),
        sa.Column("gpu_uuid", _Text, primary_key=True),
        sa.Column("node", _Text, nullable=False),
        sa.Column("exclusive", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    exclusive = sa.text("exclusive = 1")
    op.create_index(
        "allocations_exclusive",
        "allocations",
        ["node", "gpu_uuid"],
        unique=True,
        sqlite_where=exclusive,
        postgresql_where=exclusive,
    )


def _meta() -> None:
    meta = op.create_table(
        "meta",
        sa.Column("key", _Text, primary_key=True),
        sa.Column("value", _Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.bulk_insert(
        meta,
        [{"key": "epoch", "value": "0"}, {"key": "database", "value": secrets.token_hex(16)}],
    )
