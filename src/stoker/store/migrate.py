"""Bringing a database to the present schema: forward only, in one transaction, backed up before.

Killed in the middle, a database is the old one or the new one. One that a newer Stoker has written
is refused. Alembic is imported only when there is something to do, so that a start stays quick.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from stoker.domain.errors import StoreError
from stoker.runner import killpoint

from .copying import snapshot_into

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(
    engine: sa.Engine, migrations: Path = MIGRATIONS, *, copy_beside: Path | None = None
) -> None:
    """Make the schema the newest in `migrations`.

    The copy that is made before is beside the database file; of a PostgreSQL database it is a SQLite
    file beside `copy_beside`, if that is given.
    """
    known, found = newest(migrations), present(engine)
    if found == known:
        return
    if found > known:
        raise StoreError("newer_database", found=found, known=known)
    if engine.dialect.name == "sqlite":
        copy_beside = Path(str(engine.url.database))
    if found and copy_beside is not None:
        name = f"{copy_beside.name}.before-{found}"
        snapshot_into(engine, copy_beside.with_name(name))
    from alembic import command  # noqa: PLC0415 - a tenth of a second, rarely needed
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        killpoint.reach(killpoint.MIGRATED)


def newest(migrations: Path = MIGRATIONS) -> str:
    """The schema's number that this program knows."""
    return max(path.name[:4] for path in (migrations / "versions").glob("[0-9]*.py"))


def present(engine: sa.Engine) -> str:
    """The schema's number of a database; "" = an empty one."""
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return ""
        return str(connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar())
