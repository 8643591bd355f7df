"""Bringing a database to the present schema: forward only, in one transaction, backed up before.

Killed in the middle, a database is the old one or the new one. One that a newer Stoker has written
is refused. Alembic is imported only when there is something to do, so that a start stays quick.
"""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sa

from stoker.domain.errors import StoreError

from .database import keep_private

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(engine: sa.Engine, migrations: Path = MIGRATIONS) -> None:
    """Make the schema the newest in `migrations`."""
    newest = max(path.name[:4] for path in (migrations / "versions").glob("[0-9]*.py"))
    present = _present(engine)
    if present == newest:
        return
    if present > newest:
        raise StoreError("newer_database", found=present, known=newest)
    if present:
        _back_up(engine, present)
    from alembic import command  # noqa: PLC0415 - a tenth of a second, rarely needed
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _present(engine: sa.Engine) -> str:
    """The schema's number; "" = an empty database."""
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return ""
        return str(connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar())


def _back_up(engine: sa.Engine, present: str) -> None:
    """A copy beside the database, whole or not there. On a server that is its owner's affair."""
    if engine.dialect.name != "sqlite":
        return
    copy = f"{engine.url.database}.before-{present}"
    beside = f"{copy}.part"
    Path(beside).unlink(missing_ok=True)
    keep_private(Path(beside))
    raw = engine.raw_connection()
    try:
        cursor = raw.cursor()
        cursor.execute("VACUUM INTO ?", (beside,))
    finally:
        raw.close()
    with open(beside, "rb") as file:
        os.fsync(file.fileno())
    os.replace(beside, copy)
