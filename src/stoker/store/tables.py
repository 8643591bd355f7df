"""The tables. Migrations make them; a test says that migrations and this file agree.

A spec is stored once, in the event that brought it (`events.spec`); `tasks.spec_seq` points there,
and so do the elements of an array (`events.spec_of`). So task rows stay small: scans, updates and
batches are fast, and nothing is written twice.
Instants are integer microseconds UTC. What a query filters or sorts by has a column; the rest is
msgspec JSON (text: Python's sqlite3 binds it twice as fast as bytes), so that a new field needs no
migration.
"""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

_Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Compared byte by byte, and only ASCII letters have two cases: as SQLite does."""

_UNFINISHED = sa.text("state <> 'FINISHED'")
_EXCLUSIVE = sa.text("exclusive = 1")
_ZERO = sa.text("0")

tasks = sa.Table(
    "tasks",
    metadata,
    sa.Column("id", _Int, nullable=False, autoincrement=False),
    sa.Column("element", _Int, nullable=False, autoincrement=False),
    # A key's columns come first: the integrity check of SQLite 3.40 mistakes others for missing.
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
    sa.Column("size", sa.Integer),  # of an array: how many elements; NULL = it is none
    # Tasks and whole arrays stand together by id, behind the elements of each array: every list
    # walks the table itself, no elements are in its way, and what is new is put at the end.
    sa.PrimaryKeyConstraint("is_whole", "id", "element"),
    sqlite_with_rowid=False,  # rows are small: one tree instead of table and index
)
sa.Index(
    "tasks_unfinished",
    tasks.c.state,
    tasks.c.position,
    tasks.c.id,
    tasks.c.element,
    sqlite_where=_UNFINISHED,
    postgresql_where=_UNFINISHED,
)
# Never "column = value" here, where a key is looked up by that column: SQLite would plan each look-up
# again, since the value that is bound decides whether the index may be used.
_WHOLE_ENDED = sa.text("finished_us IS NOT NULL AND element < 0")
sa.Index(
    "tasks_finished",
    tasks.c.finished_us,
    tasks.c.id,
    tasks.c.element,
    sqlite_where=_WHOLE_ENDED,
    postgresql_where=_WHOLE_ENDED,
)

events = sa.Table(
    "events",
    metadata,
    # Given by the writer, not by the database: known before the insert, never used twice.
    sa.Column("seq", _Int, primary_key=True, autoincrement=False),
    # No foreign key: it would cost every submit a look-up, and `check` finds strays.
    sa.Column("task_id", _Int, nullable=False),
    sa.Column("element", _Int, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("at_us", _Int, nullable=False),
    sa.Column("kind", _Text, nullable=False),
    sa.Column("body", _Text, nullable=False),
    sa.Column("spec", _Text),
    sa.Column("spec_of", _Int),  # of an array's element: the event that has its spec
    sa.UniqueConstraint("task_id", "element", "version"),
)

attempts = sa.Table(
    "attempts",
    metadata,
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
sa.Index("attempts_launches", attempts.c.node, attempts.c.launch_number)

allocations = sa.Table(
    "allocations",
    metadata,
    sa.Column("attempt", _Text, sa.ForeignKey("attempts.id"), primary_key=True),
    sa.Column("gpu_uuid", _Text, primary_key=True),
    sa.Column("node", _Text, nullable=False),
    sa.Column("exclusive", sa.Integer, nullable=False),
    sa.Column("slot", sa.Integer, nullable=False, server_default=_ZERO),
    sqlite_with_rowid=False,
)
"""Cards that live attempts hold. A row goes when its attempt is over."""
sa.Index(
    "allocations_exclusive",
    allocations.c.node,
    allocations.c.gpu_uuid,
    allocations.c.slot,
    unique=True,
    sqlite_where=_EXCLUSIVE,
    postgresql_where=_EXCLUSIVE,
)

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", _Text, primary_key=True),
    sa.Column("value", _Text, nullable=False),
    sqlite_with_rowid=False,
)
"""epoch: how often a server has started on these records. database: which records these are.
kept.<name>: what `remember` was given. sweep: ids of deleted arrays that left elements."""


entries = sa.Table(
    "entries",
    metadata,
    sa.Column("kind", _Text, primary_key=True),
    sa.Column("name", _Text, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("body", _Text, nullable=False),
    sa.Column("secret", _Text),
    sqlite_with_rowid=False,
)
"""What the lab has decided, and who is who: people, teams, queues, settings, credentials. `secret`: the
hash of a password, or what is sealed; never read together with the rest."""

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("seq", _Int, primary_key=True, autoincrement=False),
    sa.Column("at_us", _Int, nullable=False),
    sa.Column("body", _Text, nullable=False),
    sa.Column("hash", _Text, nullable=False),
)
"""Who did what, only ever appended. Each hash is made of the one before and of this row."""
