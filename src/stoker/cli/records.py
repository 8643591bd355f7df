"""Which records a command about them means: those of the state folder, wherever they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.config import load
from stoker.domain.errors import StoreError
from stoker.store.pending import is_pending

from .say import refuse_code

if TYPE_CHECKING:
    import sqlalchemy as sa


def settled() -> tuple[Path, str]:
    """The state folder and its database. Refused while a restore is half done."""
    settings = load(os.environ, {}).settings
    if is_pending(settings.home):
        refuse_code("restore_pending")
    return settings.home, settings.database or str(settings.home / "stoker.db")


def existing(database: str) -> sa.URL:
    """Its address; refused when it is a file that is not there."""
    from stoker.store.database import as_url

    url = as_url(database)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).is_file():
        raise StoreError("no_records", path=str(url.database))
    return url


@contextmanager
def understood(*urls: sa.URL) -> Iterator[None]:
    """What a database says while it is at work becomes a refusal, without its password."""
    import sqlalchemy

    from stoker.domain.errors import StoreDown
    from stoker.store import postgres

    try:
        yield
    except sqlalchemy.exc.DBAPIError as error:
        servers = [url for url in urls if url.get_backend_name() != "sqlite"]
        if servers and type(error.orig).__module__.startswith("psycopg"):
            raise postgres.refusal(servers[0], error.orig or error) from None
        raise StoreDown(why=str(error.orig)) from None


def shown(url: sa.URL) -> str:
    """For people: no password, and nothing of what may follow the name."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    user = f"{url.username}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    return f"{url.get_backend_name()}://{user}{url.host or ''}{port}/{url.database or ''}"
