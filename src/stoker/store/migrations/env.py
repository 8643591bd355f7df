"""How Alembic runs here: on the connection it is given, inside that connection's transaction."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    transactional_ddl=True,  # off by default for SQLite, where it works since we BEGIN ourselves
)
with context.begin_transaction():
    context.run_migrations()
