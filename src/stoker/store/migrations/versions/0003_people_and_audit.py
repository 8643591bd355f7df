"""What the lab has decided (people, queues, settings, credentials), and the audit trail."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_Int = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "entries",
        sa.Column("kind", _Text, primary_key=True),
        sa.Column("name", _Text, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("body", _Text, nullable=False),
        sa.Column("secret", _Text),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "audit",
        sa.Column("seq", _Int, primary_key=True, autoincrement=False),
        sa.Column("at_us", _Int, nullable=False),
        sa.Column("body", _Text, nullable=False),
        sa.Column("hash", _Text, nullable=False),
    )
