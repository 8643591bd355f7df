"""Records of many finished tasks, made without running any."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stoker.store.recorder import open_store

from .builders import a_spec, ended, new, placed, started


def record_many(home: Path, count: int) -> None:
    """So many of them, each so large that a few thousand fill far more than any socket's buffer."""
    store = open_store(home / "stoker.db")
    spec = a_spec(description="炼丹" * 1990)

    async def fill() -> None:
        for first in range(1, count + 1, 500):
            await store.record(
                [
                    new(id, spec, placed(f"a{id}", number=id), started(f"a{id}"), ended(f"a{id}"))
                    for id in range(first, min(first + 500, count + 1))
                ]
            )

    asyncio.run(fill())
    store.close()
